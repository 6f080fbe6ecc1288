// Runs each kernel's cases on the device and in the reference tier, and compares.
#include "kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cases.h"
#include "ral/async_stream.h"
#include "ral/kernel_router.h"
#include "ral/memory_pool.h"
#include "ral/reference.h"
#include "ral/trace_format.h"

namespace ral_verify {

namespace {

constexpr size_t kFailuresShown = 5;

struct Freed {
  void operator()(ral::Block* block) const { block->device->pool().free(block); }
};
using Memory = std::unique_ptr<ral::Block, Freed>;

// Device memory of all tensors of a call, filled as the host's.
class OnDevice {
 public:
  OnDevice(ral::Device& device, const Case& call) : device_(device), stream_(device.default_stream()) {
    for (const Argument& argument : call.arguments)
      for (const Tensor& tensor : argument.tensors) add(tensor, &inputs_);
    std::vector<Argument> outputs;
    for (const Tensor& tensor : call.outputs) {
      add(tensor, &outputs_);
      outputs_as_arguments_.push_back(as_argument(tensor));
    }
    stream_.wait(stream_.submitted());
    args_ = std::make_unique<Packed>(call.arguments, inputs_, device.plugin_index());
    outs_ = std::make_unique<Packed>(outputs_as_arguments_, outputs_, device.plugin_index());
  }

  static Argument as_argument(const Tensor& tensor) {
    Argument argument;
    argument.tag = RAL_VALUE_TENSOR;
    argument.tensors = {tensor};
    return argument;
  }

