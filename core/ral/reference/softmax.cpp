// Softmax and log-softmax along one dim, and their backwards.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

using Lane = std::vector<Real>;

Lane softmax(Lane x, bool log) {
  Real high = -INFINITY;
  for (const Real v : x) high = is_nan(v) || v > high ? v : high;
  long double sum = 0;
  for (const Real v : x) sum += std::exp(v - high);
  const Real total = static_cast<Real>(sum);
  for (Real& v : x) v = log ? v - high - std::log(total) : std::exp(v - high) / total;
  return x;
}

Lane backward(Lane g, const Lane& y, bool log) {
  long double sum = 0;
  for (size_t i = 0; i < g.size(); ++i) sum += log ? g[i] : g[i] * y[i];
  const Real s = static_cast<Real>(sum);
  for (size_t i = 0; i < g.size(); ++i) g[i] = log ? g[i] - std::exp(y[i]) * s : (g[i] - s) * y[i];
  return g;
}

void only_real(const View& view) {
  require(domain_of(view.dtype) == Domain::Real, "softmax of other than real floating numbers");
}

template <bool log>
void forward(const Call& call) {
  const View in = call.tensor(0);
  only_real(in);
  const std::vector<bool> mask = dim_mask({call.integer(1, 0)}, in.rank());
  for (Lanes lanes({in, call.out()}, mask); lanes; lanes.next()) write(lanes[1], softmax(read<Real>(lanes[0]), log));
}

template <bool log>
void backward_data(const Call& call) {
  const View grad = call.tensor(0);
  only_real(grad);
  const std::vector<bool> mask = dim_mask({call.integer(2, 0)}, grad.rank());
  for (Lanes lanes({grad, call.tensor(1), call.out()}, mask); lanes; lanes.next())
    write(lanes[2], backward(read<Real>(lanes[0]), read<Real>(lanes[1]), log));
}

}  // namespace

std::vector<Entry> softmax_ops() {
  return {
      {"aten::_softmax", kernel<forward<false>>},
      {"aten::_log_softmax", kernel<forward<true>>},
      {"aten::_softmax_backward_data", kernel<backward_data<false>>},
      {"aten::_log_softmax_backward_data", kernel<backward_data<true>>},
  };
}

}  // namespace ral::reference
