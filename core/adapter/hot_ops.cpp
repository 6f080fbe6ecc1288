// Unboxed wrappers for hot operators. Where the plan says that the CPU kernel runs and nobody measures, they call it on
// aliases directly; every other case is boxed and takes the router's general way.
#include "hot_ops.h"

#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addcdiv_cpu_dispatch.h>
#include <ATen/ops/addcmul_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/eq_cpu_dispatch.h>
#include <ATen/ops/exp_cpu_dispatch.h>
#include <ATen/ops/fill_cpu_dispatch.h>
#include <ATen/ops/lerp_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/neg_cpu_dispatch.h>
#include <ATen/ops/relu_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/tanh_cpu_dispatch.h>
#include <ATen/ops/threshold_backward_cpu_dispatch.h>
#include <ATen/ops/zero_cpu_dispatch.h>

#include "call.h"
#include "explain.h"
#include "host_record.h"
#include "scan.h"

namespace torch_fl {
namespace {

// Arguments as the CPU kernel wants them: tensors as aliases, the rest as they are.
inline at::Tensor host_argument(const at::Tensor& t) {
  if (!is_ral(t)) return t;
  wait_for(t, "host op");
  return alias_as_cpu(t, false);
}
template <class T>
inline const T& host_argument(const T& value) {
  return value;
}

// What the trace wants to know of a call; empty and free where nothing is recorded.
class Recorder {
 public:
  Recorder(OpInfo& info, const ral::Device& device, Plan& plan) : info_(info), device_(device) {
    if (C10_LIKELY(!ral::trace::enabled())) return;
    active_ = true;
    run_.kernel = info.trace_kernel();
    run_.reason = plan.reason_id(ral::Tier::Cpu);
  }

  template <class... Args>
  void begin(const Args&... args) {
    if (C10_LIKELY(!active_)) return;
    c10::SmallVector<const at::Tensor*, 4> tensors;
    (note(&tensors, args), ...);
    run_.shapes = shapes_id(tensors);
    run_.begin = ral::trace::now();
  }
  void end() {
    if (C10_UNLIKELY(active_)) run_.end = ral::trace::now();
  }
  void emit(const at::Tensor& result, bool in_place) {
    if (C10_LIKELY(!active_)) return;
    if (!in_place) run_.bytes += result.numel() * result.itemsize();
    run_.output = block_of(result);
    record_host_run(info_, device_, run_);
  }

 private:
  template <class T>
  void note(c10::SmallVector<const at::Tensor*, 4>* tensors, const T& value) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      tensors->push_back(&value);
      if (!is_ral(value)) return;
      run_.bytes += value.numel() * value.itemsize();
      if (!run_.input) run_.input = block_of(value);
    }
  }

  OpInfo& info_;
  const ral::Device& device_;
  bool active_ = false;
  HostRun run_;
};

template <auto Kernel>
struct Hot;

template <class R, class... Args, R (*Kernel)(Args...)>
struct Hot<Kernel> {
  static constexpr bool kInPlace = std::is_same_v<R, at::Tensor&>;
  static inline OpInfo* info = nullptr;

  static R call(Args... args) {
    auto& op = *info;
    Signature signature;
    Scan scan(op, &signature);
    size_t i = 0;
    (note(scan, op, args, i++), ...);
    auto& device = scan.device(-1);
    auto& plan = plan_for(op, device, signature);
    if (C10_UNLIKELY(plan.choose() != ral::Tier::Cpu || plan.probing() || !device.host_visible() || explaining()))
      return boxed(args...);
    sync_observer();
    return guarded([&]() -> R {
      Recorder recorder(op, device, plan);
      AllocatingOp name(op.trace_name());
      return direct(recorder, device, args...);
    });
  }

 private:
  template <class T>
  static void note(Scan& scan, const OpInfo& op, const T& value, size_t i) {
    if constexpr (std::is_same_v<T, at::Tensor>) scan.add(value, op.args[i], i);
  }

  static R direct(Recorder& recorder, ral::Device& device, Args... args) {
    std::tuple<decltype(host_argument(args))...> host(host_argument(args)...);
    recorder.begin(args...);
    if constexpr (kInPlace) {
      std::apply(Kernel, host);
      recorder.end();
      auto& self = std::get<0>(std::forward_as_tuple(args...));
      recorder.emit(self, true);
      return self;
    } else {
      uint64_t copied = 0;
      at::Tensor result;
      {
        PoolScope pool(&device);
        result = std::apply(Kernel, host);
        recorder.end();
      }
      result = adopt(std::move(result), device, &copied);
      recorder.emit(result, false);
      return result;
    }
  }

