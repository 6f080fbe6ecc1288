// norm.cpp - native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd.
#include <algorithm>

#include "plan.h"

namespace ralcl {
namespace {

const int kLayerNorm = 1;

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

const ral_value* optional_tensor(const Call& call, uint32_t i) {
  const ral_value* value = argument(call, i);
  return value && is_tensor(*value) ? value : nullptr;
}

ral_status check(const Call& call) {
  if (call.arg_count < 5 || call.out_count != 3 || !is_tensor(call.args[0]) || call.args[1].tag != RAL_VALUE_INT_LIST)
    return unsupported(call, "arguments that no kernel takes");
  const ral_value* values[6] = {
      &call.args[0], optional_tensor(call, 2), optional_tensor(call, 3), &call.outs[0], &call.outs[1], &call.outs[2]};
  for (const ral_value* value : values) {
    if (!value) continue;
    if (!is_tensor(*value) || !is_float(value->dtype) || !usable(call.device, value->dtype))
      return unsupported(call, "a data type that no kernel takes");
    if (!is_contiguous(*value->u.tensor)) return unsupported(call, "non-contiguous");
  }
  return RAL_SUCCESS;
}

ral_status plan(const Call& call, Plan& plan) {
  const ral_status status = check(call);
  if (status != RAL_SUCCESS) return status;
  const ral_value* weight = optional_tensor(call, 2);
  const ral_value* bias = optional_tensor(call, 3);
  const auto tag = [](const ral_value* value) { return static_cast<uint64_t>(value ? value->dtype : 31); };
  plan.key =
      tag(&call.args[0]) | tag(weight) << 5 | tag(bias) << 10 | tag(&call.outs[0]) << 15 | tag(&call.outs[1]) << 20;
  int64_t size = 1, whole = 0;
  for (uint64_t i = 0; i < call.args[1].u.ints.count; ++i) size *= call.args[1].u.ints.items[i];
  const int64_t count = element_count(*call.args[0].u.tensor);
  if (count == 0 || size == 0) {
    if (element_count(*call.outs[1].u.tensor) == 0) return RAL_SUCCESS;
    return unsupported(call, "empty rows");
  }
  double eps = 0;
  if (!scalar_value(call.args[4], eps, whole)) return unsupported(call, "an eps that is no number");
  const int64_t rows = count / size;
  const bool many = rows >= static_cast<int64_t>(256u * call.device.info.compute_units);
  const size_t local = many || !call.device.cpu ? std::min<size_t>(64, call.device.max_group) : 1;
  plan.begin("layer_norm", divide_up(static_cast<size_t>(rows), local), local);
  plan.buffer(*call.args[0].u.tensor);
  if (weight) plan.buffer(*weight->u.tensor);
  if (bias) plan.buffer(*bias->u.tensor);
  for (uint32_t k = 0; k < 3; ++k) plan.buffer(*call.outs[k].u.tensor);
  plan.value(rows);
  plan.value(size);
  plan.scalar(compute_type(call.args[0].dtype), eps, 0);
  return RAL_SUCCESS;
}

void preamble(const Call& call, const Plan&, std::string& out) {
  const ral_value* weight = optional_tensor(call, 2);
  const ral_value* bias = optional_tensor(call, 3);
  common_preamble(call.device, compute_type(call.args[0].dtype), out);
  define(out, "IN_TYPE", short_name(call.args[0].dtype));
  define(out, "OUT_TYPE", short_name(call.outs[0].dtype));
  define(out, "STAT_TYPE", short_name(call.outs[1].dtype));
  if (weight) define(out, "WEIGHT_TYPE", short_name(weight->dtype));
  if (bias) define(out, "BIAS_TYPE", short_name(bias->dtype));
}

}  // namespace

const Family kNorm = {
    "norm.cl", [](const std::string& symbol) -> const void* { return symbol == "layer_norm" ? &kLayerNorm : nullptr; },
    plan, preamble};

}  // namespace ralcl
