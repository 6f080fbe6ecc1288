// A call in the plugin ABI's terms: its arguments as ral_value[], its outputs shaped and allocated. Shared by the tiers
// that run kernels of that form (native, reference).
#pragma once
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "call.h"

namespace torch_fl {

// How a tensor's bytes are named: by the device's handle; by a host address, after waiting for the work that uses them
// (a copy where the device is not host-visible); or not at all (geometry only, for prepare()).
enum class DataForm { Device, Host, None };

// ral_value[] and everything it points to.
class Values {
 public:
  Values(ral::Device& device, DataForm form) : device_(device), form_(form) {}

  // False: the value has no form in the ABI.
  bool add(const c10::IValue& value, const ArgInfo& info);
  // After the kernel: copies (DataForm::Host) of tensors that it wrote go back.
  void write_back();

  const ral_value* data() const { return values_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  const std::vector<ral::Block*>& blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t copied() const { return copied_; }

 private:
  const ral_tensor* add_tensor(const at::Tensor& t);
  void name_data(const at::Tensor& t, ral_tensor* out);

  struct Staged {
    at::Tensor tensor, copy;
    bool written;
  };

  ral::Device& device_;
  DataForm form_;
  uint64_t bytes_ = 0, copied_ = 0;
  std::vector<ral_value> values_;
  std::deque<ral_tensor> tensors_;
  std::deque<std::vector<int64_t>> geometry_, ints_;
  std::deque<std::vector<double>> doubles_;
  std::deque<std::vector<int32_t>> bools_;
  std::deque<std::string> strings_;
  std::deque<std::vector<const ral_tensor*>> lists_;
  std::vector<ral::Block*> blocks_;
  std::vector<Staged> staged_;
  bool written_ = false;  // of the value that is being added
};

// Results as PyTorch's meta kernels shape them: what to allocate, and what out= arguments must become.
class Outputs {
 public:
  // What stands in the way of a kernel in the ABI's form, with *why: overlapping writes, no meta kernel. WrongArguments
  // with *error where the meta kernel refuses the arguments: the CPU kernel says so in PyTorch's own words. Nothing:
  // `tensors` are there.
  std::optional<KernelOutcome> prepare(Call& call, std::string* why, std::exception_ptr* error);
  c10::SmallVector<at::Tensor, 3> tensors;

 private:
  std::optional<KernelOutcome> infer(Call& call, std::string* why, std::exception_ptr* error);
};

// The call's arguments (without out= ones) and outputs as values; false where one has no form in the ABI.
bool pack(Call& call, const Outputs& outputs, Values* args, Values* outs);

// Puts the outputs on the stack in place of the arguments.
void finish(Call& call, Outputs& outputs);

}  // namespace torch_fl
