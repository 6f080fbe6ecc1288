// torch.ral.explain: the chain's decision for a call, without running it.
#pragma once
#include <exception>
#include <string>

#include "call.h"

namespace torch_fl {

struct Explanation {
  std::string op, tier, kernel, reason_json, device;
};

// While explaining, the router of this thread notes its decision and leaves by an exception.
bool explaining() noexcept;
void set_explaining(bool on) noexcept;
[[noreturn]] void explain_and_leave(Call& call, Plan& plan);
// The last explanation of this thread.
Explanation take_explanation();

// For benchmarks: nanoseconds that a call of add takes to find its plan, operands and devices looked at included.
double time_plan_lookup(const at::Tensor& operand, int times);

}  // namespace torch_fl
