// One case run: on the device, in the reference tier, and the two compared.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cases.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/kernel_router.h"
#include "ral/memory_pool.h"
#include "ral/reference.h"
#include "ral/trace_format.h"

namespace ral_verify {

struct Freed {
  void operator()(ral::Block* block) const { block->device->pool().free(block); }
};
using Memory = std::unique_ptr<ral::Block, Freed>;

// Device memory of all tensors of a call, filled as the host's.
class OnDevice {
 public:
  OnDevice(ral::Device& device, const Case& call);
  void run(const ral::NativeKernel& kernel);  // launches and waits
  void fetch(std::vector<Tensor>& outputs);   // the outputs' memory, with the guard behind it

 private:
  void add(const Tensor& tensor, std::vector<Place>* places);

  ral::Device& device_;
  ral::Stream& stream_;
  std::vector<Memory> memory_;
  std::vector<Place> inputs_, outputs_;
  std::vector<Argument> outputs_as_arguments_;
  std::unique_ptr<Packed> args_, outs_;
  int64_t workspace_size_ = 0, one_ = 1;
};

// The reference tier's results; false with *why where it does not compute this call.
bool run_reference(ral::reference::Kernel reference, const Case& call, std::vector<Tensor>& wanted, std::string* why);

// "" where two outputs agree. Floats may differ by epsilon * k * sqrt(terms), relative to the larger of 1 and the
// value; NaN and infinities are the reference's. Elements between those of a tensor in place are unchanged.
std::string difference(const Tensor& got, const Tensor& wanted, double terms);

}  // namespace ral_verify
