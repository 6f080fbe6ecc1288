// Runs each kernel's cases on the device and in the reference tier, and compares.
#include "kernels.h"

#include <algorithm>
#include <chrono>

#include "call.h"
#include "events.h"

namespace ral_verify {

namespace {

bool declines(ral_status code) { return code == RAL_ERROR_UNSUPPORTED; }

void judge(ral::Device& device, const ral::NativeKernel& kernel, ral::reference::Kernel reference, const Case& call) {
  std::vector<Tensor> wanted = call.outputs, got = call.outputs;
  std::string why;
  say_case(call.name, aspect_name(call.aspect));
  if (!run_reference(reference, call, wanted, &why)) return say_without_reference(why);
  try {
    OnDevice memory(device, call);
    memory.run(kernel);
    memory.fetch(got);
  } catch (const ral::Error& error) {
    return declines(error.code()) ? say_declined(error.what()) : say_failed(error.what());
  }
  for (size_t i = 0; i < call.judged; ++i) {
    const std::string text = difference(got[i], wanted[i], call.terms);
    if (!text.empty()) return say_failed("output " + std::to_string(i) + ": " + text);
  }
  say_passed();
}

// Does the manifest entry promise to take this call?
bool fits(const ral::NativeKernel& kernel, int device_rank, const Case& call) {
  for (const Argument& argument : call.arguments)
    for (const Tensor& tensor : argument.tensors) {
      if (tensor.dtype < 0) continue;  // absent
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

void measure(ral::Device& device, const ral::NativeKernel& kernel, const Op& op) {
  const Case call = speed_case(op);
  if (!fits(kernel, device_rank(device), call))
    return say_not_measured("ns", "the manifest entry does not take " + call.name);
  say_case("speed, " + call.name, "");
  try {
    OnDevice memory(device, call);
    memory.run(kernel);  // builds it
    int64_t best = -1;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      memory.run(kernel);
      const auto end = std::chrono::steady_clock::now();
      const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
      best = best < 0 ? ns : std::min(best, ns);
      if (end - begin > std::chrono::milliseconds(500)) break;
    }
    say_measured("ns", static_cast<double>(best));
  } catch (const ral::Error& error) {
    say_not_measured("ns", error.what());
    if (!declines(error.code())) say_failed(error.what());
  }
}

bool taken(const Choice& choice, ral_dtype dtype) {
  return choice.dtypes.empty() || std::count(choice.dtypes.begin(), choice.dtypes.end(), dtype);
}

// The types to judge a kernel on; its main one first: float32, else a real number, else a complex one, else bool.
std::vector<ral_dtype> types_of(const ral::Device& device, const ral::NativeKernel& kernel, const Choice& choice) {
  std::vector<ral_dtype> types;
  for (ral_dtype dtype = 0; dtype < RAL_DTYPE_COUNT; ++dtype) {
    if ((dtype == RAL_FLOAT64 || dtype == RAL_COMPLEX128) && !(device.info().flags & RAL_DEVICE_FP64)) continue;
    if ((kernel.dtype_mask >> dtype & 1) && taken(choice, dtype)) types.push_back(dtype);
  }
  const auto rank = [](ral_dtype dtype) {
    return dtype == RAL_FLOAT32 ? 0 : dtype == RAL_BOOL ? 3 : is_complex(dtype) ? 2 : 1;
  };
  std::stable_sort(types.begin(), types.end(), [&](ral_dtype a, ral_dtype b) { return rank(a) < rank(b); });
  return types;
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

std::vector<const ral::NativeKernel*> kernels_of(ral::Device& device, const Choice& choice) {
  std::vector<const ral::NativeKernel*> kernels;
  if (!device.plugin().kernel) return kernels;
  for (const std::string& op : ral::KernelRouter::get().ops(device)) {
    if (!chosen(choice, op)) continue;
    const std::vector<const ral::NativeKernel*> entries = reachable(op, device);
    kernels.insert(kernels.end(), entries.begin(), entries.end());
  }
  return kernels;
}

void judge_kernel(ral::Device& device, const ral::NativeKernel& kernel, const Choice& choice) {
  const ral::reference::Kernel reference = ral::reference::find(kernel.op_name);
  const Op* op = find_op(kernel.op_name);
  if (!reference) return say_not_judged("", "the reference tier has no " + kernel.op_name);
  if (!op) return say_not_judged("", "ral-verify has no arguments for " + kernel.op_name);
  const std::vector<ral_dtype> types = types_of(device, kernel, choice);
  if (types.empty()) return say_not_judged("", "--dtypes leaves out all types of the manifest entry");
  const Selection selection = select_cases(*op, types, std::min(kernel.max_rank, device_rank(device)));
  for (const LeftOut& each : selection.left_out)
    say_not_judged(aspect_name(each.aspect),
                   each.why + (each.by_types && !choice.dtypes.empty() ? " among --dtypes" : ""));
  for (const Aspect aspect : kAspects) {
    bool any = false, fitting = false;
    for (const Case& call : selection.cases) {
      if (call.aspect != aspect) continue;
      any = true;
      if (!fits(kernel, device_rank(device), call)) continue;
      fitting = true;
      judge(device, kernel, reference, call);
    }
    if (any && !fitting)
      say_not_judged(aspect_name(aspect), "no case of ral-verify is one that the manifest entry takes");
  }
  if (choice.speed) measure(device, kernel, *op);
}

}  // namespace ral_verify
