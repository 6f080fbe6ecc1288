// Functions of one or two numbers: roots, exponentials, logarithms, trigonometry, rounding.
#include <cmath>

#include "elementwise.h"
#include "numbers.h"

namespace ral::reference {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;

Complex expm1(const Complex& z) {  // (e^a cos b - 1) without cancellation
  const double half = std::sin(z.imag() / 2), e = std::exp(z.real());
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half, e * std::sin(z.imag())};
}
double expm1(double x) { return std::expm1(x); }
Complex log1p(const Complex& z) {
  const double a = z.real(), b = z.imag();
  if (std::abs(z) < 0.5) return {0.5 * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a)};
  return std::log(1.0 + z);
}
double log1p(double x) { return std::log1p(x); }
double log2(double x) { return std::log2(x); }
Complex log2(const Complex& z) { return std::log(z) / kLn2; }
double exp2(double x) { return std::exp2(x); }
Complex exp2(const Complex& z) { return std::exp(z * kLn2); }

double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0 && x == std::floor(x)) return NAN;
  if (x < 0) return digamma(1 - x) - kPi / std::tan(kPi * (x - std::floor(x)));
  double sum = 0;
  for (; x < 15; x += 1) sum -= 1 / x;
  const double y = 1 / (x * x);  // the asymptotic series
  const double tail =
      y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y * (1. / 240 - y * (1. / 132 - y * 691. / 32760)))));
  return sum + std::log(x) - 0.5 / x - tail;
}