  // Launches and waits.
  void run(const ral::NativeKernel& kernel) {
    ral_tensor workspace{};
    Memory scratch;
    const ral_kernel_table& table = *device_.plugin().kernel;
    uint64_t bytes = 0;
    if (table.workspace_size) {
      const ral_status status = table.workspace_size(device_.plugin_index(), kernel.handle, args_->data(),
                                                     args_->size(), outs_->data(), outs_->size(), &bytes);
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

  // The outputs' memory, with the guard behind it.
  void fetch(std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i)
      stream_.copy_to_host(outputs[i].bytes.data(), outputs_[i].data, outputs_[i].offset, outputs[i].bytes.size(),
                           copy_note());
    stream_.wait(stream_.submitted());
  }

 private:
  static ral::WorkNote copy_note() {
    ral::WorkNote note;
    note.kind = RAL_TRACE_COPY;
    return note;
  }

  void add(const Tensor& tensor, std::vector<Place>* places) {
    memory_.emplace_back(device_.pool().allocate(tensor.bytes.size(), stream_));
    const ral::MemoryPlace place = ral::MemoryPool::place(memory_.back()->address, device_);
    places->push_back({place.handle, place.offset});
    if (!tensor.bytes.empty())
      stream_.copy_from_host(place.handle, place.offset, tensor.bytes.data(), tensor.bytes.size(), copy_note());
  }

  ral::Device& device_;
  ral::Stream& stream_;
  std::vector<Memory> memory_;
  std::vector<Place> inputs_, outputs_;
  std::vector<Argument> outputs_as_arguments_;
  std::unique_ptr<Packed> args_, outs_;
  int64_t workspace_size_ = 0, one_ = 1;
};

// The reference tier's results; false with *why where it does not compute this call.
bool run_reference(ral::reference::Kernel reference, const Case& call, std::vector<Tensor>& wanted, std::string* why) {
  std::vector<Place> inputs, outputs;
  for (const Argument& argument : call.arguments)
    for (const Tensor& tensor : argument.tensors) inputs.push_back({const_cast<char*>(tensor.bytes.data()), 0});
  std::vector<Argument> arguments;
  for (Tensor& tensor : wanted) {
    outputs.push_back({tensor.bytes.data(), 0});
    arguments.push_back(OnDevice::as_argument(tensor));
  }
  const Packed args(call.arguments, inputs, 0), outs(arguments, outputs, 0);
  return reference(args.data(), args.size(), outs.data(), outs.size(), why) == RAL_SUCCESS;
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// "" where two outputs agree. Floats may differ by epsilon * k * sqrt(terms), relative to the larger of 1 and the value.
std::string difference(const Tensor& got, const Tensor& wanted, double terms) {
  const int64_t count = got.count();
  const double k = got.dtype == RAL_FLOAT16 || got.dtype == RAL_BFLOAT16 ? 4 : 16;
  const double slack = is_floating(got.dtype) ? epsilon(got.dtype) * k * std::sqrt(terms) : 0;
  int64_t wrong = 0;
  std::string first;
  for (int64_t i = 0; i < count; ++i) {
    bool right;
    if (is_floating(got.dtype)) {
      const double g = read_real(got, i), w = read_real(wanted, i);
      right = g == w || (std::isnan(g) && std::isnan(w)) || std::fabs(g - w) <= slack * std::max(1.0, std::fabs(w));
    } else {
      right = read_integer(got, i) == read_integer(wanted, i);
    }
    if (right || wrong++ > 0) continue;
    const bool real = is_floating(got.dtype);
    first = "element " + std::to_string(i) + " is " +
            (real ? number_text(read_real(got, i)) : std::to_string(read_integer(got, i))) + ", the reference has " +
            (real ? number_text(read_real(wanted, i)) : std::to_string(read_integer(wanted, i)));
    if (real) first += " (tolerance " + number_text(slack) + " * max(1, |value|))";
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

void fail(KernelReport& report, const std::string& name, const std::string& message) {
  ++report.failed;
  if (report.failures.size() < kFailuresShown) report.failures.push_back({name, message});
}

bool declines(ral_status code) { return code == RAL_ERROR_UNSUPPORTED; }

void judge(ral::Device& device, const ral::NativeKernel& kernel, ral::reference::Kernel reference, const Case& call,
           KernelReport& report) {
  std::vector<Tensor> wanted = call.outputs, got = call.outputs;
  std::string why;
  if (!run_reference(reference, call, wanted, &why)) {
    ++report.refused;
    if (report.passed + report.failed + report.declined == 0) report.not_judged_reason = "the reference tier: " + why;
    return;
  }
  report.not_judged_reason.clear();
  progress(kernel.op_name + " [" + kernel.symbol + "] " + call.name + " on ral:" + std::to_string(device.index()));
  try {
    OnDevice memory(device, call);
    memory.run(kernel);
    memory.fetch(got);
  } catch (const ral::Error& error) {
    if (!declines(error.code())) return fail(report, call.name, error.what());
    if (report.declined++ == 0) report.declined_reason = call.name + ": " + error.what();
    return;
  }
  for (size_t i = 0; i < call.judged; ++i) {
    const std::string text = difference(got[i], wanted[i], call.terms);
    if (!text.empty()) return fail(report, call.name, "output " + std::to_string(i) + ": " + text);
  }
  ++report.passed;
}

// Does the manifest entry promise to take this call?
bool fits(const ral::NativeKernel& kernel, int device_rank, const Case& call) {
  for (const Argument& argument : call.arguments)
    for (const Tensor& tensor : argument.tensors) {
      const int rank = static_cast<int>(tensor.shape.size());
      if (!(kernel.dtype_mask >> tensor.dtype & 1)) return false;
      if (rank < kernel.min_rank || rank > std::min(kernel.max_rank, device_rank)) return false;
      if (kernel.requires_contiguous && !tensor.contiguous()) return false;
      if (kernel.max_elements && tensor.count() > kernel.max_elements) return false;
    }
  return true;
}

int device_rank(const ral::Device& device) {
  return device.info().max_rank ? static_cast<int>(device.info().max_rank) : 8;
}

void measure(ral::Device& device, const ral::NativeKernel& kernel, const Op& op, KernelReport& report) {
  const Case call = speed_case(op);
  if (!fits(kernel, device_rank(device), call)) {
    report.ns_missing_reason = "the manifest entry does not take " + call.name;
    return;
  }
  progress(kernel.op_name + " [" + kernel.symbol + "] speed, " + call.name);
  try {
    OnDevice memory(device, call);
    memory.run(kernel);  // builds it
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      memory.run(kernel);
      const auto end = std::chrono::steady_clock::now();
      const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
      report.ns = report.ns < 0 ? ns : std::min(report.ns, ns);
      if (end - begin > std::chrono::milliseconds(500)) break;
    }
  } catch (const ral::Error& error) {
    report.ns_missing_reason = error.what();
    if (!declines(error.code())) fail(report, "speed, " + call.name, error.what());
  }
}

bool taken(const Choice& choice, ral_dtype dtype) {
  return choice.dtypes.empty() || std::count(choice.dtypes.begin(), choice.dtypes.end(), dtype);
}

// The types to judge a kernel on; its main one first: float32, else a number, else bool.
std::vector<ral_dtype> types_of(const ral::Device& device, const ral::NativeKernel& kernel, const Choice& choice) {
  std::vector<ral_dtype> types;
  for (ral_dtype dtype = 0; dtype < RAL_DTYPE_COUNT; ++dtype) {
    if (dtype == RAL_COMPLEX64 || dtype == RAL_COMPLEX128) continue;
    if (dtype == RAL_FLOAT64 && !(device.info().flags & RAL_DEVICE_FP64)) continue;
    if ((kernel.dtype_mask >> dtype & 1) && taken(choice, dtype)) types.push_back(dtype);
  }
  const auto rank = [](ral_dtype dtype) { return dtype == RAL_FLOAT32 ? 0 : dtype == RAL_BOOL ? 2 : 1; };
  std::stable_sort(types.begin(), types.end(), [&](ral_dtype a, ral_dtype b) { return rank(a) < rank(b); });
  return types;
}

KernelReport judge_kernel(ral::Device& device, const ral::NativeKernel& kernel, const Choice& choice) {
  KernelReport report;
  report.op = kernel.op_name;
  report.symbol = kernel.symbol;
  const ral::reference::Kernel reference = ral::reference::find(kernel.op_name);
  const Op* op = find_op(kernel.op_name);
  if (!reference) {
    report.not_judged_reason = "the reference tier has no " + kernel.op_name;
    return report;
  }
  if (!op) {
    report.not_judged_reason = "ral-verify has no arguments for " + kernel.op_name;
    return report;
  }
  report.not_judged_reason = "no case of ral-verify is one that the manifest entry takes";
  const std::vector<ral_dtype> types = types_of(device, kernel, choice);
  const int max_rank = std::min(kernel.max_rank, device_rank(device));
  for (ral_dtype dtype : types)
    for (const Case& call : cases_of(*op, dtype, max_rank, dtype == types[0]))
      if (fits(kernel, device_rank(device), call)) judge(device, kernel, reference, call, report);
  if (choice.speed) measure(device, kernel, *op, report);
  return report;
}

// The entries of an operator that some call would reach, in the order of their first types.
std::vector<const ral::NativeKernel*> reachable(const std::string& op, ral::Device& device) {
  std::vector<const ral::NativeKernel*> found;
  for (ral_dtype dtype = 0; dtype < RAL_DTYPE_COUNT; ++dtype)
    for (int rank = 0; rank <= device_rank(device); ++rank)
      for (bool contiguous : {true, false})
        for (int64_t elements : {int64_t{1}, int64_t{1} << 20, int64_t{1} << 40}) {
          const ral::Operand operand{dtype, rank, contiguous, elements};
          const ral::NativeKernel* kernel = ral::KernelRouter::get().route(op, device, &operand, 1).kernel;
          if (kernel && !std::count(found.begin(), found.end(), kernel)) found.push_back(kernel);
        }
  return found;
}

}  // namespace

bool chosen(const Choice& choice, const std::string& op) {
  const std::string overload = op.compare(0, 6, "aten::") == 0 ? op.substr(6) : op;
  const std::string name = overload.substr(0, overload.find('.'));
  const auto is = [&](const std::string& word) { return word == op || word == overload || word == name; };
  return choice.ops.empty() || std::any_of(choice.ops.begin(), choice.ops.end(), is);
}

std::vector<KernelReport> judge_kernels(ral::Device& device, const Choice& choice) {
  std::vector<KernelReport> reports;
  if (!device.plugin().kernel) return reports;
  for (const std::string& op : ral::KernelRouter::get().ops(device)) {
    if (!chosen(choice, op)) continue;
    for (const ral::NativeKernel* kernel : reachable(op, device))
      reports.push_back(judge_kernel(device, *kernel, choice));
  }
  return reports;
}

}  // namespace ral_verify
