// Element types: how each dtype is loaded as, and rounded from, the types that values are computed in.
#include <cmath>
#include <cstring>
#include <limits>

#include "internal.h"

namespace ral::reference {
namespace {

// A 16-bit floating format.
template <int kExponent, int kMantissa>
struct Small {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;

  uint16_t bits;

  double decode() const {
    const int exponent = (bits >> kMantissa) & ((1 << kExponent) - 1);
    const int mantissa = bits & ((1 << kMantissa) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << kExponent) - 1)
      return std::copysign(
          mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity(), sign);
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - kBias - kMantissa);
    return sign * std::ldexp(mantissa | (1 << kMantissa), exponent - kBias - kMantissa);
  }

  // To nearest, ties to even, from the double itself: not by way of float, which would round twice.
  static Small encode(double value) {
    uint64_t raw;
    std::memcpy(&raw, &value, sizeof raw);
    const uint32_t sign = static_cast<uint32_t>(raw >> 63) << 15;
    const int exponent = static_cast<int>(raw >> 52 & 0x7ff);
    const uint64_t mantissa = raw & ((uint64_t{1} << 52) - 1);
    if (exponent == 0x7ff) return make(sign | kInfinity | (mantissa ? 1u << (kMantissa - 1) : 0u));
    if (exponent == 0) return make(sign);
    const int target = exponent - 1023 + kBias;
    const int shift = 52 - kMantissa + (target > 0 ? 0 : 1 - target);
    if (shift > 62) return make(sign);
    const uint64_t full = mantissa | uint64_t{1} << 52;
    const uint64_t rest = full & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
    uint64_t kept = full >> shift;
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    // The leading bit, and a carry out of the mantissa, add to the exponent.
    const uint64_t out = (target > 0 ? static_cast<uint64_t>(target - 1) << kMantissa : 0) + kept;
    return make(sign | (out >= kInfinity ? kInfinity : static_cast<uint32_t>(out)));
  }

  static Small make(uint32_t bits) { return {static_cast<uint16_t>(bits)}; }
};
using Half = Small<5, 10>;
using BFloat = Small<8, 7>;
struct Bool {
  uint8_t byte;
};

// A stored element in the narrowest type that values are computed in.
Int widen(Bool v) { return v.byte != 0; }
Int widen(int8_t v) { return v; }
Int widen(int16_t v) { return v; }
Int widen(int32_t v) { return v; }
Int widen(int64_t v) { return v; }
Int widen(uint8_t v) { return v; }
Int widen(uint16_t v) { return v; }
Int widen(uint32_t v) { return v; }
UInt widen(uint64_t v) { return v; }
Real widen(Half v) { return v.decode(); }
Real widen(BFloat v) { return v.decode(); }
Real widen(float v) { return v; }
Real widen(double v) { return v; }
Complex widen(std::complex<float> v) { return v; }
Complex widen(std::complex<double> v) { return v; }

// Out of int64's range the answer is what x86 gives.
Int truncate(Real v) {
  if (v >= -9223372036854775808.0 && v < 9223372036854775808.0) return static_cast<Int>(v);
  if (v >= 9223372036854775808.0 && v < 18446744073709551616.0) return static_cast<Int>(static_cast<UInt>(v));
  return std::numeric_limits<Int>::min();
}

