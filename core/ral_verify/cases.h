// The calls that a kernel is judged on: every pattern of its operator, on memory laid out in several ways.
#pragma once
#include <string>
#include <vector>

#include "ops.h"
#include "tensor.h"

namespace ral_verify {

struct Case {
  std::string name;  // "T T i3, float32, transposed"
  std::vector<Argument> arguments;
  std::vector<Tensor> outputs;  // poisoned
  double terms = 1;             // how many numbers go into one of the result; the tolerance grows with its root
  size_t judged = 1;            // outputs compared: indices are not where bools tie
};

// The cases of one type. Only a kernel's main type goes through every layout and pattern: each may need a build of its own, which
// takes a driver a while. The values are drawn anew for each case, the same in every run.
std::vector<Case> cases_of(const Op& op, ral_dtype dtype, int max_rank, bool main_type);
// One call on about a million float32 elements.
Case speed_case(const Op& op);

}  // namespace ral_verify
