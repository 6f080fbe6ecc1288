// Losses with their reductions (0 none, 1 mean, 2 sum), and their backwards.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

void only_real(const View& view) {
  require(domain_of(view.dtype) == Domain::Real, "a loss of other than real floating numbers");
}

// A loss of one prediction x and one target t, with one parameter, and its derivative by x.
using Pointwise = Real (*)(Real x, Real t, Real parameter);

Real squared(Real x, Real t, Real) { return (x - t) * (x - t); }
Real squared_slope(Real x, Real t, Real) { return 2 * (x - t); }
Real smooth_l1(Real x, Real t, Real beta) {
  const Real z = std::abs(x - t);
  return z < beta ? 0.5 * z * z / beta : z - 0.5 * beta;
}
Real smooth_l1_slope(Real x, Real t, Real beta) {
  const Real z = x - t;
  return z <= -beta ? -1 : z >= beta ? 1 : z / beta;
}
Real huber(Real x, Real t, Real delta) {
  const Real z = std::abs(x - t);
  return z <= delta ? 0.5 * z * z : delta * (z - 0.5 * delta);
}
Real huber_slope(Real x, Real t, Real delta) {
  const Real z = x - t;
  return z <= -delta ? -delta : z >= delta ? delta : z;
}
// Logarithms are cut off at -100, and the slope's denominator at 1e-12, as in PyTorch.
Real cross_entropy(Real x, Real t, Real) {
  require(x >= 0 && x <= 1, "a prediction outside 0 to 1");
  return (t - 1) * std::fmax(std::log1p(-x), -100) - t * std::fmax(std::log(x), -100);
}
Real cross_entropy_slope(Real x, Real t, Real) { return (x - t) / std::fmax((1 - x) * x, 1e-12); }

struct Pair {
  std::vector<Real> x, t, weight;
  Dims shape;
};
Dims common_shape(const View& a, const View& b) {
  const bool first = a.rank() > b.rank() || (a.rank() == b.rank() && a.count() >= b.count());
  return first ? a.shape : b.shape;
}
Pair read_pair(const View& x, const View& t, const std::optional<View>& weight) {
  only_real(x);
  const Dims shape = common_shape(x, t);
  Pair p{read<Real>(broadcast(x, shape)), read<Real>(broadcast(t, shape)), {}, shape};
  p.weight = weight ? read<Real>(broadcast(*weight, shape)) : std::vector<Real>(p.x.size(), 1);
  return p;
}

void write_reduced(const View& out, const std::vector<Real>& values, int64_t reduction) {
  if (reduction == kNone) return write(out, values);
  long double sum = 0;
  for (const Real v : values) sum += v;
  write<Real>(out, {static_cast<Real>(reduction == kMean ? sum / static_cast<long double>(values.size()) : sum)});
}

// (self, target, [weight], reduction, [parameter])
template <Pointwise loss, bool weighted>
void forward(const Call& call) {
  Pair p = read_pair(call.tensor(0), call.tensor(1), weighted ? call.tensor_if(2) : std::nullopt);
  const uint32_t reduction = weighted ? 3 : 2;
  const Real parameter = call.real(reduction + 1, 1);
  for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = p.weight[i] * loss(p.x[i], p.t[i], parameter);
  write_reduced(call.out(), p.x, call.integer(reduction, kMean));
}

// (grad_output, self, target, [weight], reduction, [parameter])
template <Pointwise slope, bool weighted>
void backward(const Call& call) {
  Pair p = read_pair(call.tensor(1), call.tensor(2), weighted ? call.tensor_if(3) : std::nullopt);
  const uint32_t reduction = weighted ? 4 : 3;
  const Real parameter = call.real(reduction + 1, 1);
  const Real scale = call.integer(reduction, kMean) == kMean ? 1 / static_cast<Real>(p.x.size()) : 1;
  const std::vector<Real> grad = read<Real>(broadcast(call.tensor(0), p.shape));
  for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = grad[i] * scale * p.weight[i] * slope(p.x[i], p.t[i], parameter);
  write(call.out(), p.x);
}

// ---- Negative log likelihood ---------------------------------------------------------------------

