// softmax.cpp - softmax and log-softmax along one dimension, and their backward forms.
#include <algorithm>
#include <unordered_map>

#include "plan.h"

namespace ralcl {
namespace {

struct Op {
  int tensors;  // leading tensor arguments: 1 forward, 2 backward (grad, output)
};

const std::unordered_map<std::string, Op>& ops() {
  static const std::unordered_map<std::string, Op> table = {
      {"softmax", {1}}, {"log_softmax", {1}}, {"softmax_backward", {2}}, {"log_softmax_backward", {2}}};
  return table;
}

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

ral_status check(const Call& call, const Op& op) {
  const auto tensors = static_cast<uint32_t>(op.tensors);
  if (call.out_count != 1 || !is_tensor(call.outs[0]) || call.arg_count < tensors + 1 ||
      call.args[tensors].tag != RAL_VALUE_INT)
    return unsupported(call, "arguments that no kernel takes");
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (out.ndim > kMaxRank) return unsupported(call, "rank above 8");
  if (!is_float(call.outs[0].dtype) || !usable(call.device, call.outs[0].dtype))
    return unsupported(call, "an output type that this device cannot store");
  for (uint32_t i = 0; i < tensors; ++i) {
    if (!is_tensor(call.args[i]) || !is_float(call.args[i].dtype) || !usable(call.device, call.args[i].dtype))
      return unsupported(call, "a data type that no kernel takes");
    const ral_tensor& tensor = *call.args[i].u.tensor;
    if (tensor.ndim != out.ndim || !std::equal(out.shape, out.shape + out.ndim, tensor.shape))
      return unsupported(call, "shapes that differ");
  }
  return RAL_SUCCESS;
}

ral_status plan(const Call& call, Plan& plan) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  const ral_status status = check(call, op);
  if (status != RAL_SUCCESS) return status;
  plan.key = static_cast<uint64_t>(call.outs[0].dtype) | static_cast<uint64_t>(call.args[0].dtype) << 5 |
             static_cast<uint64_t>(op.tensors == 2 ? call.args[1].dtype : 0) << 10;
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (element_count(out) == 0) return RAL_SUCCESS;
  const int rank = std::max(out.ndim, 1);
  int64_t dim = call.args[op.tensors].u.i;
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return fail(RAL_ERROR_INVALID_ARGUMENT, call.kernel.name + ": no such dimension");

  const ral_tensor* tensors[3] = {&out, call.args[0].u.tensor, op.tensors == 2 ? call.args[1].u.tensor : nullptr};
  const int operands = 1 + op.tensors;
  Layout kept{};
  int64_t size = 1, strides[3] = {1, 1, 1};
  for (int d = 0; d < out.ndim; ++d) {
    if (d == dim)
      size = out.shape[d];
    else
      kept.shape[kept.rank] = out.shape[d];
    for (int k = 0; k < operands; ++k) (d == dim ? strides[k] : kept.stride[k][kept.rank]) = tensors[k]->strides[d];
    kept.rank += d != dim;
  }
  sort_by_first(kept, operands);
  coalesce(kept, operands);
  const bool dense = size == 1 || std::all_of(strides, strides + operands, [](int64_t stride) { return stride == 1; });
  const auto rows = static_cast<size_t>(element_count(out) / size);
  const bool small = rows >= 256u * call.device.info.compute_units;
  const size_t local = small || !call.device.cpu ? std::min<size_t>(64, call.device.max_group) : 1;
  plan.begin(dense ? "softmax_rows" : "softmax_strided", divide_up(rows, local), local);
  for (int k = 0; k < operands; ++k) plan.buffer(*tensors[k]);
  plan.value(static_cast<int64_t>(rows));
  plan.value(size);
  for (int k = 0; k < operands; ++k) plan.value(strides[k]);
  plan.value(kept);
  return RAL_SUCCESS;
}

void preamble(const Call& call, const Plan&, std::string& out) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  common_preamble(call.device, compute_type(call.args[0].dtype), out);
  define(out, "OUT_TYPE", short_name(call.outs[0].dtype));
  define(out, "A_TYPE", short_name(call.args[0].dtype));
  if (op.tensors == 2) define(out, "B_TYPE", short_name(call.args[1].dtype));
}

}  // namespace

const Family kSoftmax = {"softmax.cl",
                         [](const std::string& symbol) -> const void* {
                           auto found = ops().find(symbol);
                           return found == ops().end() ? nullptr : &found->second;
                         },
                         plan, preamble};

}  // namespace ralcl
