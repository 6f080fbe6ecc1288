// The router: one boxed kernel for every operator. It checks devices, asks the plan which tier runs, and runs it.
#include <ATen/core/op_registration/adaption.h>
#include <torch/library.h>

#include "call.h"
#include "explain.h"

namespace torch_fl {
namespace {

uint64_t log2_bucket(int64_t n) { return n <= 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(n)); }

[[noreturn]] void mixed_devices(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", a.device(),
              " and ", b.device(), "!");
  __builtin_unreachable();
}

// Goes over the arguments once: finds the device, refuses mixtures, and gathers the plan's signature.
class Scan {
 public:
  Scan(Call& call, Signature* signature) : call_(call), signature_(signature) {}

  void run() {
    for (size_t i = 0; i < call_.info.args.size(); ++i) {
      const auto& value = call_.arg(i);
      const auto& info = call_.info.args[i];
      if (value.isTensor()) {
        add(value.toTensor(), info, i);
      } else if (value.isTensorList()) {
        for (const auto& item : value.toListRef()) add(item.toTensor(), info, i);
      } else if (value.isOptionalTensorList()) {
        for (const auto& item : value.toListRef())
          if (item.isTensor()) add(item.toTensor(), info, i);
      } else if (info.device && value.isDevice() && !first_) {
        index_ = value.toDevice().index();
      }
    }
    if (first_) {
      index_ = first_->device().index();
      for (const auto* t : others_) check(*t);
    }
    call_.device = &device_at(index_);
  }

 private:
  void add(const at::Tensor& t, const ArgInfo& info, size_t i) {
    if (!t.defined()) return;
    if (is_ral(t)) {
      if (!first_) {
        first_ = &t;
      } else if (C10_UNLIKELY(t.device().index() != first_->device().index())) {
        mixed_devices(*first_, t);
      }
      if (!info.out) {
        const auto dtype = to_ral_dtype(t.scalar_type());
        signature_->all_types_known &= dtype >= 0;
        const bool strided = t.layout() == at::kStrided;
        const bool contiguous = strided && t.is_contiguous();
        const int64_t n = strided ? t.numel() : 0;
        signature_->operands.push_back({dtype, static_cast<int>(t.dim()), contiguous, n});
        mix(static_cast<uint64_t>(dtype + 1) | static_cast<uint64_t>(t.dim()) << 8 |
            static_cast<uint64_t>(contiguous) << 16 | log2_bucket(n) << 20 |
            static_cast<uint64_t>(strided ? largest_small(t) : 0) << 32);
      }
      return;
    }
    if (info.written || !t.device().is_cpu() || !(t.dim() == 0 || call_.info.cpu_operands) ||
        (call_.info.one_device && !call_.info.cpu_operands)) {
      others_.push_back(&t);
    }
    mix(0x5ull + i);
  }

  // Tall, wide and square operands of one element count differ for matrix products and reductions.
  static uint64_t largest_small(const at::Tensor& t) {
    return t.dim() >= 2 ? log2_bucket(t.size(-1)) << 8 | log2_bucket(t.size(-2)) : 0;
  }

  void check(const at::Tensor& t) const {
    if (t.device() == first_->device()) return;
    if (call_.info.one_device && !call_.info.cpu_operands) {
      c10::impl::common_device_check_failure(first_->device(), t, "wrapper_PrivateUse1", call_.info.base_name.c_str());
    }
    mixed_devices(*first_, t);
  }

  void mix(uint64_t word) {
    signature_->hash = (signature_->hash ^ word) * 0x100000001b3ull;
    signature_->hash ^= signature_->hash >> 29;
  }

  Call& call_;
  Signature* signature_;
  const at::Tensor* first_ = nullptr;
  c10::DeviceIndex index_ = -1;
  c10::SmallVector<const at::Tensor*, 4> others_;
};

[[noreturn]] void no_tier(const Call& call, const Plan& plan) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ral: no tier may run aten::", call.info.overload_name, " on ral:",
                              call.device->index(), ". ", plan.refusal(), ". Add 'cpu' to RAL_FALLBACK (now ",
                              ral::KernelRouter::get().policy().text(), ") to let it run on the host.");
  __builtin_unreachable();
}

void run(Call& call, Plan& plan) {
  auto tier = plan.choose();
  if (tier == ral::Tier::Native) {
    const bool probing = plan.probing();
    int64_t ns = 0;
    std::string why;
    if (run_native(call, plan, ral::trace::enabled() ? plan.reason_id(tier) : 0, probing, &ns, &why) ==
        NativeOutcome::Ran) {
      if (probing) plan.measured(tier, ns);
      return;
    }
    plan.refuse_native(why);
    tier = plan.choose();
  }
  if (tier == ral::Tier::None) no_tier(call, plan);
  if (C10_UNLIKELY(plan.wants_preparation())) prepare_in_background(call, plan);
  const auto ns = run_on_host(call, ral::trace::enabled() ? plan.reason_id(ral::Tier::Cpu) : 0);
  if (C10_UNLIKELY(plan.probing())) plan.measured(ral::Tier::Cpu, ns);
}

}  // namespace

void boxed_router(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  auto& info = op_info(op);
  TORCH_CHECK_NOT_IMPLEMENTED(!info.returns_view, "ral: aten::", info.overload_name,
                              " makes a view and has no ral form; please report it with this text");
  Call call{info, *stack, stack->size() - info.args.size()};
  Signature signature;
  Scan(call, &signature).run();
  sync_observer();
  auto& plan = plan_for(info, *call.device, signature);
  if (C10_UNLIKELY(explaining())) explain_and_leave(call, plan);
  guarded([&] { run(call, plan); });
}

void register_router() {
  // Every operator with a CPU kernel of its own is kept whole: without this, composite kernels would take it apart
  // before the router sees it (native_layer_norm would become eight operators).
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    bool view = false;
    for (const auto& ret : op->schema().returns()) view |= ret.alias_info() && !ret.alias_info()->isWrite();
    if (view) continue;
    const auto qualified = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(qualified.c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed_router>());
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_router>()); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_router>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_router>()); }
// Without these every operator would stop under autocast.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace torch_fl
