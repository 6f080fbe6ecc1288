// The reference tier: libral's own C++ kernels over the device's bytes (or copies of them), in stream order.
#include "ral/reference.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "host_record.h"
#include "values.h"

namespace torch_fl {
namespace {

bool is_sparse(const at::Tensor& t) { return t.defined() && t.layout() != at::kStrided; }

// The call as its shape function and the kernel see it where operands are sparse: for the one a strided tensor of the
// operand's sizes, for the other the list of the operand's parts.
class SparseForms {
 public:
  explicit SparseForms(Call& call) : call_(call) {
    for (size_t i = 0; i < call.info.args.size(); ++i)
      if (call.arg(i).isTensor() && is_sparse(call.arg(i).toTensor())) places_.push_back(i);
    if (C10_LIKELY(places_.empty())) return;
    for (size_t i = 0; i < call.info.args.size(); ++i) {
      shaped_.push_back(call.arg(i));
      packed_.push_back(call.arg(i));
    }
  }

  bool any() const { return !places_.empty(); }

  // False, with *why: an operand that has no such form.
  bool make(std::string* why) {
    for (const size_t i : places_) {
      const auto& t = call_.arg(i).toTensor();
      c10::List<std::optional<at::Tensor>> parts;
      if (call_.info.args[i].written) {
        *why = "a sparse output";
        return false;
      }
      if (t.layout() == at::kSparse) {
        parts.push_back(t._indices());
        parts.push_back(t._values());
      } else if (t.layout() == at::kSparseCsr) {
        parts.push_back(t.crow_indices());
        parts.push_back(t.col_indices());
        parts.push_back(t.values());
      } else if (t.layout() == at::kSparseCsc) {
        parts.push_back(std::nullopt);
        parts.push_back(t.ccol_indices());
        parts.push_back(t.row_indices());
        parts.push_back(t.values());
      } else {
        *why = "a sparse operand of other than COO, CSR or CSC layout";
        return false;
      }
      const at::Tensor values = *parts.get(parts.size() - 1);
      const auto like = at::empty(t.sizes(), at::TensorOptions(at::kMeta).dtype(t.scalar_type()));
      shaped_[i] = with_storage(values.storage(), like, c10::DispatchKey::PrivateUse1);
      packed_[i] = std::move(parts);
    }
    return true;
  }

  Call shaped() { return {call_.info, shaped_, 0, call_.device}; }
  Call packed() { return {call_.info, packed_, 0, call_.device}; }

 private:
  Call& call_;
  std::vector<size_t> places_;
  torch::jit::Stack shaped_, packed_;
};

bool overlaps(Call& call, const at::Tensor& out) {
  if (at::has_internal_overlap(out) != at::MemOverlap::No) return true;
  for (size_t i = 0; i < call.info.args.size(); ++i)
    if (!call.info.args[i].out && call.arg(i).isTensor() &&
        at::get_overlap_status(out, call.arg(i).toTensor()) != at::MemOverlapStatus::No)
      return true;
  return false;
}

// Outputs whose sizes depend on the arguments' values: the kernel's sizing says what they are.
std::optional<KernelOutcome> size_outputs(Call& call, ral::reference::Sizing sizing, const Values& args,
                                          Outputs* outputs, std::string* why) {
  std::vector<ral::reference::Result> results;
  const auto status = sizing(args.data(), args.size(), &results, why);
  if (status != RAL_SUCCESS) {
    if (why->empty()) *why = ral::code_name(status);
    return KernelOutcome::PassedOn;
  }
  if (results.size() != call.info.returns.size()) {
    *why = "the kernel has " + std::to_string(results.size()) + " outputs, the operator " +
           std::to_string(call.info.returns.size());
    return KernelOutcome::PassedOn;
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const auto& result = results[r];
    const int alias = call.info.returns[r].alias_arg;
    if (alias < 0) {
      outputs->tensors.push_back(empty_ral(result.shape, result.strides, to_scalar_type(result.dtype),
                                           static_cast<c10::DeviceIndex>(call.device->index())));
      continue;
    }
    const auto& given = call.arg(alias).toTensor();
    if (!call.info.args[alias].out || to_ral_dtype(given.scalar_type()) != result.dtype) {
      *why = "an output of another dtype than the result's";
      return KernelOutcome::PassedOn;
    }
    if (overlaps(call, given)) {
      *why = "output overlaps itself or an input";
      return KernelOutcome::PassedOn;
    }
    if (at::native::resize_output(given, result.shape))
      given.unsafeGetTensorImpl()->set_sizes_and_strides(result.shape, result.strides);
    outputs->tensors.push_back(given);
  }
  return std::nullopt;
}

}  // namespace

KernelOutcome run_reference(Call& call, Plan& plan, uint32_t reason, std::string* why, std::exception_ptr* error) {
  auto& device = *call.device;
  SparseForms sparse(call);
  if (sparse.any() && !sparse.make(why)) return KernelOutcome::PassedOn;
  Call shaped = sparse.any() ? sparse.shaped() : call, packed = sparse.any() ? sparse.packed() : call;
  const auto sizing = ral::reference::find_sizing(call.info.functional_name);
  Outputs outputs;
  if (!sizing)
    if (const auto stop = outputs.prepare(shaped, why, error)) return *stop;
  return guarded([&]() -> KernelOutcome {
    Values args(device, DataForm::Host), outs(device, DataForm::Host);
    if (!pack(packed, outputs, &args, &outs)) {
      *why = "an argument has no form in the plugin ABI";
      return KernelOutcome::PassedOn;
    }
    if (sizing) {
      if (const auto stop = size_outputs(call, sizing, args, &outputs, why)) return *stop;
      ArgInfo output;
      output.written = true;
      for (const auto& t : outputs.tensors)
        if (!outs.add(t, output)) {
          *why = "an output has no form in the plugin ABI";
          return KernelOutcome::PassedOn;
        }
    }
    const int64_t begin = ral::trace::now();
    const auto status = plan.reference()(args.data(), args.size(), outs.data(), outs.size(), why);
    if (status != RAL_SUCCESS) {
      if (why->empty()) *why = ral::code_name(status);
      return KernelOutcome::PassedOn;
    }
    const int64_t end = ral::trace::now();
    args.write_back();  // what is both argument and output is right in outs
    outs.write_back();
    if (C10_UNLIKELY(ral::trace::enabled())) {
      HostRun run{.tier = RAL_TIER_REFERENCE, .begin = begin, .end = end, .reason = reason};
      run.kernel = ral::trace::intern(call.info.functional_name);
      run.shapes = shapes_id(&call.arg(0), call.info.args.size());
      run.bytes = args.bytes() + outs.bytes();
      run.copied = args.copied() + outs.copied();
      if (!args.blocks().empty()) run.input = args.blocks().front();
      if (!outs.blocks().empty()) run.output = outs.blocks().front();
      record_host_run(call.info, device, run);
    }
    finish(call, outputs);
    return KernelOutcome::Ran;
  });
}

}  // namespace torch_fl
