// Judging a device's kernels by the reference tier.
#pragma once
#include <string>
#include <vector>

#include "ral/device_manager.h"
#include "report.h"

namespace ral_verify {

struct Choice {
  std::vector<std::string> ops;   // "add", "add.Tensor" or "aten::add.Tensor"; empty: all
  std::vector<ral_dtype> dtypes;  // empty: all
  bool speed = true;
};

bool chosen(const Choice& choice, const std::string& op);
// Every kernel that the router would choose for some call of a chosen operator.
std::vector<KernelReport> judge_kernels(ral::Device& device, const Choice& choice);

}  // namespace ral_verify
