// A plan: which tier runs an operator for one kind of operands, why, and what was measured.
#pragma once
#include <ATen/core/ivalue.h>

#include <atomic>
#include <memory>
#include <string>

#include "op_info.h"
#include "ral/kernel_router.h"
#include "ral/reference.h"

namespace torch_fl {

// What a plan depends on besides the operator and device: dtypes, ranks, contiguity, size buckets.
struct Signature {
  uint64_t hash = 0;
  c10::SmallVector<ral::Operand, 8> operands;
  bool all_types_known = true;
};

class Plan {
 public:
  Plan(OpInfo& info, ral::Device& device, const Signature& signature);

  // The tier for the next call. Native may answer None when no tier may run it.
  ral::Tier choose() noexcept;
  bool probing() const noexcept { return state_.load(std::memory_order_relaxed) > kDecided; }
  // The native kernel turned out not to take these operands, or failed to build.
  void refuse_native(const std::string& why);
  // The reference kernel does not take these operands.
  void refuse_reference(const std::string& why);
  // Measured times of a call, nanoseconds; they lead to a decision.
  void measured(ral::Tier tier, int64_t ns);
  // Asks for the native kernel to be built in the background, once; `call` is a copy of the values.
  bool wants_preparation() noexcept;
  void prepared(ral_status status, const std::string& why);

  const ral::NativeKernel* kernel() const noexcept { return kernel_; }
  ral::reference::Kernel reference() const noexcept { return reference_; }
  uint64_t generation() const noexcept { return generation_; }
  // Reason chain as an interned JSON object, for the trace.
  uint32_t reason_id(ral::Tier ran);
  std::string reason_json(ral::Tier ran) const;
  // "native: no manifest entry; jit: ..." for error messages.
  std::string refusal() const;

 private:
  enum State { kNone, kNative, kCpu, kReference, kDecided = kReference, kProbeCpu, kPreparing, kProbeNative };
  void decide(State state, const std::string& why);
  // What runs where the native kernel does not. Of the two tiers on the host PyTorch's kernels are the faster ones, so
  // that `reference` comes first only where the order is strict.
  State on_host() const noexcept;
  bool comes_before(ral::Tier a, ral::Tier b) const noexcept;

  OpInfo& info_;
  ral::Device& device_;
  ral::Policy policy_;
  uint64_t generation_;
  const ral::NativeKernel* kernel_ = nullptr;
  ral::reference::Kernel reference_ = nullptr;
  std::atomic<int> state_{kNone};
  std::atomic<int> cpu_samples_{0}, native_samples_{0};
  std::atomic<int64_t> cpu_ns_{INT64_MAX}, native_ns_{INT64_MAX};
  std::atomic<bool> asked_{false};
  std::atomic<uint32_t> reason_ids_[6] = {};
  mutable std::mutex mutex_;  // guards the texts
  std::string no_native_, no_reference_, why_;
  std::atomic<bool> reference_refused_{false};
};

// The plan for a call, cached per thread and process.
Plan& plan_for(OpInfo& info, ral::Device& device, const Signature& signature);

}  // namespace torch_fl
