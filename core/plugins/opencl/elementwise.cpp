// elementwise.cpp - operators that compute each output element from the elements at the same place of
// their (broadcast) inputs and from scalars. Schema argument i reaches the kernel as value a<i>, whether
// it is a tensor, a host scalar or a plain number; kernels/elementwise.cl has one expression per symbol.
#include <algorithm>
#include <unordered_map>

#include "plan.h"

namespace ralcl {
namespace {

// Which type the expression is computed in.
enum Rule : uint8_t {
  kOutput,  // the compute type of the output
  kCommon,  // the inputs' promoted type: comparisons and tests
  kInput,   // of the only tensor input: casts
};

enum Domain : uint8_t { kAny, kFloats, kIntegers };

struct Op {
  uint8_t arity;  // schema arguments that matter; later ones are ignored
  Rule rule;
  Domain domain;          // of the compute type
  uint8_t skip;           // bit i: argument i is not read
  bool exponent = false;  // argument 1 is an exponent: common ones need no pow()
};

const std::unordered_map<std::string, Op>& ops() {
  static const std::unordered_map<std::string, Op> table = {
      {"add", {3, kOutput, kAny, 0}},
      {"sub", {3, kOutput, kAny, 0}},
      {"rsub", {3, kOutput, kAny, 0}},
      {"mul", {2, kOutput, kAny, 0}},
      {"mul3", {3, kOutput, kAny, 0}},
      {"div", {2, kOutput, kFloats, 0}},
      {"div_mode", {3, kOutput, kFloats, 0}},
      {"neg", {1, kOutput, kAny, 0}},
      {"abs", {1, kOutput, kAny, 0}},
      {"sign", {1, kOutput, kAny, 0}},
      {"square", {1, kOutput, kAny, 0}},
      {"reciprocal", {1, kOutput, kFloats, 0}},
      {"sqrt", {1, kOutput, kFloats, 0}},
      {"rsqrt", {1, kOutput, kFloats, 0}},
      {"exp", {1, kOutput, kFloats, 0}},
      {"exp2", {1, kOutput, kFloats, 0}},
      {"expm1", {1, kOutput, kFloats, 0}},
      {"log", {1, kOutput, kFloats, 0}},
      {"log2", {1, kOutput, kFloats, 0}},
      {"log10", {1, kOutput, kFloats, 0}},
      {"log1p", {1, kOutput, kFloats, 0}},
      {"sin", {1, kOutput, kFloats, 0}},
      {"cos", {1, kOutput, kFloats, 0}},
      {"tan", {1, kOutput, kFloats, 0}},
      {"asin", {1, kOutput, kFloats, 0}},
      {"acos", {1, kOutput, kFloats, 0}},
      {"atan", {1, kOutput, kFloats, 0}},
      {"sinh", {1, kOutput, kFloats, 0}},
      {"cosh", {1, kOutput, kFloats, 0}},
      {"tanh", {1, kOutput, kFloats, 0}},
      {"asinh", {1, kOutput, kFloats, 0}},
      {"acosh", {1, kOutput, kFloats, 0}},
      {"atanh", {1, kOutput, kFloats, 0}},
      {"sigmoid", {1, kOutput, kFloats, 0}},
      {"relu", {1, kOutput, kAny, 0}},
      {"silu", {1, kOutput, kFloats, 0}},
      {"mish", {1, kOutput, kFloats, 0}},
      {"gelu", {2, kOutput, kFloats, 0}},
      {"erf", {1, kOutput, kFloats, 0}},
      {"erfc", {1, kOutput, kFloats, 0}},
      {"floor", {1, kOutput, kFloats, 0}},
      {"ceil", {1, kOutput, kFloats, 0}},
      {"round", {1, kOutput, kFloats, 0}},
      {"trunc", {1, kOutput, kFloats, 0}},
      {"frac", {1, kOutput, kFloats, 0}},
      {"leaky_relu", {2, kOutput, kFloats, 0}},
      {"prelu", {2, kOutput, kFloats, 0}},
      {"elu", {4, kOutput, kFloats, 0}},
      {"hardtanh", {3, kOutput, kAny, 0}},
      {"hardswish", {1, kOutput, kFloats, 0}},
      {"hardsigmoid", {1, kOutput, kFloats, 0}},
      {"softplus", {3, kOutput, kFloats, 0}},
      {"threshold", {3, kOutput, kAny, 0}},
      {"maximum", {2, kOutput, kAny, 0}},
      {"minimum", {2, kOutput, kAny, 0}},
      {"fmax", {2, kOutput, kAny, 0}},
      {"fmin", {2, kOutput, kAny, 0}},
      {"clamp", {3, kOutput, kAny, 0}},
      {"clamp_min", {2, kOutput, kAny, 0}},
      {"clamp_max", {2, kOutput, kAny, 0}},
      {"fmod", {2, kOutput, kFloats, 0}},
      {"remainder", {2, kOutput, kFloats, 0}},
      {"pow", {2, kOutput, kFloats, 0, true}},
      {"atan2", {2, kOutput, kFloats, 0}},
      {"hypot", {2, kOutput, kFloats, 0}},
      {"copysign", {2, kOutput, kFloats, 0}},
      {"lerp", {3, kOutput, kFloats, 0}},
      {"addcmul", {4, kOutput, kAny, 0}},
      {"addcdiv", {4, kOutput, kFloats, 0}},
      {"where", {3, kOutput, kAny, 0}},
      {"masked_fill", {3, kOutput, kAny, 0}},
      {"eq", {2, kCommon, kAny, 0}},
      {"ne", {2, kCommon, kAny, 0}},
      {"lt", {2, kCommon, kAny, 0}},
      {"le", {2, kCommon, kAny, 0}},
      {"gt", {2, kCommon, kAny, 0}},
      {"ge", {2, kCommon, kAny, 0}},
      {"logical_and", {2, kCommon, kAny, 0}},
      {"logical_or", {2, kCommon, kAny, 0}},
      {"logical_xor", {2, kCommon, kAny, 0}},
      {"logical_not", {1, kCommon, kAny, 0}},
      {"isnan", {1, kCommon, kAny, 0}},
      {"isinf", {1, kCommon, kAny, 0}},
      {"isfinite", {1, kCommon, kAny, 0}},
      {"signbit", {1, kCommon, kFloats, 0}},
      {"bitwise_and", {2, kOutput, kIntegers, 0}},
      {"bitwise_or", {2, kOutput, kIntegers, 0}},
      {"bitwise_xor", {2, kOutput, kIntegers, 0}},
      {"bitwise_not", {1, kOutput, kIntegers, 0}},
      {"threshold_backward", {3, kOutput, kAny, 0}},
      {"sigmoid_backward", {2, kOutput, kFloats, 0}},
      {"tanh_backward", {2, kOutput, kFloats, 0}},
      {"gelu_backward", {3, kOutput, kFloats, 0}},
      {"silu_backward", {2, kOutput, kFloats, 0}},
      {"leaky_relu_backward", {3, kOutput, kFloats, 0}},
      {"hardtanh_backward", {4, kOutput, kFloats, 0}},
      {"hardsigmoid_backward", {2, kOutput, kFloats, 0}},
      {"hardswish_backward", {2, kOutput, kFloats, 0}},
      {"softplus_backward", {4, kOutput, kFloats, 0}},
      {"elu_backward", {6, kOutput, kFloats, 0}},
      {"fill", {2, kOutput, kAny, 1}},
      {"zero", {1, kOutput, kAny, 1}},
      {"copy", {2, kInput, kAny, 1}},
      {"cast", {1, kInput, kAny, 0}},
  };
  return table;
}

constexpr uint32_t kMaxArity = 6;
constexpr int64_t kShortRow = 4;         // rows shorter than this go by flat index
constexpr int64_t kPiece = 4096;         // elements of one work-item of a CPU
constexpr int64_t kStridedLength = 128;  // of a row where an operand is strided along it: such a piece,
constexpr int64_t kStridedRows = 16;     // so many rows high, reads whole cache lines
constexpr int kWayShift = 46;            // place in the key of the innermost strides' forms

// What an argument is, five bits of the program's key: a dtype, or one of these.
enum Slot : uint64_t { kScalar = 20, kAbsent = 21, kText = 22 };

struct Operands {
  Op op{};
  uint64_t slots[kMaxArity];
  const ral_tensor* tensors[kMaxArity];
  ral_dtype out_type = -1;
  ral_dtype in_type = -1;  // of a cast; raw bits where nothing is converted
  ral_dtype compute = -1;
  ral_dtype common = -1;  // of kCommon
  uint64_t mode = 0;      // a string argument, or a special exponent
  bool raw = false;       // a copy without conversion
};

int category(ral_dtype type) { return type == RAL_BOOL ? 0 : is_float(type) ? 2 : 1; }

ral_dtype promote(ral_dtype a, ral_dtype b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  const int ca = category(a), cb = category(b);
  if (ca != cb) return ca > cb ? a : b;
  if (ca == 2) {
    if (a == RAL_FLOAT64 || b == RAL_FLOAT64) return RAL_FLOAT64;
    return RAL_FLOAT32;  // float32 with a half, or the two halves
  }
  const bool signed_a = a != RAL_UINT8, signed_b = b != RAL_UINT8;
  if (signed_a != signed_b) {  // uint8 with a signed type
    const ral_dtype other = signed_a ? a : b;
    return other == RAL_INT8 ? RAL_INT16 : other;
  }
  return std::max(a, b);
}

// PyTorch's result type over tensors with dimensions, 0-dim tensors and numbers: a lower rank only counts
// where its category is higher.
ral_dtype common_type(const Call& call, const Op& op) {
  ral_dtype dims = -1, zero = -1, number = -1;
  for (uint32_t i = 0; i < op.arity; ++i) {
    const ral_value* value = argument(call, i);
    if (!value) continue;
    if (is_tensor(*value)) {
      ral_dtype& target = value->u.tensor->ndim > 0 ? dims : zero;
      target = promote(target, value->dtype);
    } else if (value->tag == RAL_VALUE_HOST_SCALAR) {
      zero = promote(zero, value->dtype);
    } else if (value->tag == RAL_VALUE_DOUBLE) {
      number = promote(number, RAL_FLOAT32);
    } else if (value->tag == RAL_VALUE_INT) {
      number = promote(number, RAL_INT64);
    } else if (value->tag == RAL_VALUE_BOOL) {
      number = promote(number, RAL_BOOL);
    }
  }
  ral_dtype result = dims;
  if (zero >= 0 && (result < 0 || category(zero) > category(result))) result = promote(result, zero);
  if (number >= 0 && (result < 0 || category(number) > category(result))) result = promote(result, number);
  return result;
}

// "none"/"tanh" of gelu, None/"trunc"/"floor" of div.
uint64_t text_mode(const char* text) {
  if (std::strcmp(text, "tanh") == 0 || std::strcmp(text, "trunc") == 0) return 1;
  if (std::strcmp(text, "floor") == 0) return 2;
  return 0;
}

// Exponents that need no pow(): 1 + place in this list is the mode.
uint64_t exponent_mode(double exponent) {
  static const double simple[] = {2.0, 3.0, 0.5, 1.0, -1.0, -2.0, -0.5};
  for (size_t i = 0; i < sizeof simple / sizeof *simple; ++i)
    if (simple[i] == exponent) return i + 1;
  return 0;
}

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

ral_dtype raw_type(ral_dtype type) {
  switch (item_size(type)) {
    case 1: return RAL_UINT8;
    case 2: return RAL_INT16;
    case 4: return RAL_INT32;
    case 8: return RAL_INT64;
    default: return -1;
  }
}

ral_status classify(const Call& call, Operands& o) {
  o.op = *static_cast<const Op*>(call.kernel.op);
  if (call.out_count != 1 || !is_tensor(call.outs[0])) return unsupported(call, "needs one output tensor");
  o.out_type = call.outs[0].dtype;
  for (uint32_t i = 0; i < o.op.arity; ++i) {
    o.tensors[i] = nullptr;
    o.slots[i] = kAbsent;
    const ral_value* value = argument(call, i);
    if (!value || (o.op.skip >> i & 1) || value->tag == RAL_VALUE_NONE) continue;
    double real = 0;
    int64_t whole = 0;
    if (is_tensor(*value)) {
      o.tensors[i] = value->u.tensor;
      o.slots[i] = static_cast<uint64_t>(value->dtype);
      o.in_type = value->dtype;
    } else if (value->tag == RAL_VALUE_STRING) {
      o.slots[i] = kText;
      o.mode = text_mode(value->u.string);
    } else if (scalar_value(*value, real, whole)) {
      o.slots[i] = kScalar;
      if (o.op.exponent && i == 1) o.mode = exponent_mode(real);
    } else {
      return unsupported(call, "argument " + std::to_string(i) + " has a form that no kernel takes");
    }
  }
  if (o.op.rule == kInput && o.slots[o.op.arity - 1] == kScalar) {  // a host scalar as source
    o.in_type = call.args[o.op.arity - 1].dtype >= 0 ? call.args[o.op.arity - 1].dtype : o.out_type;
  } else if (o.op.rule == kInput && o.in_type == o.out_type) {
    o.raw = true;
    o.in_type = o.out_type = raw_type(o.out_type);
    if (o.in_type < 0) return unsupported(call, "elements of 16 bytes");
    o.slots[o.op.arity - 1] = static_cast<uint64_t>(o.in_type);
  }
  o.common = o.op.rule == kCommon ? common_type(call, o.op) : -1;
  const ral_dtype base = o.op.rule == kOutput ? o.out_type : o.op.rule == kCommon ? o.common : o.in_type;
  if (base < 0 || !usable(call.device, base) || !usable(call.device, o.out_type))
    return unsupported(call, "a data type that this device cannot compute");
  o.compute = compute_type(base);
  for (uint32_t i = 0; i < o.op.arity && o.compute == RAL_INT32; ++i)
    if (o.tensors[i] && o.slots[i] == RAL_INT64) o.compute = RAL_INT64;  // an in-place call with a narrower result
  for (uint32_t i = 0; i < o.op.arity; ++i)
    if (o.tensors[i] && !usable(call.device, static_cast<ral_dtype>(o.slots[i])))
      return unsupported(call, "a data type that this device cannot load");
  if (o.op.domain == kFloats && !is_float(o.compute)) return unsupported(call, "not for integers");
  if (o.op.domain == kIntegers && is_float(o.compute)) return unsupported(call, "not for floating point");
  return RAL_SUCCESS;
}

// Strides of a tensor over the output's shape, right-aligned, 0 where it is broadcast.
bool broadcast_strides(const ral_tensor& tensor, const ral_tensor& out, int64_t* strides) {
  if (tensor.ndim > out.ndim) return false;
  const int shift = out.ndim - tensor.ndim;
  for (int d = 0; d < out.ndim; ++d) {
    if (d < shift || (tensor.shape[d - shift] == 1 && out.shape[d] != 1)) {
      strides[d] = 0;
    } else if (tensor.shape[d - shift] == out.shape[d]) {
      strides[d] = tensor.strides[d - shift];
    } else {
      return false;
    }
  }
  return true;
}

// Layout of output and tensor arguments; operand 0 is the output.
ral_status lay_out(const Call& call, const Operands& o, Layout& layout) {
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (out.ndim > kMaxRank) return unsupported(call, "rank above 8");
  layout.rank = out.ndim;
  for (int d = 0; d < out.ndim; ++d) {
    layout.shape[d] = out.shape[d];
    layout.stride[0][d] = out.strides[d];
    if (out.strides[d] == 0 && out.shape[d] > 1) return unsupported(call, "output elements overlap");
  }
  int operand = 1;
  for (uint32_t i = 0; i < o.op.arity; ++i) {
    if (!o.tensors[i]) continue;
    if (operand == kMaxOperands) return unsupported(call, "too many tensors");
    if (!broadcast_strides(*o.tensors[i], out, layout.stride[operand++]))
      return unsupported(call, "shapes do not broadcast to the output's");
  }
  sort_by_first(layout, operand);
  coalesce(layout, operand);
  return RAL_SUCCESS;
}

void add_operands(const Call& call, const Operands& o, Plan& plan) {
  plan.buffer(*call.outs[0].u.tensor);
  for (uint32_t i = 0; i < o.op.arity; ++i) {
    if (o.tensors[i]) {
      plan.buffer(*o.tensors[i]);
    } else if (o.slots[i] == kScalar) {
      double real = 0;
      int64_t whole = 0;
      scalar_value(call.args[i], real, whole);
      if (o.op.rule == kCommon) real = rounded_to(o.common, real);
      plan.scalar(o.compute, real, whole);
    }
  }
}

uint64_t make_key(const Call& call, const Operands& o) {
  uint64_t key = static_cast<uint64_t>(o.out_type) | static_cast<uint64_t>(o.compute) << 5 | o.mode << 10 |
                 static_cast<uint64_t>(o.raw) << 14 | static_cast<uint64_t>(call.outs[0].dtype == RAL_BOOL) << 15;
  for (uint32_t i = 0; i < o.op.arity; ++i) key |= o.slots[i] << (16 + 5 * i);
  return key;
}

bool contiguous(const Layout& layout, int operands) {
  if (layout.rank == 0) return true;
  if (layout.rank != 1) return false;
  for (int k = 0; k < operands; ++k)
    if (layout.stride[k][0] != 1) return false;
  return true;
}

ral_status plan(const Call& call, Plan& plan) {
  Operands o;
  ral_status status = classify(call, o);
  if (status != RAL_SUCCESS) return status;
  plan.key = make_key(call, o);
  const int64_t count = element_count(*call.outs[0].u.tensor);
  if (count == 0) return RAL_SUCCESS;
  const size_t group = call.device.group;
  Layout layout;
  status = lay_out(call, o, layout);
  if (status != RAL_SUCCESS) return status;
  int operands = 1;
  for (uint32_t i = 0; i < o.op.arity; ++i) operands += o.tensors[i] != nullptr;

  if (contiguous(layout, operands)) {
    plan.begin("elementwise_contiguous", divide_up(static_cast<size_t>(count), group), group);
    add_operands(call, o, plan);
    plan.value(count);
    return RAL_SUCCESS;
  }
  const int last = static_cast<int>(layout.rank) - 1;
  const int64_t inner = layout.shape[last];
  if (!call.device.cpu || (inner < kShortRow && layout.rank > 1)) {
    plan.begin("elementwise_flat", divide_up(static_cast<size_t>(count), group), group);
    add_operands(call, o, plan);
    plan.value(count);
    plan.value(layout);
    return RAL_SUCCESS;
  }
  bool strided = false;
  for (int k = 0; k < operands; ++k) {
    const int64_t stride = layout.stride[k][last];
    strided = strided || stride > 1;
    plan.key |= static_cast<uint64_t>(stride > 1 ? 2 : stride) << (kWayShift + 2 * k);
  }
  const int64_t rows = count / inner;
  const int64_t length = std::min(inner, strided ? kStridedLength : kPiece);
  const int64_t height = std::min(rows, strided ? kStridedRows : std::max<int64_t>(1, kPiece / length));
  plan.begin("elementwise_rows",
             divide_up(static_cast<size_t>(rows), static_cast<size_t>(height)) *
                 divide_up(static_cast<size_t>(inner), static_cast<size_t>(length)),
             1);
  add_operands(call, o, plan);
  plan.value(rows);
  plan.value(length);
  plan.value(height);
  plan.value(layout);
  return RAL_SUCCESS;
}

// The stride of operand k along the innermost dimension, as far as it is known when building.
std::string inner_stride(const Plan& plan, int k) {
  const uint64_t form = plan.key >> (kWayShift + 2 * k) & 3;
  return form == 2 ? "lay.stride[" + std::to_string(k) + "][last]" : std::to_string(form);
}

void preamble(const Call& call, const Plan& plan, std::string& out) {
  Operands o;
  if (classify(call, o) != RAL_SUCCESS) return;
  common_preamble(call.device, o.compute, out);
  define(out, "OUT_TYPE", short_name(o.out_type));
  define(out, "OUT_BOOL", !o.raw && call.outs[0].dtype == RAL_BOOL ? "1" : "0");
  define(out, "OUT_INNER", inner_stride(plan, 0));
  define(out, "MODE", std::to_string(o.mode));
  int operand = 1;
  for (uint32_t i = 0; i < kMaxArity; ++i) {
    const std::string n = std::to_string(i);
    const bool tensor = i < o.op.arity && o.tensors[i];
    const bool scalar = i < o.op.arity && o.slots[i] == kScalar;
    define(out, "HAS_" + n, tensor || scalar ? "1" : "0");
    define(out, "PARAM_" + n,
           tensor   ? "__global const char* p" + n + ", ulong o" + n + ","
           : scalar ? "T s" + n + ","
                    : "");
    define(out, "VALUE_" + n + "(i)",
           tensor ? "(T)LOAD(" + std::string(short_name(static_cast<ral_dtype>(o.slots[i]))) + ", p" + n + " + o" + n +
                        ", i)"
           : scalar ? "s" + n
                    : "(T)0");
    define(out, "STRIDE_" + n + "(d)", tensor ? "lay.stride[" + std::to_string(operand) + "][d]" : "0");
    define(out, "INNER_" + n, tensor ? inner_stride(plan, operand) : "0");
    operand += tensor;
  }
}

}  // namespace

const Family kElementwise = {"elementwise.cl",
                             [](const std::string& symbol) -> const void* {
                               auto found = ops().find(symbol);
                               return found == ops().end() ? nullptr : &found->second;
                             },
                             plan, preamble};

}  // namespace ralcl