// [C], [N, C] or [N, C, ...] with the classes last.
View classes_last(const View& view) {
  require(view.rank() >= 1, "a likelihood without classes");
  if (view.rank() == 1) return view;
  std::vector<int> dims{0};
  for (int d = 2; d < view.rank(); ++d) dims.push_back(d);
  dims.push_back(1);
  return pick(view, dims);
}

struct Likelihood {
  std::vector<Int> targets;
  std::vector<Real> weights;  // of each target; 0 where it is ignored
  int64_t classes;
  Real total = 0;
};
Likelihood likelihood(const View& view, const View& target, const std::optional<View>& weight, Int ignored) {
  only_real(view);
  Likelihood l{read<Int>(target), {}, view.size(view.rank() == 1 ? 0 : 1)};
  require(static_cast<int64_t>(l.targets.size()) * l.classes == view.count(), "the targets do not fit the input");
  const std::vector<Real> of_class = weight ? read<Real>(*weight) : std::vector<Real>(l.classes, 1);
  for (const Int t : l.targets) {
    if (t != ignored && (t < 0 || t >= l.classes)) refuse("target " + std::to_string(t) + " is out of range");
    l.weights.push_back(t == ignored ? 0 : of_class[t]);
    l.total += l.weights.back();
  }
  return l;
}

// (self, target, weight, reduction, ignore_index) to (output, total_weight)
void nll_forward(const Call& call) {
  const View in = call.tensor(0);
  const Likelihood l = likelihood(in, call.tensor(1), call.tensor_if(2), call.integer(4, -100));
  const int64_t reduction = call.integer(3, kMean);
  const std::vector<Real> x = read<Real>(classes_last(in));
  std::vector<Real> losses;
  for (size_t i = 0; i < l.targets.size(); ++i)
    losses.push_back(l.weights[i] == 0 ? 0 : -l.weights[i] * x[i * l.classes + l.targets[i]]);
  const bool each = reduction == kNone && in.rank() > 1;
  if (each) {
    write(call.out(), losses);
  } else {
    long double sum = 0;
    for (const Real loss : losses) sum += loss;
    write<Real>(call.out(), {static_cast<Real>(reduction == kMean ? sum / l.total : sum)});
  }
  write<Real>(call.out(1), {each ? 0 : l.total});
}

// (grad_output, self, target, weight, reduction, ignore_index, total_weight)
void nll_backward(const Call& call) {
  const View in = call.tensor(1), out = classes_last(call.out());
  const Likelihood l = likelihood(in, call.tensor(2), call.tensor_if(3), call.integer(5, -100));
  const Real scale = call.integer(4, kMean) == kMean ? 1 / read<Real>(call.tensor(6))[0] : 1;
  std::vector<Real> grad = read<Real>(call.tensor(0));
  require(grad.size() == 1 || grad.size() == l.targets.size(), "the gradient does not fit the targets");
  std::vector<Real> values(out.count(), 0);
  for (size_t i = 0; i < l.targets.size(); ++i)
    if (l.weights[i] != 0)
      values[i * l.classes + l.targets[i]] = -grad[grad.size() == 1 ? 0 : i] * l.weights[i] * scale;
  write(out, values);
}

}  // namespace

std::vector<Entry> loss_ops() {
  return {
      {"aten::mse_loss", kernel<forward<squared, false>>},
      {"aten::mse_loss_backward", kernel<backward<squared_slope, false>>},
      {"aten::smooth_l1_loss", kernel<forward<smooth_l1, false>>},
      {"aten::smooth_l1_loss_backward", kernel<backward<smooth_l1_slope, false>>},
      {"aten::huber_loss", kernel<forward<huber, false>>},
      {"aten::huber_loss_backward", kernel<backward<huber_slope, false>>},
      {"aten::binary_cross_entropy", kernel<forward<cross_entropy, true>>},
      {"aten::binary_cross_entropy_backward", kernel<backward<cross_entropy_slope, true>>},
      {"aten::nll_loss_forward", kernel<nll_forward>},
      {"aten::nll_loss2d_forward", kernel<nll_forward>},
      {"aten::nll_loss_backward", kernel<nll_backward>},
      {"aten::nll_loss2d_backward", kernel<nll_backward>},
  };
}

}  // namespace ral::reference
