// shape.cpp - operators that move or scan elements: cat, cumsum, tril, triu, flip.
#include <algorithm>
#include <unordered_map>

#include "plan.h"

namespace ralcl {
namespace {

enum Form : uint8_t { kCat, kCumsum, kTriangle, kFlip };

struct Op {
  Form form;
};

const std::unordered_map<std::string, Op>& ops() {
  static const std::unordered_map<std::string, Op> table = {
      {"cat", {kCat}}, {"cumsum", {kCumsum}}, {"tril", {kTriangle}}, {"triu", {kTriangle}}, {"flip", {kFlip}}};
  return table;
}

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

bool normal_dim(int64_t& dim, int rank) {
  if (dim < 0) dim += std::max(rank, 1);
  return dim >= 0 && dim < std::max(rank, 1);
}

// Enqueue a strided copy of operand 1 into operand 0 of `layout`.
void copy_step(const ral_tensor& out, uint64_t out_bytes, const ral_tensor& in, uint64_t in_bytes, Layout& layout,
               const Device& device, Plan& plan) {
  int64_t count = 1;
  for (int d = 0; d < layout.rank; ++d) count *= layout.shape[d];
  plan.begin("shape_copy", divide_up(static_cast<size_t>(count), device.group), device.group);
  plan.buffer(out.data, out.byte_offset + out_bytes);
  plan.buffer(in.data, in.byte_offset + in_bytes);
  plan.value(count);
  plan.value(layout);
}

ral_status plan_cat(const Call& call, Plan& plan) {
  if (call.arg_count < 2 || call.args[0].tag != RAL_VALUE_TENSOR_LIST || call.args[1].tag != RAL_VALUE_INT)
    return unsupported(call, "arguments that no kernel takes");
  const ral_tensor& out = *call.outs[0].u.tensor;
  int64_t dim = call.args[1].u.i, at = 0;
  if (!normal_dim(dim, out.ndim)) return fail(RAL_ERROR_INVALID_ARGUMENT, call.kernel.name + ": no such dimension");
  for (uint64_t i = 0; i < call.args[0].u.tensors.count; ++i) {
    const ral_tensor* in = call.args[0].u.tensors.items[i];
    if (!in) return unsupported(call, "a list with a missing tensor");
    if (in->ndim == 1 && in->shape[0] == 0) continue;  // PyTorch skips these whatever the other shapes are
    if (in->ndim != out.ndim || std::memcmp(&in->dtype, &out.dtype, sizeof out.dtype) != 0)
      return unsupported(call, "tensors of mixed types or ranks");
    Layout layout{};
    layout.rank = out.ndim;
    for (int d = 0; d < out.ndim; ++d) {
      if (d != dim && in->shape[d] != out.shape[d]) return unsupported(call, "shapes that do not fit");
      layout.shape[d] = in->shape[d];
      layout.stride[0][d] = out.strides[d];
      layout.stride[1][d] = in->strides[d];
    }
    const auto start = static_cast<uint64_t>(at * out.strides[dim]) * item_size(call.outs[0].dtype);
    at += in->shape[dim];
    if (element_count(*in) == 0) continue;
    sort_by_first(layout, 2);
    coalesce(layout, 2);
    copy_step(out, start, *in, 0, layout, call.device, plan);
  }
  return at == out.shape[dim] ? RAL_SUCCESS : unsupported(call, "shapes that do not fit");
}

// Tensor argument 0 with the output's shape.
ral_status same_shape(const Call& call, const ral_tensor*& in) {
  if (call.arg_count < 1 || !is_tensor(call.args[0])) return unsupported(call, "arguments that no kernel takes");
  in = call.args[0].u.tensor;
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (in->ndim != out.ndim || !std::equal(out.shape, out.shape + out.ndim, in->shape))
    return unsupported(call, "shapes that differ");
  return RAL_SUCCESS;
}

ral_status plan_cumsum(const Call& call, Plan& plan) {
  const ral_tensor* in = nullptr;
  const ral_status status = same_shape(call, in);
  if (status != RAL_SUCCESS) return status;
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (call.arg_count < 2 || call.args[1].tag != RAL_VALUE_INT)
    return unsupported(call, "arguments that no kernel takes");
  int64_t dim = call.args[1].u.i;
  if (!normal_dim(dim, out.ndim)) return fail(RAL_ERROR_INVALID_ARGUMENT, call.kernel.name + ": no such dimension");
  const int64_t count = element_count(out);
  if (count == 0) return RAL_SUCCESS;
  Layout kept{};
  int64_t size = 1, strides[2] = {1, 1};
  for (int d = 0; d < out.ndim; ++d) {
    if (d == dim) {
      size = out.shape[d];
      strides[0] = out.strides[d];
      strides[1] = in->strides[d];
      continue;
    }
    kept.shape[kept.rank] = out.shape[d];
    kept.stride[0][kept.rank] = out.strides[d];
    kept.stride[1][kept.rank++] = in->strides[d];
  }
  sort_by_first(kept, 2);
  coalesce(kept, 2);
  const auto rows = static_cast<size_t>(count / size);
  const size_t local = !call.device.cpu || rows >= 256u * call.device.info.compute_units
                           ? std::min<size_t>(64, call.device.max_group)
                           : 1;
  plan.begin("shape_cumsum", divide_up(rows, local), local);
  plan.buffer(out);
  plan.buffer(*in);
  plan.value(static_cast<int64_t>(rows));
  plan.value(size);
  plan.value(strides[0]);
  plan.value(strides[1]);
  plan.value(kept);
  return RAL_SUCCESS;
}

Layout pair_layout(const ral_tensor& out, const ral_tensor& in) {
  Layout layout{};
  layout.rank = out.ndim;
  for (int d = 0; d < out.ndim; ++d) {
    layout.shape[d] = out.shape[d];
    layout.stride[0][d] = out.strides[d];
    layout.stride[1][d] = in.strides[d];
  }
  return layout;
}

ral_status plan_triangle(const Call& call, Plan& plan) {
  const ral_tensor* in = nullptr;
  const ral_status status = same_shape(call, in);
  if (status != RAL_SUCCESS) return status;
  const ral_tensor& out = *call.outs[0].u.tensor;
  const int64_t count = element_count(out);
  if (out.ndim < 2 || (call.arg_count > 1 && call.args[1].tag != RAL_VALUE_INT))
    return unsupported(call, "arguments that no kernel takes");
  if (count == 0) return RAL_SUCCESS;
  plan.begin("shape_triangle", divide_up(static_cast<size_t>(count), call.device.group), call.device.group);
  plan.buffer(out);
  plan.buffer(*in);
  plan.value(count);
  plan.value(call.arg_count > 1 ? call.args[1].u.i : int64_t{0});
  plan.value(pair_layout(out, *in));
  return RAL_SUCCESS;
}

ral_status plan_flip(const Call& call, Plan& plan) {
  const ral_tensor* in = nullptr;
  const ral_status status = same_shape(call, in);
  if (status != RAL_SUCCESS) return status;
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (call.arg_count < 2 || call.args[1].tag != RAL_VALUE_INT_LIST)
    return unsupported(call, "arguments that no kernel takes");
  if (element_count(out) == 0) return RAL_SUCCESS;
  Layout layout = pair_layout(out, *in);
  uint64_t start = 0;
  for (uint64_t i = 0; i < call.args[1].u.ints.count; ++i) {
    int64_t dim = call.args[1].u.ints.items[i];
    if (!normal_dim(dim, out.ndim)) return fail(RAL_ERROR_INVALID_ARGUMENT, call.kernel.name + ": no such dimension");
    if (out.ndim == 0) continue;
    start += static_cast<uint64_t>((in->shape[dim] - 1) * in->strides[dim]) * item_size(call.args[0].dtype);
    layout.stride[1][dim] = -in->strides[dim];
  }
  copy_step(out, 0, *in, start, layout, call.device, plan);
  return RAL_SUCCESS;
}

ral_dtype input_type(const Call& call) { return is_tensor(call.args[0]) ? call.args[0].dtype : call.outs[0].dtype; }

ral_status plan(const Call& call, Plan& plan) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  if (call.out_count != 1 || !is_tensor(call.outs[0]) || call.arg_count == 0)
    return unsupported(call, "arguments that no kernel takes");
  if (call.outs[0].u.tensor->ndim > kMaxRank) return unsupported(call, "rank above 8");
  if (!usable(call.device, call.outs[0].dtype) || !usable(call.device, input_type(call)))
    return unsupported(call, "a data type that this device cannot compute");
  if (op.form != kCumsum && input_type(call) != call.outs[0].dtype) return unsupported(call, "mixed data types");
  plan.key = static_cast<uint64_t>(call.outs[0].dtype) | static_cast<uint64_t>(input_type(call)) << 5;
  switch (op.form) {
    case kCat: return plan_cat(call, plan);
    case kCumsum: return plan_cumsum(call, plan);
    case kTriangle: return plan_triangle(call, plan);
    default: return plan_flip(call, plan);
  }
}

// Elements that are only moved keep their bits.
const char* moved_name(ral_dtype type) {
  switch (item_size(type)) {
    case 1: return "uchar";
    case 2: return "ushort";
    case 4: return "uint";
    default: return "ulong";
  }
}

void preamble(const Call& call, const Plan&, std::string& out) {
  common_preamble(call.device, compute_type(call.outs[0].dtype), out);
  define(out, "OUT_TYPE", short_name(call.outs[0].dtype));
  define(out, "IN_TYPE", short_name(input_type(call)));
  define(out, "BITS", moved_name(call.outs[0].dtype));
}

}  // namespace

const Family kShape = {"shape.cl",
                       [](const std::string& symbol) -> const void* {
                         auto found = ops().find(symbol);
                         return found == ops().end() ? nullptr : &found->second;
                       },
                       plan, preamble};

}  // namespace ralcl
