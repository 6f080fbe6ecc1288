// plan.cpp - values, types and layouts for plans, see plan.h.
#include "plan.h"

#include <algorithm>
#include <cmath>

namespace ralcl {

const char* short_name(ral_dtype type) {
  static const char* const names[RAL_DTYPE_COUNT] = {"bool", "u8",  "i8",    "i16",   "i32", "i64", "f16", "bf16",
                                                     "f32",  "f64", nullptr, nullptr, "u16", "u32", "u64"};
  return type >= 0 && type < RAL_DTYPE_COUNT ? names[type] : nullptr;
}

uint32_t item_size(ral_dtype type) {
  static const uint8_t sizes[RAL_DTYPE_COUNT] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
  return type >= 0 && type < RAL_DTYPE_COUNT ? sizes[type] : 0;
}

ral_dtype compute_type(ral_dtype type) {
  switch (type) {
    case RAL_FLOAT16:
    case RAL_BFLOAT16:
    case RAL_FLOAT32: return RAL_FLOAT32;
    case RAL_FLOAT64: return RAL_FLOAT64;
    case RAL_INT64:
    case RAL_UINT32: return RAL_INT64;
    case RAL_UINT64: return RAL_UINT64;
    default: return RAL_INT32;
  }
}

const char* compute_name(ral_dtype compute) {
  switch (compute) {
    case RAL_FLOAT32: return "float";
    case RAL_FLOAT64: return "double";
    case RAL_INT64: return "long";
    case RAL_UINT64: return "ulong";
    default: return "int";
  }
}

bool usable(const Device& device, ral_dtype type) {
  if (!short_name(type)) return false;
  return type != RAL_FLOAT64 || device.fp64;
}

namespace {

float round_bits(float value, uint32_t dropped) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t half = (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  bits = (bits + half) & ~((1u << dropped) - 1);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

float round_half(float value) {
  const float size = std::fabs(value);
  if (size >= 65520.0f) return std::copysign(INFINITY, value);
  if (size < 6.103515625e-05f) {  // subnormal: a multiple of 2^-24
    const float scaled = std::nearbyint(value * 16777216.0f);
    return scaled / 16777216.0f;
  }
  return round_bits(value, 13);
}

}  // namespace

double rounded_to(ral_dtype type, double value) {
  if (!std::isfinite(value)) return value;
  switch (type) {
    case RAL_FLOAT16: return round_half(static_cast<float>(value));
    case RAL_BFLOAT16: return round_bits(static_cast<float>(value), 16);
    case RAL_FLOAT32: return static_cast<float>(value);
    default: return value;
  }
}

bool scalar_value(const ral_value& value, double& real, int64_t& whole) {
  switch (value.tag) {
    case RAL_VALUE_INT:
      whole = value.u.i;
      real = static_cast<double>(whole);
      return true;
    case RAL_VALUE_BOOL:
      whole = value.u.b != 0;
      real = static_cast<double>(whole);
      return true;
    case RAL_VALUE_DOUBLE: real = value.u.d; break;
    case RAL_VALUE_HOST_SCALAR:
      if (is_complex(value.dtype)) return false;
      if (!is_float(value.dtype)) {
        whole = value.i64;
        real = static_cast<double>(whole);
        return true;
      }
      real = value.u.complex.re;
      break;
    default: return false;
  }
  const bool fits = real >= -9.2e18 && real <= 9.2e18;
  whole = fits ? static_cast<int64_t>(real) : 0;
  return true;
}

int64_t element_count(const ral_tensor& tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

bool is_contiguous(const ral_tensor& tensor) {
  int64_t expected = 1;
  for (int d = tensor.ndim - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

void Plan::scalar(ral_dtype type, double real, int64_t whole) {
  switch (type) {
    case RAL_FLOAT32: return value(static_cast<float>(real));
    case RAL_FLOAT64: return value(real);
    case RAL_INT64:
    case RAL_UINT64: return value(whole);
    default: return value(static_cast<int32_t>(whole));
  }
}

void define(std::string& out, const std::string& name, const std::string& value) {
  out += "#define ";
  out += name;
  out += ' ';
  out += value;
  out += '\n';
}

void define(std::string& out, const char* name, const std::string& value) { define(out, std::string(name), value); }

int64_t lanes_of(const Device& device, ral_dtype compute) { return device.vector_bytes / item_size(compute); }

void common_preamble(const Device& device, ral_dtype compute, std::string& out) {
  define(out, "T", compute_name(compute));
  define(out, "LANES", std::to_string(lanes_of(device, compute)));
  define(out, "TV", compute_name(compute) + std::to_string(lanes_of(device, compute)));
  define(out, "T_FLOAT", is_float(compute) ? "1" : "0");
  define(out, "T_F32", compute == RAL_FLOAT32 ? "1" : "0");
  define(out, "T_F64", compute == RAL_FLOAT64 ? "1" : "0");
  define(out, "T_BYTES", std::to_string(item_size(compute)));
  define(out, "GROUP", std::to_string(device.group));
  if (device.fp64) define(out, "HAS_FP64", "1");
}

void coalesce(Layout& layout, int operands) {
  int kept = 0;
  const int rank = static_cast<int>(layout.rank);
  for (int d = 0; d < rank; ++d) {
    if (layout.shape[d] == 1) continue;
    if (kept > 0) {
      bool joins = true;
      for (int k = 0; k < operands; ++k)
        joins = joins && layout.stride[k][kept - 1] == layout.stride[k][d] * layout.shape[d];
      if (joins) {
        layout.shape[kept - 1] *= layout.shape[d];
        for (int k = 0; k < operands; ++k) layout.stride[k][kept - 1] = layout.stride[k][d];
        continue;
      }
    }
    layout.shape[kept] = layout.shape[d];
    for (int k = 0; k < operands; ++k) layout.stride[k][kept] = layout.stride[k][d];
    ++kept;
  }
  layout.rank = kept;
}

void sort_by_first(Layout& layout, int operands) {
  const int rank = static_cast<int>(layout.rank);
  for (int i = 1; i < rank; ++i) {  // insertion sort: short, stable
    for (int j = i; j > 0 && layout.stride[0][j - 1] < layout.stride[0][j]; --j) {
      std::swap(layout.shape[j - 1], layout.shape[j]);
      for (int k = 0; k < operands; ++k) std::swap(layout.stride[k][j - 1], layout.stride[k][j]);
    }
  }
}

}  // namespace ralcl