  static R boxed(Args... args) {
    torch::jit::Stack stack;
    torch::jit::push(stack, args...);
    boxed_router(info->handle, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
    if constexpr (kInPlace) {
      return std::get<0>(std::forward_as_tuple(args...));
    } else {
      return std::move(stack.back()).toTensor();
    }
  }
};

template <auto Kernel>
void add(torch::Library& library, const char* base, const char* overload) {
  Hot<Kernel>::info =
      &op_info(c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + base).c_str(), overload));
  const std::string name = overload[0] ? std::string(base) + "." + overload : base;
  library.impl(name.c_str(), TORCH_FN((Hot<Kernel>::call)));
}

using at::Scalar;
using at::Tensor;
using Unary = Tensor (*)(const Tensor&);
using UnaryInPlace = Tensor& (*)(Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryInPlace = Tensor& (*)(Tensor&, const Tensor&);
using BinaryAlpha = Tensor (*)(const Tensor&, const Tensor&, const Scalar&);
using BinaryAlphaInPlace = Tensor& (*)(Tensor&, const Tensor&, const Scalar&);
using Ternary = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Scalar&);

}  // namespace

void register_hot_ops(torch::Library& m) {
  add<static_cast<BinaryAlpha>(&at::cpu::add)>(m, "add", "Tensor");
  add<static_cast<BinaryAlphaInPlace>(&at::cpu::add_)>(m, "add_", "Tensor");
  add<static_cast<BinaryAlpha>(&at::cpu::sub)>(m, "sub", "Tensor");
  add<static_cast<BinaryAlphaInPlace>(&at::cpu::sub_)>(m, "sub_", "Tensor");
  add<static_cast<Binary>(&at::cpu::mul)>(m, "mul", "Tensor");
  add<static_cast<BinaryInPlace>(&at::cpu::mul_)>(m, "mul_", "Tensor");
  add<static_cast<Binary>(&at::cpu::div)>(m, "div", "Tensor");
  add<static_cast<BinaryInPlace>(&at::cpu::div_)>(m, "div_", "Tensor");
  add<static_cast<Binary>(&at::cpu::eq)>(m, "eq", "Tensor");
  add<static_cast<Unary>(&at::cpu::relu)>(m, "relu", "");
  add<static_cast<Unary>(&at::cpu::sigmoid)>(m, "sigmoid", "");
  add<static_cast<Unary>(&at::cpu::tanh)>(m, "tanh", "");
  add<static_cast<Unary>(&at::cpu::exp)>(m, "exp", "");
  add<static_cast<Unary>(&at::cpu::sqrt)>(m, "sqrt", "");
  add<static_cast<Unary>(&at::cpu::neg)>(m, "neg", "");
  add<static_cast<UnaryInPlace>(&at::cpu::relu_)>(m, "relu_", "");
  add<static_cast<UnaryInPlace>(&at::cpu::zero_)>(m, "zero_", "");
  add<static_cast<UnaryInPlace>(&at::cpu::sqrt_)>(m, "sqrt_", "");
  add<static_cast<Tensor& (*)(Tensor&, const Scalar&)>(&at::cpu::fill_)>(m, "fill_", "Scalar");
  add<static_cast<Tensor& (*)(Tensor&, const Tensor&, const Scalar&)>(&at::cpu::lerp_)>(m, "lerp_", "Scalar");
  add<static_cast<Ternary>(&at::cpu::addcmul_)>(m, "addcmul_", "");
  add<static_cast<Ternary>(&at::cpu::addcdiv_)>(m, "addcdiv_", "");
  add<static_cast<Binary>(&at::cpu::mm)>(m, "mm", "");
  add<static_cast<Binary>(&at::cpu::bmm)>(m, "bmm", "");
  add<&at::cpu::addmm>(m, "addmm", "");
  add<static_cast<Tensor (*)(const Tensor&, int64_t, bool)>(&at::cpu::_softmax)>(m, "_softmax", "");
  add<static_cast<Tensor (*)(const Tensor&, int64_t, bool)>(&at::cpu::_log_softmax)>(m, "_log_softmax", "");
  add<&at::cpu::_softmax_backward_data>(m, "_softmax_backward_data", "");
  add<&at::cpu::_log_softmax_backward_data>(m, "_log_softmax_backward_data", "");
  add<&at::cpu::threshold_backward>(m, "threshold_backward", "");
}

}  // namespace torch_fl
