// Activation functions and their backwards, by PyTorch's formulas.
#include <cmath>

#include "elementwise.h"

namespace ral::reference {
namespace {

constexpr double kSqrt1_2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kGeluCube = 0.044715;

template <class T>
T sigmoid(const T& x) {
  return 1.0 / (1.0 + std::exp(-x));
}
Complex conjugate(const Complex& z) { return std::conj(z); }
Real conjugate(Real x) { return x; }

double mish_of(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double mish_backward(const Args<Real>& a) {
  const double s = sigmoid(a[1]), t = std::tanh(std::log1p(std::exp(a[1])));
  return a[0] * (t + a[1] * s * (1 - t * t));
}

double gelu(const Args<Real>& a) {
  const double x = a[0];
  if (a[1] == 1) return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + kGeluCube * x * x * x)));
  return 0.5 * x * std::erfc(-x * kSqrt1_2);
}
double gelu_backward(const Args<Real>& a) {
  const double g = a[0], x = a[1];
  if (a[2] == 1) {
    const double t = std::tanh(kSqrt2OverPi * (x + kGeluCube * x * x * x));
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kGeluCube * x * x));
  }
  const double density = std::exp(-0.5 * x * x) * kSqrt2OverPi / 2;
  return g * (0.5 * std::erfc(-x * kSqrt1_2) + x * density);
}

double elu(const Args<Real>& a) {
  const double alpha = a.has(1) ? a[1] : 1, scale = a.has(2) ? a[2] : 1, input = a.has(3) ? a[3] : 1;
  return a[0] < 0 ? std::expm1(a[0] * input) * alpha * scale : a[0] * scale;
}
double elu_backward(const Args<Real>& a) {
  const double g = a[0], negative = a[1] * a[2], scale = a[2], input = a[3], x = a[5];
  if (x > 0 || is_nan(x)) return g * scale * (is_nan(x) ? x : 1);
  return a[4] != 0 ? g * input * (x + negative) : g * input * negative * std::exp(x * input);
}

double softplus(const Args<Real>& a) {
  const double beta = a.has(1) ? a[1] : 1, threshold = a.has(2) ? a[2] : 20;
  return a[0] * beta > threshold ? a[0] : std::log1p(std::exp(a[0] * beta)) / beta;
}
double softplus_backward(const Args<Real>& a) {
  const double z = std::exp(a[1] * a[2]);
  return a[1] * a[2] > a[3] ? a[0] : a[0] * z / (z + 1);
}

// Between 0 and 6; NaN stays.
double six(double x) { return x < 0 ? 0 : x > 6 ? 6 : x; }
double hardswish_backward(const Args<Real>& a) {
  if (a[1] <= -3) return 0;
  return a[1] < 3 ? a[0] * (a[1] / 3 + 0.5) : a[0];
}

template <class T>
T hardtanh(const Args<T>& a) {
  const T low = a.has(1) ? a[1] : T(-1), high = a.has(2) ? a[2] : T(1);
  return a[0] < low ? low : a[0] > high ? high : a[0];
}

double softshrink(const Args<Real>& a) {
  const double lambda = a.has(1) ? a[1] : 0.5;
  return a[0] > lambda ? a[0] - lambda : a[0] < -lambda ? a[0] + lambda : is_nan(a[0]) ? a[0] : 0;
}
double hardshrink(const Args<Real>& a) {
  const double lambda = a.has(1) ? a[1] : 0.5;
  return a[0] >= -lambda && a[0] <= lambda ? 0 : a[0];
}
double shrink_backward(const Args<Real>& a) { return a[1] >= -a[2] && a[1] <= a[2] ? 0 : a[0]; }

double logit_backward(const Args<Real>& a) {
  const double eps = a.has(2) ? a[2] : -1, x = a[1];
  if (eps < 0) return x < 0 || x > 1 ? NAN : a[0] / (x * (1 - x));
  return x < eps || x > 1 - eps ? 0 : a[0] / (x * (1 - x));
}

// The third argument, PyTorch's buffer of exp(-|x|), is not needed.
double log_sigmoid_backward(const Args<Real>& a) {
  const double z = std::exp(-std::abs(a[1]));
  return a[0] * (a[1] < 0 ? 1 - z / (1 + z) : z / (1 + z));
}

// To (output, buffer): the buffer is empty where PyTorch's device has none.
void log_sigmoid(const Call& call) {
  const View in = call.tensor(0), buffer = call.out(1);
  require(domain_of(in.dtype) == Domain::Real, "log-sigmoid of other than real floating numbers");
  std::vector<Real> values = read<Real>(in), decays(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    decays[i] = std::exp(-std::abs(values[i]));
    values[i] = (values[i] < 0 || is_nan(values[i]) ? values[i] : 0) - std::log1p(decays[i]);
  }
  write(call.out(), values);
  if (buffer.count() > 0) write(buffer, decays);
}