// Newton's method on erf, from Giles' approximation in single precision.
double erfinv(double y) {
  if (!(std::abs(y) < 1)) return std::abs(y) == 1 ? std::copysign(INFINITY, y) : NAN;
  double w = -std::log1p(-y * y), x;
  if (w < 5) {
    static const double c[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                               -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    w -= 2.5;
    x = 0;
    for (const double k : c) x = x * w + k;
  } else {
    static const double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    w = std::sqrt(w) - 3;
    x = 0;
    for (const double k : c) x = x * w + k;
  }
  x *= y;
  for (int i = 0; i < 3; ++i) {
    const double error = y > 0 ? (1 - y) - std::erfc(x) : std::erfc(-x) - (1 + y);
    const double slope = 2 / std::sqrt(kPi) * std::exp(-x * x);
    if (slope > 0) x -= error / slope;
  }
  return x;
}

double round_decimals(double x, int decimals) {
  const double ten = std::pow(10.0, std::abs(decimals));
  return decimals < 0 ? std::nearbyint(x / ten) * ten : std::nearbyint(x * ten) / ten;
}

template <class T>
T xlogy(const T& x, const T& y) {
  if (is_nan(y)) return y;
  return x == T(0) ? T(0) : x * std::log(y);
}

template <class T>
Real finite(const Args<T>& a, Real x) {
  if (is_nan(x)) return std::real(a[1]);  // 0 where it was not given
  if (!std::isinf(x)) return x;
  if (x > 0) return a.has(2) ? std::real(a[2]) : largest(a.out);
  return a.has(3) ? std::real(a[3]) : -largest(a.out);
}
Real nan_to_num(const Args<Real>& a) { return finite(a, a[0]); }
Complex complex_nan_to_num(const Args<Complex>& a) { return {finite(a, a[0].real()), finite(a, a[0].imag())}; }

double logit(const Args<Real>& a) {
  const double x = a.has(1) ? std::fmin(std::fmax(a[0], a[1]), 1 - a[1]) : a[0];
  return is_nan(a[0]) ? a[0] : std::log(x / (1 - x));
}

constexpr auto same = [](const auto& a) { return a[0]; };

// Integers are already whole.
constexpr Op whole(const char* name, Fn<Real> f) { return {name, 1, same, same, f}; }

constexpr Op kTable[] = {
    floats("aten::sqrt", 1, [](const auto& a) { return std::sqrt(a[0]); }),
    floats("aten::rsqrt", 1, [](const auto& a) { return 1.0 / std::sqrt(a[0]); }),
    floats("aten::exp", 1, [](const auto& a) { return std::exp(a[0]); }),
    floats("aten::exp2", 1, [](const auto& a) { return exp2(a[0]); }),
    floats("aten::expm1", 1, [](const auto& a) { return expm1(a[0]); }),
    floats("aten::log", 1, [](const auto& a) { return std::log(a[0]); }),
    floats("aten::log2", 1, [](const auto& a) { return log2(a[0]); }),
    floats("aten::log10", 1, [](const auto& a) { return std::log10(a[0]); }),
    floats("aten::log1p", 1, [](const auto& a) { return log1p(a[0]); }),
    floats("aten::sin", 1, [](const auto& a) { return std::sin(a[0]); }),
    floats("aten::cos", 1, [](const auto& a) { return std::cos(a[0]); }),
    floats("aten::tan", 1, [](const auto& a) { return std::tan(a[0]); }),
    floats("aten::asin", 1, [](const auto& a) { return std::asin(a[0]); }),
    floats("aten::acos", 1, [](const auto& a) { return std::acos(a[0]); }),
    floats("aten::atan", 1, [](const auto& a) { return std::atan(a[0]); }),
    floats("aten::sinh", 1, [](const auto& a) { return std::sinh(a[0]); }),
    floats("aten::cosh", 1, [](const auto& a) { return std::cosh(a[0]); }),
    floats("aten::tanh", 1, [](const auto& a) { return std::tanh(a[0]); }),
    floats("aten::asinh", 1, [](const auto& a) { return std::asinh(a[0]); }),
    floats("aten::acosh", 1, [](const auto& a) { return std::acosh(a[0]); }),
    floats("aten::atanh", 1, [](const auto& a) { return std::atanh(a[0]); }),
    reals("aten::erf", 1, [](const Args<Real>& a) { return std::erf(a[0]); }),
    reals("aten::erfc", 1, [](const Args<Real>& a) { return std::erfc(a[0]); }),
    reals("aten::erfinv", 1, [](const Args<Real>& a) { return erfinv(a[0]); }),
    reals("aten::lgamma", 1, [](const Args<Real>& a) { return std::lgamma(a[0]); }),
    reals("aten::digamma", 1, [](const Args<Real>& a) { return digamma(a[0]); }),
    reals("aten::logit", 2, logit),
    floats("aten::sinc", 1,
           [](const auto& a) { return a[0] == a.truth(false) ? a.truth(true) : std::sin(kPi * a[0]) / (kPi * a[0]); }),
    reals("aten::deg2rad", 1, [](const Args<Real>& a) { return a[0] * (kPi / 180); }),
    reals("aten::rad2deg", 1, [](const Args<Real>& a) { return a[0] * (180 / kPi); }),
    floats("aten::angle", 1,
           [](const auto& a) {
             if constexpr (std::is_same_v<decltype(a), const Args<Real>&>)
               return is_nan(a[0]) ? a[0] : a[0] < 0 ? kPi : 0.0;
             else
               return Complex(std::arg(a[0]));
           }),
    {"aten::_conj_physical", 1, same, same, same, [](const Args<Complex>& a) { return std::conj(a[0]); }},
    whole("aten::floor", [](const Args<Real>& a) { return std::floor(a[0]); }),
    whole("aten::ceil", [](const Args<Real>& a) { return std::ceil(a[0]); }),
    whole("aten::trunc", [](const Args<Real>& a) { return std::trunc(a[0]); }),
    whole("aten::round", [](const Args<Real>& a) { return std::nearbyint(a[0]); }),  // half to even
    reals("aten::round.decimals", 2, [](const Args<Real>& a) { return round_decimals(a[0], static_cast<int>(a[1])); }),
    reals("aten::frac", 1, [](const Args<Real>& a) { return a[0] - std::trunc(a[0]); }),
    {"aten::nan_to_num", 4, same, same, nan_to_num, complex_nan_to_num},
    reals("aten::atan2", 2, [](const Args<Real>& a) { return std::atan2(a[0], a[1]); }),
    reals("aten::hypot", 2, [](const Args<Real>& a) { return std::hypot(a[0], a[1]); }),
    reals("aten::copysign.Tensor", 2, [](const Args<Real>& a) { return std::copysign(a[0], a[1]); }),
    reals("aten::copysign.Scalar", 2, [](const Args<Real>& a) { return std::copysign(a[0], a[1]); }),
    floats("aten::logaddexp", 2, [](const auto& a) { return log_add(a[0], a[1]); }),
    reals("aten::logaddexp2", 2, [](const Args<Real>& a) { return log_add(a[0] * kLn2, a[1] * kLn2) / kLn2; }),
    reals("aten::xlogy.Tensor", 2, [](const Args<Real>& a) { return xlogy(a[0], a[1]); }),
    reals("aten::xlogy.Scalar_Other", 2, [](const Args<Real>& a) { return xlogy(a[0], a[1]); }),
    reals("aten::xlogy.Scalar_Self", 2, [](const Args<Real>& a) { return xlogy(a[0], a[1]); }),
    ordered("aten::heaviside", 2, [](const auto& a) { return a[0] == 0 ? a[1] : a.truth(a[0] > 0); }),
};

}  // namespace

double log_add(double a, double b) {
  if (std::isinf(a) && a == b) return a;
  const double high = std::fmax(a, b);
  return is_nan(a) || is_nan(b) ? NAN : high + std::log1p(std::exp(-std::abs(a - b)));
}

Complex log_add(const Complex& a, const Complex& b) {
  if (is_nan(a) || is_nan(b)) return {NAN, NAN};
  const Complex &high = a.real() < b.real() ? b : a, &low = a.real() < b.real() ? a : b;
  if (std::isinf(high.real()) && high.real() == low.real())
    return high.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
  return high + log1p(std::exp(low - high));
}

std::vector<Entry> math_ops() { return entries<kTable>(); }

}  // namespace ral::reference
