// Judging a device's kernels by the reference tier.
#pragma once
#include <string>
#include <vector>

#include "ral/device_manager.h"
#include "ral/kernel_router.h"

namespace ral_verify {

struct Choice {
  std::vector<std::string> ops;   // "add", "add.Tensor" or "aten::add.Tensor"; empty: all
  std::vector<ral_dtype> dtypes;  // empty: all
  bool speed = true;
};

bool chosen(const Choice& choice, const std::string& op);
// Every kernel that the router would choose for some call of a chosen operator; the same ones in the same order each time.
std::vector<const ral::NativeKernel*> kernels_of(ral::Device& device, const Choice& choice);
// Runs the kernel's cases, each an event.
void judge_kernel(ral::Device& device, const ral::NativeKernel& kernel, const Choice& choice);

}  // namespace ral_verify
