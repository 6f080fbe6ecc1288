// The calls that a kernel is judged on: every pattern of its operator, on memory laid out in several ways, and what
// else a call may bring: special values, an output that is an input, two types, numbers of the host.
#pragma once
#include <string>
#include <vector>

#include "arguments.h"

namespace ral_verify {

// What a case judges. Counted and reported apart.
enum class Aspect { Values, Complex, Special, InPlace, Mixed, Numbers };
constexpr Aspect kAspects[] = {Aspect::Values,  Aspect::Complex, Aspect::Special,
                               Aspect::InPlace, Aspect::Mixed,   Aspect::Numbers};
const char* aspect_name(Aspect aspect);  // "in place"

struct Case {
  std::string name;  // "(T T i3), float32, rank 2, transposed"
  Aspect aspect = Aspect::Values;
  std::vector<Argument> arguments;
  std::vector<Tensor> outputs;  // poisoned
  bool in_place = false;        // the output's memory is the first tensor's
  double terms = 1;             // how many numbers go into one of the result; the tolerance grows with its root
  size_t judged = 1;            // outputs compared: indices are not where bools tie
};

// An aspect without cases, and why: the types, or else the operator.
struct LeftOut {
  Aspect aspect;
  std::string why;
  bool by_types;
};

struct Selection {
  std::vector<Case> cases;
  std::vector<LeftOut> left_out;
  void leave_out(Aspect aspect, const std::string& why, bool by_types = false) {
    left_out.push_back({aspect, why, by_types});
  }
};

// The cases of a kernel of those types. Only the first type goes through every layout and pattern: each may need a
// build of its own, which takes a driver a while.
Selection select_cases(const Op& op, const std::vector<ral_dtype>& types, int max_rank);
// One call on about a million float32 elements.
Case speed_case(const Op& op);

}  // namespace ral_verify
