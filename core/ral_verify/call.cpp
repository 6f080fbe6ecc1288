// Device memory, the reference tier's answer, and tolerances.
#include "call.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ral_verify {

namespace {

Argument as_argument(const Tensor& tensor) {
  Argument argument;
  argument.tag = RAL_VALUE_TENSOR;
  argument.tensors = {tensor};
  return argument;
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string element_text(const Tensor& tensor, int64_t at) {
  if (is_floating(tensor.dtype)) return number_text(read_real(tensor, at));
  if (!is_complex(tensor.dtype)) return std::to_string(read_integer(tensor, at));
  const std::complex<double> value = read_complex(tensor, at);
  return "(" + number_text(value.real()) + ", " + number_text(value.imag()) + ")";
}

bool agree(double got, double wanted, double slack) {
  if (std::isnan(wanted)) return std::isnan(got);
  if (std::isinf(wanted)) return got == wanted;
  return std::fabs(got - wanted) <= slack * std::max(1.0, std::fabs(wanted));
}

bool agree(std::complex<double> got, std::complex<double> wanted, double slack) {
  if (!std::isfinite(wanted.real()) || !std::isfinite(wanted.imag()))
    return agree(got.real(), wanted.real(), slack) && agree(got.imag(), wanted.imag(), slack);
  return std::abs(got - wanted) <= slack * std::max(1.0, std::abs(wanted));
}

ral::WorkNote copy_note() {
  ral::WorkNote note;
  note.kind = RAL_TRACE_COPY;
  return note;
}

}  // namespace

OnDevice::OnDevice(ral::Device& device, const Case& call) : device_(device), stream_(device.default_stream()) {
  for (const Argument& argument : call.arguments)
    for (const Tensor& tensor : argument.tensors) add(tensor, &inputs_);
  for (const Tensor& tensor : call.outputs) {
    if (call.in_place)
      outputs_.push_back(inputs_[0]);
    else
      add(tensor, &outputs_);
    outputs_as_arguments_.push_back(as_argument(tensor));
  }
  stream_.wait(stream_.submitted());
  args_ = std::make_unique<Packed>(call.arguments, inputs_, device.plugin_index());
  outs_ = std::make_unique<Packed>(outputs_as_arguments_, outputs_, device.plugin_index());
}

void OnDevice::run(const ral::NativeKernel& kernel) {
  ral_tensor workspace{};
  Memory scratch;
  const ral_kernel_table& table = *device_.plugin().kernel;
  uint64_t bytes = 0;
  if (table.workspace_size) {
    const ral_status status = table.workspace_size(device_.plugin_index(), kernel.handle, args_->data(), args_->size(),
                                                   outs_->data(), outs_->size(), &bytes);
    if (status != RAL_SUCCESS) throw ral::Error(status, "workspace_size: " + device_.last_error());
  }
  if (bytes) {
    scratch.reset(device_.pool().allocate(bytes, stream_));
    const ral::MemoryPlace place = ral::MemoryPool::place(scratch->address, device_);
    workspace_size_ = static_cast<int64_t>(bytes);
    workspace.data = place.handle;
    workspace.byte_offset = place.offset;
    workspace.device = {12, device_.plugin_index()};
    workspace.dtype = {1, 8, 1};
    workspace.ndim = 1;
    workspace.shape = &workspace_size_;
    workspace.strides = &one_;
  }
  ral::WorkNote note;
  note.kind = RAL_TRACE_KERNEL;
  note.tier = static_cast<uint8_t>(ral::Tier::Native);
  stream_.wait(
      stream_.launch(kernel.handle, args_->data(), args_->size(), outs_->data(), outs_->size(), &workspace, note));
}

void OnDevice::fetch(std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    stream_.copy_to_host(outputs[i].bytes.data(), outputs_[i].data, outputs_[i].offset, outputs[i].bytes.size(),
                         copy_note());
  stream_.wait(stream_.submitted());
}

void OnDevice::add(const Tensor& tensor, std::vector<Place>* places) {
  if (tensor.dtype < 0) return places->push_back({nullptr, 0});
  memory_.emplace_back(device_.pool().allocate(tensor.bytes.size(), stream_));
  const ral::MemoryPlace place = ral::MemoryPool::place(memory_.back()->address, device_);
  places->push_back({place.handle, place.offset});
  if (!tensor.bytes.empty())
    stream_.copy_from_host(place.handle, place.offset, tensor.bytes.data(), tensor.bytes.size(), copy_note());
}

bool run_reference(ral::reference::Kernel reference, const Case& call, std::vector<Tensor>& wanted, std::string* why) {
  std::vector<Place> inputs, outputs;
  for (const Argument& argument : call.arguments)
    for (const Tensor& tensor : argument.tensors) inputs.push_back({const_cast<char*>(tensor.bytes.data()), 0});
  std::vector<Argument> arguments;
  for (Tensor& tensor : wanted) {
    outputs.push_back({tensor.bytes.data(), 0});
    arguments.push_back(as_argument(tensor));
  }
  const Packed args(call.arguments, inputs, 0), outs(arguments, outputs, 0);
  return reference(args.data(), args.size(), outs.data(), outs.size(), why) == RAL_SUCCESS;
}

std::string difference(const Tensor& got, const Tensor& wanted, double terms) {
  const int64_t count = got.held(kGuard);
  const bool real = is_floating(got.dtype), complex = is_complex(got.dtype);
  const double k = got.dtype == RAL_FLOAT16 || got.dtype == RAL_BFLOAT16 ? 4 : 16;
  const double slack = real || complex ? epsilon(got.dtype) * k * std::sqrt(terms) : 0;
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < count; ++i) {
    const bool right = real      ? agree(read_real(got, i), read_real(wanted, i), slack)
                       : complex ? agree(read_complex(got, i), read_complex(wanted, i), slack)
                                 : read_integer(got, i) == read_integer(wanted, i);
    if (right || wrong++ > 0) continue;
    first = "element " + std::to_string(i) + " is " + element_text(got, i) + ", the reference has " +
            element_text(wanted, i);
    if (real || complex) first += " (tolerance " + number_text(slack) + " * max(1, |value|))";
  }
  if (wrong)
    return std::to_string(wrong) + " of " + std::to_string(count) + " elements of " + shape_text(got.shape) + " " +
           ral::dtype_name(got.dtype) + " are wrong; " + first;
  for (size_t i = got.bytes.size() - kGuard; i < got.bytes.size(); ++i)
    if (got.bytes[i] != kPoison)
      return "the kernel wrote beyond its output, " + std::to_string(i - (got.bytes.size() - kGuard)) +
             " bytes after its end";
  return "";
}

}  // namespace ral_verify