// glu: the first half along a dim times the sigmoid of the second.
void glu(const Call& call) {
  const View in = call.tensor(0);
  const std::vector<bool> mask = dim_mask({call.integer(1, -1)}, in.rank());
  require(domain_of(in.dtype) == Domain::Real && in.rank() > 0, "a gated unit of this tensor");
  for (Lanes lanes({in, call.out()}, mask); lanes; lanes.next()) {
    std::vector<Real> x = read<Real>(lanes[0]);
    const size_t half = x.size() / 2;
    for (size_t i = 0; i < half; ++i) x[i] *= sigmoid(x[half + i]);
    x.resize(half);
    write(lanes[1], x);
  }
}
// (grad_output, self, dim)
void glu_backward(const Call& call) {
  const View grad = call.tensor(0);
  const std::vector<bool> mask = dim_mask({call.integer(2, -1)}, grad.rank());
  require(domain_of(grad.dtype) == Domain::Real && grad.rank() > 0, "a gated unit of this tensor");
  for (Lanes lanes({grad, call.tensor(1), call.out()}, mask); lanes; lanes.next()) {
    const std::vector<Real> g = read<Real>(lanes[0]);
    std::vector<Real> x = read<Real>(lanes[1]);
    for (size_t i = 0; i < g.size(); ++i) {
      const Real a = x[i], s = sigmoid(x[g.size() + i]);
      x[i] = g[i] * s;
      x[g.size() + i] = g[i] * a * s * (1 - s);
    }
    write(lanes[2], x);
  }
}

constexpr Op kTable[] = {
    floats("aten::sigmoid", 1, [](const auto& a) { return sigmoid(a[0]); }),
    floats("aten::silu", 1, [](const auto& a) { return a[0] * sigmoid(a[0]); }),
    reals("aten::mish", 1, [](const Args<Real>& a) { return mish_of(a[0]); }),
    reals("aten::gelu", 2, gelu),
    reals("aten::leaky_relu", 2, [](const Args<Real>& a) { return a[0] > 0 ? a[0] : a[0] * (a.has(1) ? a[1] : 0.01); }),
    reals("aten::_prelu_kernel", 2, [](const Args<Real>& a) { return a[0] > 0 ? a[0] : a[1] * a[0]; }),
    reals("aten::elu", 4, elu),
    reals("aten::hardswish", 1, [](const Args<Real>& a) { return a[0] * six(a[0] + 3) / 6; }),
    reals("aten::hardsigmoid", 1, [](const Args<Real>& a) { return six(a[0] + 3) / 6; }),
    reals("aten::softplus", 3, softplus),
    reals("aten::softshrink", 2, softshrink),
    reals("aten::hardshrink", 2, hardshrink),
    ordered("aten::relu", 1, [](const auto& a) { return a[0] <= 0 ? a.truth(false) : a[0]; }),
    ordered("aten::hardtanh", 3, [](const auto& a) { return hardtanh(a); }),
    ordered("aten::threshold", 3, [](const auto& a) { return a[0] <= a[1] ? a[2] : a[0]; }),
    ordered("aten::threshold_backward", 3, [](const auto& a) { return a[1] <= a[2] ? a.truth(false) : a[0]; }),
    floats("aten::sigmoid_backward", 2, [](const auto& a) { return a[0] * conjugate((1.0 - a[1]) * a[1]); }),
    floats("aten::tanh_backward", 2, [](const auto& a) { return a[0] * conjugate(1.0 - a[1] * a[1]); }),
    reals("aten::gelu_backward", 3, gelu_backward),
    floats("aten::silu_backward", 2,
           [](const auto& a) {
             const auto s = sigmoid(a[1]);
             return a[0] * s * (1.0 + a[1] * (1.0 - s));  // no conjugate, as in PyTorch
           }),
    reals("aten::mish_backward", 2, mish_backward),
    reals("aten::leaky_relu_backward", 3, [](const Args<Real>& a) { return a[1] > 0 ? a[0] : a[0] * a[2]; }),
    reals("aten::hardtanh_backward", 4, [](const Args<Real>& a) { return a[1] <= a[2] || a[1] >= a[3] ? 0 : a[0]; }),
    reals("aten::hardsigmoid_backward", 2, [](const Args<Real>& a) { return a[1] > -3 && a[1] < 3 ? a[0] / 6 : 0; }),
    reals("aten::hardswish_backward", 2, hardswish_backward),
    reals("aten::softplus_backward", 4, softplus_backward),
    reals("aten::elu_backward", 6, elu_backward),
    reals("aten::softshrink_backward", 3, shrink_backward),
    reals("aten::hardshrink_backward", 3, shrink_backward),
    reals("aten::logit_backward", 3, logit_backward),
    reals("aten::log_sigmoid_backward", 2, log_sigmoid_backward),
};

}  // namespace

std::vector<Entry> activation_ops() {
  std::vector<Entry> all = entries<kTable>();
  const Entry others[] = {{"aten::log_sigmoid_forward", kernel<log_sigmoid>},
                          {"aten::glu", kernel<glu>},
                          {"aten::glu_backward", kernel<glu_backward>}};
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

}  // namespace ral::reference
