// Operators registered unboxed: what small models call thousands of times a second.
#pragma once
#include <torch/library.h>

namespace torch_fl {
void register_hot_ops(torch::Library& library);
}  // namespace torch_fl
