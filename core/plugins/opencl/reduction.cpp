// reduction.cpp - sums, means, extrema, variances and their like over any set of dimensions. The kept
// dimensions index the results; the reduced ones are walked in blocks, each summed by itself (less
// rounding error), and shared out to several work-items where there are few results.
#include <algorithm>
#include <unordered_map>

#include "plan.h"

namespace ralcl {
namespace {

enum Form : uint8_t { kValue, kValueAndIndex, kIndex, kVariance };

struct Op {
  Form form;
  int dim;           // schema argument with the dimensions; -1: all
  bool of_output;    // computes in the output's type, else in the input's
  bool needs_items;  // no result for an empty range
};

const std::unordered_map<std::string, Op>& ops() {
  static const std::unordered_map<std::string, Op> table = {
      {"sum_all", {kValue, -1, true, false}},    {"sum", {kValue, 1, true, false}},
      {"mean_all", {kValue, -1, true, false}},   {"mean", {kValue, 1, true, false}},
      {"prod_all", {kValue, -1, true, false}},   {"prod", {kValue, 1, true, false}},
      {"amax", {kValue, 1, false, true}},        {"amin", {kValue, 1, false, true}},
      {"max_all", {kValue, -1, false, true}},    {"min_all", {kValue, -1, false, true}},
      {"any", {kValue, 1, false, false}},        {"all", {kValue, 1, false, false}},
      {"any_all", {kValue, -1, false, false}},   {"all_all", {kValue, -1, false, false}},
      {"max", {kValueAndIndex, 1, false, true}}, {"min", {kValueAndIndex, 1, false, true}},
      {"argmax", {kIndex, 1, false, true}},      {"argmin", {kIndex, 1, false, true}},
      {"var", {kVariance, 1, true, false}},      {"std", {kVariance, 1, true, false}},
  };
  return table;
}

constexpr int64_t kBlock = 2048;       // elements summed by themselves; reduction.cl has the same number
constexpr int64_t kColumnVectors = 4;  // of results in one work-item where there are enough
constexpr int kWideShift = 16;         // place in the key

// One operand's dimensions, as reduction.cl sees them (dims_t).
struct Dims {
  int64_t rank;
  int64_t shape[kMaxRank];
  int64_t stride[kMaxRank];
};

struct Shape {
  Layout kept{};     // operands: input, output, indices
  Layout reduced{};  // operand: input
  int64_t results = 1;
  int64_t items = 1;  // reduced into one result
};

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

// Bit d: dimension d is reduced.
bool reduced_dims(const Call& call, int at, int rank, uint32_t& mask) {
  mask = (1u << rank) - 1;
  const ral_value* value = at < 0 ? nullptr : argument(call, static_cast<uint32_t>(at));
  if (!value || value->tag == RAL_VALUE_NONE) return true;
  const int64_t* items = value->tag == RAL_VALUE_INT ? &value->u.i : value->u.ints.items;
  uint64_t count = value->tag == RAL_VALUE_INT ? 1 : value->tag == RAL_VALUE_INT_LIST ? value->u.ints.count : 0;
  if (value->tag != RAL_VALUE_INT && value->tag != RAL_VALUE_INT_LIST) return false;
  if (count == 0) return true;  // an empty list means all
  mask = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t d = items[i] < 0 ? items[i] + std::max(rank, 1) : items[i];
    if (d < 0 || d >= std::max(rank, 1)) return false;
    if (rank > 0) mask |= 1u << d;
  }
  return true;
}

ral_status read_shape(const Call& call, const Op& op, Shape& s) {
  const ral_tensor& in = *call.args[0].u.tensor;
  uint32_t mask = 0;
  if (in.ndim > kMaxRank) return unsupported(call, "rank above 8");
  if (!reduced_dims(call, op.dim, in.ndim, mask)) return unsupported(call, "dimensions that no kernel takes");
  for (uint32_t k = 0; k < call.out_count; ++k) {
    const ral_tensor& out = *call.outs[k].u.tensor;
    const bool keeps = out.ndim == in.ndim;
    int at = 0;
    for (int d = 0; d < in.ndim; ++d) {
      if (mask >> d & 1) {
        at += keeps;
        continue;
      }
      if (at >= out.ndim || out.shape[at] != in.shape[d]) return unsupported(call, "the output's shape does not fit");
      s.kept.stride[1 + k][s.kept.rank] = out.strides[at++];
      if (k == 0) s.kept.stride[0][s.kept.rank] = in.strides[d];
      s.kept.shape[s.kept.rank] = in.shape[d];
      ++s.kept.rank;
    }
    if (k + 1 < call.out_count) s.kept.rank = 0;  // the next output fills in its strides
  }
  for (int d = 0; d < in.ndim; ++d) {
    (mask >> d & 1 ? s.items : s.results) *= in.shape[d];
    if (!(mask >> d & 1)) continue;
    s.reduced.shape[s.reduced.rank] = in.shape[d];
    s.reduced.stride[0][s.reduced.rank++] = in.strides[d];
  }
  const int operands = 1 + static_cast<int>(call.out_count);
  sort_by_first(s.kept, operands);
  coalesce(s.kept, operands);
  // An index counts in the order of the dimensions as they are; other results do not depend on it.
  if (op.form == kValue || op.form == kVariance) sort_by_first(s.reduced, 1);
  coalesce(s.reduced, 1);
  return RAL_SUCCESS;
}

ral_status check(const Call& call, const Op& op) {
  const uint32_t outs = op.form == kValueAndIndex ? 2 : 1;
  if (call.out_count != outs || call.arg_count < 1 || !is_tensor(call.args[0]))
    return unsupported(call, "arguments that no kernel takes");
  for (uint32_t k = 0; k < outs; ++k)
    if (!is_tensor(call.outs[k]) || !usable(call.device, call.outs[k].dtype))
      return unsupported(call, "an output that this device cannot store");
  if (!usable(call.device, call.args[0].dtype)) return unsupported(call, "a data type that this device cannot load");
  return RAL_SUCCESS;
}

// The innermost reduced dimension is walked in line; the others by index.
void split_reduced(const Shape& s, int64_t& inner, int64_t& inner_stride, Dims& outer) {
  outer.rank = 0;
  inner = 1;
  inner_stride = 1;
  if (s.reduced.rank == 0) return;
  const int last = static_cast<int>(s.reduced.rank) - 1;
  inner = s.reduced.shape[last];
  inner_stride = s.reduced.stride[0][last];
  for (int d = 0; d < last; ++d) {
    outer.shape[d] = s.reduced.shape[d];
    outer.stride[d] = s.reduced.stride[0][d];
  }
  outer.rank = last;
}

// Work-items a group: many where there are very many small pieces of work, else 1.
size_t group_size(const Device& device, size_t items) {
  if (!device.cpu) return std::min<size_t>(64, device.max_group);
  return items >= 256u * device.info.compute_units ? std::min<size_t>(64, device.max_group) : 1;
}

// How many work-items share one result's range, so that all compute units have work.
int64_t choose_splits(const Device& device, int64_t pieces, int64_t blocks) {
  const int64_t wanted = static_cast<int64_t>(device.info.compute_units) * (device.cpu ? 4 : 64);
  if (pieces >= wanted) return 1;
  return std::max<int64_t>(1, std::min<int64_t>({blocks, (wanted + pieces - 1) / pieces, 256}));
}

ral_status plan_value(const Call& call, const Shape& s, ral_dtype compute, Plan& plan) {
  int64_t inner = 1, inner_stride = 1;
  Dims outer{};
  split_reduced(s, inner, inner_stride, outer);
  const int64_t blocks =
      inner == 0 ? 0 : s.items / inner * static_cast<int64_t>(divide_up(static_cast<size_t>(inner), kBlock));
  const int last = static_cast<int>(s.kept.rank) - 1;
  const int64_t lanes = lanes_of(call.device, compute);
  const bool columns = last >= 0 && s.kept.stride[0][last] == 1 && s.kept.shape[last] >= lanes && inner_stride != 1;
  int64_t pieces = s.results;
  if (columns) {
    const int64_t width = s.kept.shape[last] >= kColumnVectors * lanes ? kColumnVectors * lanes : lanes;
    pieces = s.results / s.kept.shape[last] *
             static_cast<int64_t>(divide_up(static_cast<size_t>(s.kept.shape[last]), static_cast<size_t>(width)));
    plan.key |= static_cast<uint64_t>(width / lanes) << kWideShift;
  }
  const int64_t splits = choose_splits(call.device, pieces, blocks);
  const size_t items = static_cast<size_t>(pieces * splits);
  const size_t local = group_size(call.device, items);
  plan.begin(columns             ? "reduce_columns"
             : inner_stride == 1 ? "reduce_rows"
                                 : "reduce_strided",
             divide_up(items, local), local);
  plan.buffer(*call.args[0].u.tensor);
  if (splits > 1) {
    plan.scratch(call, 0);
    plan.workspace = static_cast<uint64_t>(s.results * splits) * item_size(compute);
  } else {
    plan.buffer(*call.outs[0].u.tensor);
  }
  plan.value(s.results);
  plan.value(splits);
  plan.value(s.items);
  plan.value(inner);
  plan.value(inner_stride);
  plan.value(s.kept);
  plan.value(outer);
  if (splits == 1) return RAL_SUCCESS;
  const size_t finish_local = group_size(call.device, static_cast<size_t>(s.results));
  plan.begin("reduce_finish", divide_up(static_cast<size_t>(s.results), finish_local), finish_local);
  plan.scratch(call, 0);
  plan.buffer(*call.outs[0].u.tensor);
  plan.value(s.results);
  plan.value(splits);
  plan.value(s.items);
  plan.value(s.kept);
  return RAL_SUCCESS;
}

ral_status plan_index(const Call& call, const Op& op, const Shape& s, Plan& plan) {
  Dims reduced{};
  reduced.rank = s.reduced.rank;
  for (int d = 0; d < s.reduced.rank; ++d) {
    reduced.shape[d] = s.reduced.shape[d];
    reduced.stride[d] = s.reduced.stride[0][d];
  }
  const size_t local = group_size(call.device, static_cast<size_t>(s.results));
  plan.begin("reduce_index", divide_up(static_cast<size_t>(s.results), local), local);
  plan.buffer(*call.args[0].u.tensor);
  plan.buffer(*call.outs[0].u.tensor);
  if (op.form == kValueAndIndex) plan.buffer(*call.outs[1].u.tensor);
  plan.value(s.results);
  plan.value(s.items);
  plan.value(s.kept);
  plan.value(reduced);
  return RAL_SUCCESS;
}

ral_status plan_variance(const Call& call, const Shape& s, ral_dtype compute, Plan& plan) {
  double correction = 1;
  int64_t whole = 0;
  const ral_value* value = argument(call, 2);
  if (value && value->tag != RAL_VALUE_NONE && !scalar_value(*value, correction, whole))
    return unsupported(call, "a correction that is no number");
  int64_t inner = 1, inner_stride = 1;
  Dims outer{};
  split_reduced(s, inner, inner_stride, outer);
  const size_t local = group_size(call.device, static_cast<size_t>(s.results));
  plan.begin("reduce_variance", divide_up(static_cast<size_t>(s.results), local), local);
  plan.buffer(*call.args[0].u.tensor);
  plan.buffer(*call.outs[0].u.tensor);
  plan.scalar(compute, correction, 0);
  plan.value(s.results);
  plan.value(s.items);
  plan.value(inner);
  plan.value(inner_stride);
  plan.value(s.kept);
  plan.value(outer);
  return RAL_SUCCESS;
}

ral_dtype compute_of(const Call& call, const Op& op) {
  return compute_type(op.of_output ? call.outs[0].dtype : call.args[0].dtype);
}

ral_status plan(const Call& call, Plan& plan) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  ral_status status = check(call, op);
  if (status != RAL_SUCCESS) return status;
  const ral_dtype compute = compute_of(call, op);
  if (op.form == kVariance && !is_float(compute)) return unsupported(call, "not for integers");
  plan.key = static_cast<uint64_t>(call.args[0].dtype) | static_cast<uint64_t>(call.outs[0].dtype) << 5 |
             static_cast<uint64_t>(compute) << 10;
  Shape s;
  status = read_shape(call, op, s);
  if (status != RAL_SUCCESS) return status;
  if (s.results == 0) return RAL_SUCCESS;
  if (s.items == 0 && op.needs_items) return unsupported(call, "nothing to reduce");
  if (op.form == kVariance) return plan_variance(call, s, compute, plan);
  return op.form == kValue ? plan_value(call, s, compute, plan) : plan_index(call, op, s, plan);
}

void preamble(const Call& call, const Plan& plan, std::string& out) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  common_preamble(call.device, compute_of(call, op), out);
  define(out, "IN_TYPE", short_name(call.args[0].dtype));
  define(out, "OUT_TYPE", short_name(call.outs[0].dtype));
  define(out, "VECTORS", std::to_string(plan.key >> kWideShift));
  define(out, "FORM", std::to_string(op.form));
}

}  // namespace

const Family kReduction = {"reduction.cl",
                           [](const std::string& symbol) -> const void* {
                             auto found = ops().find(symbol);
                             return found == ops().end() ? nullptr : &found->second;
                           },
                           plan, preamble};

}  // namespace ralcl