template <class T, class V>
T cast(V v) {
  if constexpr (std::is_same_v<T, V>) {
    return v;
  } else if constexpr (std::is_same_v<V, Complex>) {
    return cast<T>(v.real());
  } else if constexpr (std::is_same_v<T, Complex>) {
    return Complex(static_cast<Real>(v), 0);
  } else if constexpr (std::is_same_v<V, Real>) {
    return static_cast<T>(truncate(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class S, class T>
S narrow(T v) {
  if constexpr (std::is_same_v<S, Bool>) {
    return {static_cast<uint8_t>(v != T(0))};
  } else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat>) {
    return S::encode(cast<Real>(v));
  } else if constexpr (std::is_same_v<S, std::complex<float>>) {
    return S(cast<Complex>(v));
  } else if constexpr (std::is_same_v<S, Complex>) {
    return cast<Complex>(v);
  } else if constexpr (std::is_integral_v<S>) {
    return static_cast<S>(cast<Int>(v));
  } else if constexpr (std::is_same_v<T, Complex>) {
    return static_cast<S>(v.real());
  } else {
    return static_cast<S>(v);  // integers to float in one rounding
  }
}

template <class T, class S>
T load(const char* from) {
  S stored;
  std::memcpy(&stored, from, sizeof stored);
  return cast<T>(widen(stored));
}
template <class T, class S>
void store(char* to, T value) {
  const S stored = narrow<S>(value);
  std::memcpy(to, &stored, sizeof stored);
}

template <class... S>
struct Types {
  template <class T>
  static Load<T> loader(ral_dtype type) {
    static constexpr Load<T> table[] = {load<T, S>...};
    return table[type];
  }
  template <class T>
  static Store<T> storer(ral_dtype type) {
    static constexpr Store<T> table[] = {store<T, S>...};
    return table[type];
  }
};
// In ral_dtype's order.
using All = Types<Bool, uint8_t, int8_t, int16_t, int32_t, int64_t, Half, BFloat, float, double, std::complex<float>,
                  std::complex<double>, uint16_t, uint32_t, uint64_t>;

// Kinds in promotion order, with bool, the integers, the floats and the complex types apart.
int kind(ral_dtype type) { return type == RAL_BOOL ? 0 : is_integral(type) ? 1 : is_complex(type) ? 3 : 2; }
bool is_unsigned(ral_dtype type) {
  return type == RAL_UINT8 || type == RAL_UINT16 || type == RAL_UINT32 || type == RAL_UINT64;
}

ral_dtype promote_integers(ral_dtype a, ral_dtype b) {
  if (is_unsigned(a) == is_unsigned(b)) return dtype_size(a) > dtype_size(b) ? a : b;
  const ral_dtype with_sign = is_unsigned(a) ? b : a, without_sign = is_unsigned(a) ? a : b;
  if (dtype_size(with_sign) > dtype_size(without_sign)) return with_sign;
  return without_sign == RAL_UINT8 ? RAL_INT16 : without_sign == RAL_UINT16 ? RAL_INT32 : RAL_INT64;
}

}  // namespace

template <class T>
Load<T> loader(ral_dtype type) {
  return All::loader<T>(type);
}
template <class T>
Store<T> storer(ral_dtype type) {
  return All::storer<T>(type);
}
template Load<Int> loader<Int>(ral_dtype);
template Load<UInt> loader<UInt>(ral_dtype);
template Load<Real> loader<Real>(ral_dtype);
template Load<Complex> loader<Complex>(ral_dtype);
template Store<Int> storer<Int>(ral_dtype);
template Store<UInt> storer<UInt>(ral_dtype);
template Store<Real> storer<Real>(ral_dtype);
template Store<Complex> storer<Complex>(ral_dtype);

Domain domain_of(ral_dtype type) {
  static constexpr Domain table[] = {Domain::Int,     Domain::Int,     Domain::Int,  Domain::Int,  Domain::Int,
                                     Domain::Int,     Domain::Real,    Domain::Real, Domain::Real, Domain::Real,
                                     Domain::Complex, Domain::Complex, Domain::Int,  Domain::Int,  Domain::UInt};
  return table[type];
}

double largest(ral_dtype type) {
  if (type == RAL_FLOAT16) return 65504;
  if (type == RAL_BFLOAT16) return BFloat::make(0x7f7f).decode();
  if (type == RAL_FLOAT32 || type == RAL_COMPLEX64) return std::numeric_limits<float>::max();
  return std::numeric_limits<double>::max();
}

ral_dtype promote(ral_dtype a, ral_dtype b) {
  if (a == b || b < 0) return a;
  if (a < 0) return b;
  if (kind(a) < kind(b)) std::swap(a, b);
  if (kind(a) == 3) return b == RAL_FLOAT64 || b == RAL_COMPLEX128 ? RAL_COMPLEX128 : a;
  if (kind(a) != kind(b)) return a;
  if (kind(a) == 1) return promote_integers(a, b);
  return a == RAL_FLOAT64 || b == RAL_FLOAT64 ? RAL_FLOAT64 : RAL_FLOAT32;
}

template <class T>
T number(const ral_value& value) {
  switch (value.tag) {
    case RAL_VALUE_INT: return cast<T>(static_cast<Int>(value.u.i));
    case RAL_VALUE_BOOL: return cast<T>(static_cast<Int>(value.u.b != 0));
    case RAL_VALUE_DOUBLE: return cast<T>(value.u.d);
    case RAL_VALUE_COMPLEX: return cast<T>(Complex(value.u.complex.re, value.u.complex.im));
    case RAL_VALUE_HOST_SCALAR:
      if (is_integral(value.dtype)) return cast<T>(static_cast<Int>(value.i64));
      return cast<T>(Complex(value.u.complex.re, value.u.complex.im));
    case RAL_VALUE_TENSOR:
      if (product(Dims(value.u.tensor->shape, value.u.tensor->shape + value.u.tensor->ndim)) == 1)
        return loader<T>(value.dtype)(static_cast<const char*>(value.u.tensor->data) + value.u.tensor->byte_offset);
      break;
    default: break;
  }
  refuse("an argument is not a number");
}
template Int number<Int>(const ral_value&);
template UInt number<UInt>(const ral_value&);
template Real number<Real>(const ral_value&);
template Complex number<Complex>(const ral_value&);

}  // namespace ral::reference
