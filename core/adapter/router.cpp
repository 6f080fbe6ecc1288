// The router: one boxed kernel for every operator. It checks devices, asks the plan which tier runs, and runs it.
#include <ATen/core/op_registration/adaption.h>
#include <torch/library.h>

#include "call.h"
#include "explain.h"
#include "hot_ops.h"
#include "scan.h"

namespace torch_fl {
namespace {

// Scans a boxed call and sets its device.
void scan(Call& call, Signature* signature) {
  Scan walk(call.info, signature);
  c10::DeviceIndex index = -1;
  for (size_t i = 0; i < call.info.args.size(); ++i) {
    const auto& value = call.arg(i);
    const auto& arg = call.info.args[i];
    if (value.isTensor()) {
      walk.add(value.toTensor(), arg, i);
    } else if (value.isTensorList()) {
      for (const auto& item : value.toListRef()) walk.add(item.toTensor(), arg, i);
    } else if (value.isOptionalTensorList()) {
      for (const auto& item : value.toListRef())
        if (item.isTensor()) walk.add(item.toTensor(), arg, i);
    } else if (arg.device && value.isDevice()) {
      index = value.toDevice().index();
    }
  }
  call.device = &walk.device(index);
}

[[noreturn]] void no_tier(const Call& call, const Plan& plan) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ral: no tier may run aten::", call.info.overload_name,
                              " on ral:", call.device->index(), ". ", plan.refusal(),
                              ". Add 'cpu' to RAL_FALLBACK (now ", ral::KernelRouter::get().policy().text(),
                              ") to let it run on the host.");
  __builtin_unreachable();
}

// Arguments that PyTorch's shape function refuses: the CPU kernel says what is wrong, in the words that users know.
void run_wrong(Call& call, Plan& plan, const std::exception_ptr& error) {
  if (!ral::KernelRouter::get().policy().allows(ral::Tier::Cpu)) std::rethrow_exception(error);
  run_on_host(call, ral::trace::enabled() ? plan.reason_id(ral::Tier::Cpu) : 0, false);
}

void run(Call& call, Plan& plan) {
  auto tier = plan.choose();
  std::string why;
  std::exception_ptr error;
  if (tier == ral::Tier::Native) {
    const bool probing = plan.probing();
    int64_t ns = 0;
    const auto outcome =
        run_native(call, plan, ral::trace::enabled() ? plan.reason_id(tier) : 0, probing, &ns, &why, &error);
    if (outcome == KernelOutcome::Ran && probing) plan.measured(tier, ns);
    if (outcome == KernelOutcome::Ran) return;
    if (outcome == KernelOutcome::WrongArguments) return run_wrong(call, plan, error);
    plan.refuse_native(why);
    tier = plan.choose();
  }
  if (tier == ral::Tier::Reference) {
    why.clear();
    const auto outcome = run_reference(call, plan, ral::trace::enabled() ? plan.reason_id(tier) : 0, &why, &error);
    if (outcome == KernelOutcome::Ran) return;
    if (outcome == KernelOutcome::WrongArguments) return run_wrong(call, plan, error);
    plan.refuse_reference(why);
    tier = plan.choose();
  }
  if (tier == ral::Tier::None) no_tier(call, plan);
  if (C10_UNLIKELY(plan.wants_preparation())) prepare_in_background(call, plan);
  const bool probing = plan.probing();
  const auto ns = run_on_host(call, ral::trace::enabled() ? plan.reason_id(ral::Tier::Cpu) : 0, probing);
  if (C10_UNLIKELY(probing)) plan.measured(ral::Tier::Cpu, ns);
}

}  // namespace

void Scan::mixed_devices(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", a.device(),
              " and ", b.device(), "!");
  __builtin_unreachable();
}

void Scan::one_device_only(const at::Tensor& a, const at::Tensor& b, const OpInfo& info, size_t argument) {
  const auto method = "wrapper_PrivateUse1_" + info.base_name;
  c10::impl::common_device_check_failure(a.device(), b, method.c_str(),
                                         info.handle.schema().arguments()[argument].name().c_str());
  __builtin_unreachable();
}

void boxed_router(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  auto& info = op_info(op);
  TORCH_CHECK_NOT_IMPLEMENTED(!info.returns_view, "ral: aten::", info.overload_name,
                              " makes a view and has no ral form; please report it with this text");
  Call call{info, *stack, stack->size() - info.args.size()};
  Signature signature;
  scan(call, &signature);
  sync_observer();
  auto& plan = plan_for(info, *call.device, signature);
  if (C10_UNLIKELY(explaining())) explain_and_leave(call, plan);
  AllocatingOp op_name(info.trace_name());
  guarded([&] { run(call, plan); });
}

double time_plan_lookup(const at::Tensor& operand, int times) {
  auto& info = op_info(c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor"));
  torch::jit::Stack stack;
  torch::jit::push(stack, operand, operand, 1);
  Call call{info, stack, 0};
  const int64_t begin = ral::trace::now();
  for (int i = 0; i < times; ++i) {
    Signature signature;
    scan(call, &signature);
    plan_for(info, *call.device, signature);
  }
  return static_cast<double>(ral::trace::now() - begin) / times;
}

void register_router() {
  // Every operator with a CPU kernel of its own is kept whole: without this, composite kernels would take it apart
  // before the router sees it (native_layer_norm would become eight operators).
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  register_hot_ops(library);
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
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_router>());
}
// Without these every operator would stop under autocast.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace torch_fl
