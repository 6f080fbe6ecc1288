// Kernels that ran on the host (tiers `cpu` and `reference`), as the trace tells them.
#pragma once
#include "adapter.h"
#include "op_info.h"

namespace torch_fl {

struct HostRun {
  uint8_t tier = RAL_TIER_CPU;
  int64_t begin = 0, end = 0;  // nanoseconds of trace::now()
  uint32_t kernel = 0, reason = 0, shapes = 0;
  uint64_t bytes = 0, copied = 0;
  const ral::Block* input = nullptr;
  const ral::Block* output = nullptr;
};
void record_host_run(OpInfo& info, const ral::Device& device, const HostRun& run) noexcept;

// Interned text of tensors' shapes and dtypes, "[64, 8] float32, [8] float32"; undefined ones are passed over.
uint32_t shapes_id(c10::ArrayRef<const at::Tensor*> tensors);
// The same for the tensors among an operator's arguments.
uint32_t shapes_id(const c10::IValue* begin, size_t count);

}  // namespace torch_fl
