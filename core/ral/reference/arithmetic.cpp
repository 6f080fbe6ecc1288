// Arithmetic, comparison, logic, bits, selection, fills and copies.
#include <cmath>
#include <limits>

#include "elementwise.h"

namespace ral::reference {
namespace {

template <class T>
constexpr bool kIsInteger = std::is_same_v<T, Int> || std::is_same_v<T, UInt>;

// ---- Division ------------------------------------------------------------------------------------

template <class T>
void check_divisor(T b) {
  if (b == T(0)) refuse("integer division by zero");
}
Int quotient(Int a, Int b) { return b == -1 ? static_cast<Int>(UInt{0} - static_cast<UInt>(a)) : a / b; }
UInt quotient(UInt a, UInt b) { return a / b; }
Int rest(Int a, Int b) { return b == -1 ? 0 : a % b; }
UInt rest(UInt a, UInt b) { return a % b; }

Int floor_quotient(Int a, Int b) { return quotient(a, b) - (rest(a, b) != 0 && (a < 0) != (b < 0)); }
UInt floor_quotient(UInt a, UInt b) { return a / b; }
// Python's, as c10::div_floor_floating.
Real floor_quotient(Real a, Real b) {
  if (b == 0) return a / b;
  const Real mod = std::fmod(a, b);
  Real div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0, a / b);
  const Real floor = std::floor(div);
  return div - floor > 0.5 ? floor + 1 : floor;
}

template <class T>
T divide(const Args<T>& a) {
  const int mode = a.has(2) ? static_cast<int>(std::real(a[2])) : 0;
  if constexpr (kIsInteger<T>) {
    check_divisor(a[1]);
    if (mode == 0) refuse("true division with an integer output");
    return mode == 2 ? floor_quotient(a[0], a[1]) : quotient(a[0], a[1]);
  } else if constexpr (std::is_same_v<T, Real>) {
    if (mode == 2) return floor_quotient(a[0], a[1]);
    return mode == 1 ? std::trunc(a[0] / a[1]) : a[0] / a[1];
  } else {
    if (mode != 0) refuse("rounded division of complex numbers");
    return a[0] / a[1];
  }
}

template <class T>
T floor_divide(const Args<T>& a) {
  if constexpr (kIsInteger<T>) check_divisor(a[1]);
  return floor_quotient(a[0], a[1]);
}

template <class T>
T fmod(const Args<T>& a) {
  if constexpr (kIsInteger<T>) {
    check_divisor(a[1]);
    return rest(a[0], a[1]);
  } else {
    return std::fmod(a[0], a[1]);
  }
}

template <class T>
T remainder(const Args<T>& a) {
  const T r = fmod(a);
  return r != 0 && (r < 0) != (a[1] < 0) ? r + a[1] : r;
}

// ---- Powers --------------------------------------------------------------------------------------

UInt power(UInt base, UInt exponent) {
  UInt result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

template <class T>
T pow(const Args<T>& a) {
  if constexpr (std::is_same_v<T, Int>) {
    if (a[1] >= 0) return static_cast<Int>(power(static_cast<UInt>(a[0]), static_cast<UInt>(a[1])));
    if (a[0] == 1) return 1;
    return a[0] == -1 ? (a[1] % 2 ? -1 : 1) : 0;
  } else if constexpr (std::is_same_v<T, UInt>) {
    return power(a[0], a[1]);
  } else {
    return std::pow(a[0], a[1]);
  }
}
template <class T>
T pow_number(const Args<T>& a) {
  if constexpr (std::is_same_v<T, Int>) require(a[1] >= 0, "an integer to a negative integer power");
  return pow(a);
}

// ---- Largest and smallest ------------------------------------------------------------------------

template <class T>
T maximum(const T& a, const T& b) {
  return is_nan(a) || a > b ? a : b;  // b where it is NaN
}
template <class T>
T minimum(const T& a, const T& b) {
  return is_nan(a) || a < b ? a : b;
}

template <class T>
T clamp(const Args<T>& a) {
  T x = a[0];
  if (a.has(1)) x = maximum(x, a[1]);
  if (a.has(2)) x = minimum(x, a[2]);
  if (a.has(1) && is_nan(a[1])) x = a[1];
  return x;
}

template <class T>
T lerp(const Args<T>& a) {
  return std::abs(a[2]) < 0.5 ? a[0] + a[2] * (a[1] - a[0]) : a[1] - (a[1] - a[0]) * (T(1) - a[2]);
}

template <class T>
T sign(const Args<T>& a) {
  if constexpr (std::is_same_v<T, Complex>) {
    const Real size = std::abs(a[0]);
    return size == 0 ? T(0) : a[0] / size;
  } else {
    return T((a[0] > 0) - (a[0] < 0));
  }
}

template <class T>
T magnitude(const Args<T>& a) {
  if constexpr (std::is_same_v<T, UInt>) {
    return a[0];
  } else {
    return std::abs(a[0]);
  }
}

template <class T>
T addc(const Args<T>& a, T product) {
  return a.has(3) ? a[0] + a[3] * product : a[0] + product;
}

// ---- Bits ----------------------------------------------------------------------------------------

template <class T>
T shift_left(const Args<T>& a) {
  return a[1] < T(0) || a[1] >= T(64) ? T(0) : static_cast<T>(static_cast<UInt>(a[0]) << a[1]);
}
template <class T>
T shift_right(const Args<T>& a) {
  if (a[1] >= T(0) && a[1] < T(64)) return a[0] >> a[1];
  return std::is_same_v<T, UInt> ? T(0) : a[0] >> 63;
}

Int gcd(Int a, Int b) {
  while (b != 0) {
    const Int r = rest(a, b);
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

// ---- Tests ---------------------------------------------------------------------------------------

bool nan(const Complex& v) { return is_nan(v.real()) || is_nan(v.imag()); }
bool infinite(const Complex& v) { return std::isinf(v.real()) || std::isinf(v.imag()); }
bool negative(Int v) { return v < 0; }
bool negative(UInt) { return false; }
bool negative(Real v) { return std::signbit(v); }

constexpr auto add = [](const auto& a) { return a.has(2) ? a[0] + a[2] * a[1] : a[0] + a[1]; };
constexpr auto sub = [](const auto& a) { return a.has(2) ? a[0] - a[2] * a[1] : a[0] - a[1]; };
constexpr auto rsub = [](const auto& a) { return a.has(2) ? a[1] - a[2] * a[0] : a[1] - a[0]; };
constexpr auto mul = [](const auto& a) { return a[0] * a[1]; };
constexpr auto div = [](const auto& a) { return divide(a); };
constexpr auto floor_div = [](const auto& a) { return floor_divide(a); };
constexpr auto modulo = [](const auto& a) { return fmod(a); };
constexpr auto python_modulo = [](const auto& a) { return remainder(a); };
constexpr auto power_of = [](const auto& a) { return pow(a); };
constexpr auto clamped = [](const auto& a) { return clamp(a); };
constexpr auto at_least = [](const auto& a) { return maximum(a[0], a[1]); };
constexpr auto at_most = [](const auto& a) { return minimum(a[0], a[1]); };
constexpr auto eq = [](const auto& a) { return a.truth(a[0] == a[1]); };
constexpr auto ne = [](const auto& a) { return a.truth(a[0] != a[1]); };
constexpr auto lt = [](const auto& a) { return a.truth(a[0] < a[1]); };
constexpr auto le = [](const auto& a) { return a.truth(a[0] <= a[1]); };
constexpr auto gt = [](const auto& a) { return a.truth(a[0] > a[1]); };
constexpr auto ge = [](const auto& a) { return a.truth(a[0] >= a[1]); };
constexpr auto bit_and = [](const auto& a) { return a[0] & a[1]; };
constexpr auto bit_or = [](const auto& a) { return a[0] | a[1]; };
constexpr auto bit_xor = [](const auto& a) { return a[0] ^ a[1]; };
constexpr auto left = [](const auto& a) { return shift_left(a); };
constexpr auto right = [](const auto& a) { return shift_right(a); };
constexpr auto select = [](const auto& a) { return a[0] != a.truth(false) ? a[1] : a[2]; };
constexpr auto masked = [](const auto& a) { return a[1] != a.truth(false) ? a[2] : a[0]; };
constexpr auto first = [](const auto& a) { return a[0]; };
constexpr auto second = [](const auto& a) { return a[1]; };

constexpr Op kTable[] = {
    any("aten::add.Tensor", 3, add),
    any("aten::add.Scalar", 3, add),
    any("aten::sub.Tensor", 3, sub),
    any("aten::sub.Scalar", 3, sub),
    any("aten::rsub.Tensor", 3, rsub),
    any("aten::rsub.Scalar", 3, rsub),
    any("aten::mul.Tensor", 2, mul),
    any("aten::mul.Scalar", 2, mul),
    any("aten::div.Tensor", 2, div).refusing(),
    any("aten::div.Scalar", 2, div).refusing(),
    any("aten::div.Tensor_mode", 3, div).refusing().stepped(),
    any("aten::div.Scalar_mode", 3, div).refusing().stepped(),
    ordered("aten::floor_divide", 2, floor_div).refusing().stepped(),
    ordered("aten::floor_divide.Scalar", 2, floor_div).refusing().stepped(),
    ordered("aten::fmod.Tensor", 2, modulo).refusing().stepped(),
    ordered("aten::fmod.Scalar", 2, modulo).refusing().stepped(),
    ordered("aten::remainder.Tensor", 2, python_modulo).refusing().stepped(),
    ordered("aten::remainder.Scalar", 2, python_modulo).refusing().stepped(),
    ordered("aten::remainder.Scalar_Tensor", 2, python_modulo).refusing().stepped(),
    any("aten::pow.Tensor_Tensor", 2, power_of),
    any("aten::pow.Tensor_Scalar", 2, [](const auto& a) { return pow_number(a); }).refusing(),
    any("aten::pow.Scalar", 2, power_of),
    any("aten::native_dropout_backward", 3, [](const auto& a) { return a[0] * a[1] * a[2]; }),
    any("aten::neg", 1, [](const auto& a) { return -a[0]; }),
    any("aten::abs", 1, [](const auto& a) { return magnitude(a); }),
    ordered("aten::sign", 1, [](const auto& a) { return sign(a); }),
    any("aten::sgn", 1, [](const auto& a) { return sign(a); }),
    any("aten::square", 1, [](const auto& a) { return a[0] * a[0]; }),
    floats("aten::reciprocal", 1, [](const auto& a) { return 1.0 / a[0]; }),
    ordered("aten::maximum", 2, at_least),
    ordered("aten::minimum", 2, at_most),
    ordered("aten::fmax", 2, [](const auto& a) { return is_nan(a[1]) || a[0] > a[1] ? a[0] : a[1]; }),
    ordered("aten::fmin", 2, [](const auto& a) { return is_nan(a[1]) || a[0] < a[1] ? a[0] : a[1]; }),
    ordered("aten::clamp", 3, clamped),
    ordered("aten::clamp.Tensor", 3, clamped),
    ordered("aten::clamp_min", 2, at_least),
    ordered("aten::clamp_min.Tensor", 2, at_least),
    ordered("aten::clamp_max", 2, at_most),
    ordered("aten::clamp_max.Tensor", 2, at_most),
    floats("aten::lerp.Scalar", 3, [](const auto& a) { return lerp(a); }),
    floats("aten::lerp.Tensor", 3, [](const auto& a) { return lerp(a); }),
    any("aten::addcmul", 4, [](const auto& a) { return addc(a, a[1] * a[2]); }),
    floats("aten::addcdiv", 4, [](const auto& a) { return addc(a, a[1] / a[2]); }),
    integers("aten::gcd", 2, [](const auto& a) { return std::decay_t<decltype(a[0])>(gcd(Int(a[0]), Int(a[1]))); }),
    any("aten::eq.Tensor", 2, eq).stepped(),
    any("aten::eq.Scalar", 2, eq).stepped(),
    any("aten::ne.Tensor", 2, ne).stepped(),
    any("aten::ne.Scalar", 2, ne).stepped(),
    ordered("aten::lt.Tensor", 2, lt).stepped(),
    ordered("aten::lt.Scalar", 2, lt).stepped(),
    ordered("aten::le.Tensor", 2, le).stepped(),
    ordered("aten::le.Scalar", 2, le).stepped(),
    ordered("aten::gt.Tensor", 2, gt).stepped(),
    ordered("aten::gt.Scalar", 2, gt).stepped(),
    ordered("aten::ge.Tensor", 2, ge).stepped(),
    ordered("aten::ge.Scalar", 2, ge).stepped(),
    any("aten::logical_and", 2, [](const auto& a) { return a.truth(a[0] != a.truth(0) && a[1] != a.truth(0)); }),
    any("aten::logical_or", 2, [](const auto& a) { return a.truth(a[0] != a.truth(0) || a[1] != a.truth(0)); }),
    any("aten::logical_xor", 2, [](const auto& a) { return a.truth((a[0] != a.truth(0)) != (a[1] != a.truth(0))); }),
    any("aten::logical_not", 1, [](const auto& a) { return a.truth(a[0] == a.truth(0)); }),
    any("aten::isnan", 1, [](const auto& a) { return a.truth(nan(Complex(a[0]))); }),
    any("aten::isinf", 1, [](const auto& a) { return a.truth(infinite(Complex(a[0]))); }),
    any("aten::isfinite", 1, [](const auto& a) { return a.truth(!nan(Complex(a[0])) && !infinite(Complex(a[0]))); }),
    ordered("aten::isposinf", 1, [](const auto& a) { return a.truth(infinite(Complex(a[0])) && a[0] > 0); }),
    ordered("aten::isneginf", 1, [](const auto& a) { return a.truth(infinite(Complex(a[0])) && a[0] < 0); }),
    ordered("aten::signbit", 1, [](const auto& a) { return a.truth(negative(a[0])); }),
    integers("aten::bitwise_and.Tensor", 2, bit_and),
    integers("aten::bitwise_and.Scalar", 2, bit_and),
    integers("aten::bitwise_or.Tensor", 2, bit_or),
    integers("aten::bitwise_or.Scalar", 2, bit_or),
    integers("aten::bitwise_xor.Tensor", 2, bit_xor),
    integers("aten::bitwise_xor.Scalar", 2, bit_xor),
    integers("aten::bitwise_not", 1, [](const auto& a) { return a.out == RAL_BOOL ? a.truth(!a[0]) : ~a[0]; }),
    integers("aten::bitwise_left_shift.Tensor", 2, left),
    integers("aten::bitwise_left_shift.Tensor_Scalar", 2, left),
    integers("aten::bitwise_right_shift.Tensor", 2, right),
    integers("aten::bitwise_right_shift.Tensor_Scalar", 2, right),
    integers("aten::__lshift__.Tensor", 2, left),
    integers("aten::__lshift__.Scalar", 2, left),
    integers("aten::__rshift__.Tensor", 2, right),
    integers("aten::__rshift__.Scalar", 2, right),
    any("aten::where.self", 3, select).by(Rule::Output),
    any("aten::where.ScalarOther", 3, select).by(Rule::Output),
    any("aten::where.ScalarSelf", 3, select).by(Rule::Output),
    any("aten::where.Scalar", 3, select).by(Rule::Output),
    any("aten::masked_fill.Scalar", 3, masked).by(Rule::Output),
    any("aten::masked_fill.Tensor", 3, masked).by(Rule::Output),
    any("aten::fill.Scalar", 2, second).by(Rule::Output).without(1),
    any("aten::fill.Tensor", 2, second).by(Rule::Output).without(1),
    any("aten::zero", 1, [](const auto& a) { return a.truth(false); }).by(Rule::Output).without(1),
    any("aten::copy", 2, second).by(Rule::Source).without(1),
    any("aten::_to_copy", 1, first).by(Rule::Source),
    any("aten::clone", 1, first).by(Rule::Source),
};

}  // namespace

std::vector<Entry> arithmetic_ops() { return entries<kTable>(); }

}  // namespace ral::reference
