// Layer, batch and group normalization: forward, with the running statistics, and backward.
#include <algorithm>
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

using Lane = std::vector<Real>;

struct Moments {
  Real mean, variance;  // of the whole lane, not of a sample
};
Moments moments(const Lane& x) {
  const long double n = static_cast<long double>(x.size());
  long double sum = 0, squares = 0;
  for (const Real v : x) sum += v;
  const long double mean = sum / n;
  for (const Real v : x) squares += (v - mean) * (v - mean);
  return {static_cast<Real>(mean), static_cast<Real>(squares / n)};
}
Real inverse_root(Real variance, Real eps) { return 1 / std::sqrt(variance + eps); }

// A scale or shift at each place of a lane.
Lane read_or(const std::optional<View>& view, const View& like, Real otherwise) {
  return view ? read<Real>(broadcast(*view, like.shape)) : Lane(like.count(), otherwise);
}

// (x - mean) * rstd * weight + bias
Lane normalize(Lane x, Real mean, Real rstd, const Lane& weight, const Lane& bias) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  return x;
}

// The gradient of normalize(x) where mean and rstd follow from x; `g` already has the weight in it.
Lane normalize_backward(Lane g, const Lane& x, Real mean, Real rstd) {
  long double sum = 0, along = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    sum += g[i];
    along += g[i] * (x[i] - mean) * rstd;
  }
  const long double n = static_cast<long double>(g.size());
  for (size_t i = 0; i < g.size(); ++i)
    g[i] = static_cast<Real>((g[i] - sum / n - (x[i] - mean) * rstd * (along / n)) * rstd);
  return g;
}

void only_real(const View& view) {
  require(domain_of(view.dtype) == Domain::Real, "a normalization of other than real floating numbers");
}

// Dims from `first` to before `last`.
std::vector<bool> range_mask(int rank, int first, int last) {
  std::vector<bool> mask(rank, false);
  for (int d = first; d < last; ++d) mask[d] = true;
  return mask;
}

std::optional<View> wanted(const Call& call, uint32_t out, uint32_t mask_argument) {
  const ral_value* mask = call.value(mask_argument);
  require(mask && mask->tag == RAL_VALUE_BOOL_LIST && mask->u.bools.count == 3, "an output mask of other than three");
  return mask->u.bools.items[out] ? std::optional<View>(call.out(out)) : std::nullopt;
}

// ---- Layer norm ----------------------------------------------------------------------------------

std::vector<bool> layer_mask(const Call& call, const View& in, uint32_t shape_argument) {
  const int inner = static_cast<int>(call.ints(shape_argument).size());
  require(inner <= in.rank(), "a normalized shape of more dims than the input's");
  return range_mask(in.rank(), in.rank() - inner, in.rank());
}

void layer_norm(const Call& call) {
  const View in = call.tensor(0);
  only_real(in);
  const std::optional<View> weight = call.tensor_if(2), bias = call.tensor_if(3);
  const double eps = call.real(4, 1e-5);
  const std::vector<bool> mask = layer_mask(call, in, 1);
  const View means = keep_dims(call.out(1), mask), rstds = keep_dims(call.out(2), mask);
  for (Lanes lanes({in, call.out(), means, rstds}, mask); lanes; lanes.next()) {
    const Lane x = read<Real>(lanes[0]);
    const Moments m = moments(x);
    const Real rstd = inverse_root(m.variance, eps);
    write(lanes[1], normalize(x, m.mean, rstd, read_or(weight, lanes[0], 1), read_or(bias, lanes[0], 0)));
    write<Real>(lanes[2], {m.mean});
    write<Real>(lanes[3], {rstd});
  }
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
void layer_norm_backward(const Call& call) {
  const View grad = call.tensor(0), in = call.tensor(1);
  only_real(in);
  const std::vector<bool> mask = layer_mask(call, in, 2);
  const std::optional<View> weight = call.tensor_if(5);
  const std::optional<View> d_in = wanted(call, 0, 7), d_weight = wanted(call, 1, 7), d_bias = wanted(call, 2, 7);
  Lane weight_sum(product(call.ints(2)), 0), bias_sum(weight_sum);
  const View means = keep_dims(call.tensor(3), mask), rstds = keep_dims(call.tensor(4), mask);
  for (Lanes lanes({grad, in, means, rstds, d_in ? *d_in : in}, mask); lanes; lanes.next()) {
    Lane g = read<Real>(lanes[0]);
    const Lane x = read<Real>(lanes[1]), w = read_or(weight, lanes[1], 1);
    const Real mean = read<Real>(lanes[2])[0], rstd = read<Real>(lanes[3])[0];
    for (size_t i = 0; i < g.size(); ++i) {
      weight_sum[i] += g[i] * (x[i] - mean) * rstd;
      bias_sum[i] += g[i];
      g[i] *= w[i];
    }
    if (d_in) write(lanes[4], normalize_backward(g, x, mean, rstd));
  }
  if (d_weight) write(*d_weight, weight_sum);
  if (d_bias) write(*d_bias, bias_sum);
}

// ---- Batch norm ----------------------------------------------------------------------------------

std::vector<bool> all_but_channel(const View& in) {
  require(in.rank() >= 2, "a batch norm of fewer than 2 dims");
  std::vector<bool> mask(in.rank(), true);
  mask[1] = false;
  return mask;
}
std::optional<View> per_channel(const std::optional<View>& view, const std::vector<bool>& mask) {
  if (!view || view->count() == 0) return std::nullopt;  // CPU's unused statistics are empty
  return keep_dims(*view, mask);
}

struct BatchNorm {
  View in;
  std::optional<View> weight, bias;
  std::optional<View> mean, var;          // running statistics, read
  std::optional<View> new_mean, new_var;  // and where they are written
  bool training;
  double momentum, eps;
};

void batch_norm(const Call& call, const BatchNorm& b) {
  only_real(b.in);
  require(b.training || (b.mean && b.var), "inference without running statistics");
  const std::vector<bool> mask = all_but_channel(b.in);
  const std::optional<View> options[] = {b.weight,   b.bias,    b.mean,      b.var,
                                         b.new_mean, b.new_var, call.out(1), call.out(2)};
  std::vector<View> views{b.in, call.out()};
  std::array<size_t, 8> place{};  // in `views`; 0: absent
  for (size_t i = 0; i < place.size(); ++i) {
    const std::optional<View> view = per_channel(options[i], mask);
    if (!view) continue;
    place[i] = views.size();
    views.push_back(*view);
  }
  for (Lanes lanes(views, mask); lanes; lanes.next()) {
    const auto get = [&](int i, Real otherwise) { return place[i] ? read<Real>(lanes[place[i]])[0] : otherwise; };
    const auto put = [&](int i, Real value) {
      if (place[i]) write<Real>(lanes[place[i]], {value});
    };
    const Lane x = read<Real>(lanes[0]);
    const Moments m = b.training ? moments(x) : Moments{get(2, 0), get(3, 1)};
    const Real rstd = inverse_root(m.variance, b.eps), n = static_cast<Real>(x.size());
    const Lane weight(x.size(), get(0, 1)), bias(x.size(), get(1, 0));
    if (b.training) {
      const Real mean = get(2, 0), var = get(3, 0);
      put(4, (1 - b.momentum) * mean + b.momentum * m.mean);
      put(5, (1 - b.momentum) * var + b.momentum * m.variance * n / (n - 1));
    }
    put(6, m.mean);
    put(7, rstd);
    write(lanes[1], normalize(x, m.mean, rstd, weight, bias));
  }
}

// native_batch_norm and _native_batch_norm_legit write their running statistics in place.
void batch_norm_in_place(const Call& call) {
  const std::optional<View> mean = call.tensor_if(3), var = call.tensor_if(4);
  const bool training = call.flag(5, false);
  batch_norm(call, {call.tensor(0), call.tensor_if(1), call.tensor_if(2), mean, var, mean, var, training,
                    call.real(6, 0.1), call.real(7, 1e-5)});
}
void batch_norm_functional(const Call& call) {
  batch_norm(call, {call.tensor(0), call.tensor_if(1), call.tensor_if(2), call.tensor(3), call.tensor(4), call.out(3),
                    call.out(4), call.flag(5, false), call.real(6, 0.1), call.real(7, 1e-5)});
}
void batch_norm_inference(const Call& call) {
  batch_norm(call, {call.tensor(0),
                    call.tensor_if(1),
                    call.tensor_if(2),
                    call.tensor(3),
                    call.tensor(4),
                    {},
                    {},
                    false,
                    call.real(5, 0.1),
                    call.real(6, 1e-5)});
}
void batch_norm_no_stats(const Call& call) {
  batch_norm(call, {call.tensor(0),
                    call.tensor_if(1),
                    call.tensor_if(2),
                    {},
                    {},
                    {},
                    {},
                    true,
                    call.real(4, 0.1),
                    call.real(5, 1e-5)});
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
void batch_norm_backward(const Call& call) {
  const View grad = call.tensor(0), in = call.tensor(1);
  only_real(in);
  const bool training = call.flag(7, false);
  const double eps = call.real(8, 1e-5);
  const std::vector<bool> mask = all_but_channel(in);
  const std::optional<View> weight = call.tensor_if(2);
  const std::optional<View> d_in = wanted(call, 0, 9), d_weight = wanted(call, 1, 9), d_bias = wanted(call, 2, 9);
  const View means = call.tensor(training ? 5 : 3), scales = call.tensor(training ? 6 : 4);
  const View unused = keep_dims(means, mask);
  for (Lanes lanes({grad, in, keep_dims(means, mask), keep_dims(scales, mask), d_in ? *d_in : in,
                    d_weight ? keep_dims(*d_weight, mask) : unused, d_bias ? keep_dims(*d_bias, mask) : unused,
                    weight ? keep_dims(*weight, mask) : unused},
                   mask);
       lanes; lanes.next()) {
    Lane g = read<Real>(lanes[0]);
    const Lane x = read<Real>(lanes[1]);
    const Real mean = read<Real>(lanes[2])[0], scale = read<Real>(lanes[3])[0];
    const Real rstd = training ? scale : inverse_root(scale, eps), w = weight ? read<Real>(lanes[7])[0] : 1;
    long double weight_sum = 0, bias_sum = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      weight_sum += g[i] * (x[i] - mean) * rstd;
      bias_sum += g[i];
      g[i] *= training ? w : w * rstd;
    }
    if (d_in) write(lanes[4], training ? normalize_backward(g, x, mean, rstd) : g);
    if (d_weight) write<Real>(lanes[5], {static_cast<Real>(weight_sum)});
    if (d_bias) write<Real>(lanes[6], {static_cast<Real>(bias_sum)});
  }
}

// ---- Group norm ----------------------------------------------------------------------------------

// [N, C, ...] as [N, group, C / group, ...]; weight and bias [C] alike.
View grouped(const View& view, int64_t groups) {
  require(view.rank() >= 2, "a group norm of fewer than 2 dims");
  return split(view, 1, groups);
}
View grouped_weight(const View& weight, int64_t groups, int rank) {
  View out = split(weight, 0, groups);
  out.shape.insert(out.shape.begin(), 1);
  out.strides.insert(out.strides.begin(), 0);
  out.shape.resize(rank, 1);
  out.strides.resize(rank, 0);
  return out;
}

// (input, weight, bias, N, C, HxW, group, eps)
void group_norm(const Call& call) {
  only_real(call.tensor(0));
  const int64_t groups = call.integer(6, 1);
  const View in = grouped(call.tensor(0), groups), out = grouped(call.out(), groups);
  std::optional<View> weight = call.tensor_if(1), bias = call.tensor_if(2);
  for (std::optional<View>* one : {&weight, &bias})
    if (*one) *one = broadcast(grouped_weight(**one, groups, in.rank()), in.shape);
  const std::vector<bool> mask = range_mask(in.rank(), 2, in.rank());
  const View means = keep_dims(call.out(1), mask), rstds = keep_dims(call.out(2), mask);
  for (Lanes lanes({in, out, means, rstds, weight ? *weight : in, bias ? *bias : in}, mask); lanes; lanes.next()) {
    const Lane x = read<Real>(lanes[0]);
    const Moments m = moments(x);
    const Real rstd = inverse_root(m.variance, call.real(7, 1e-5));
    const Lane w = weight ? read<Real>(lanes[4]) : Lane(x.size(), 1),
               b = bias ? read<Real>(lanes[5]) : Lane(x.size(), 0);
    write(lanes[1], normalize(x, m.mean, rstd, w, b));
    write<Real>(lanes[2], {m.mean});
    write<Real>(lanes[3], {rstd});
  }
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
void group_norm_backward(const Call& call) {
  only_real(call.tensor(0));
  const int64_t groups = call.integer(8, 1), channels = call.integer(6, 0),
                each = channels / std::max<int64_t>(groups, 1);
  const View grad = grouped(call.tensor(0), groups), in = grouped(call.tensor(1), groups);
  const std::vector<bool> mask = range_mask(in.rank(), 2, in.rank());
  std::optional<View> weight = call.tensor_if(4), d_in = wanted(call, 0, 9);
  const std::optional<View> d_weight = wanted(call, 1, 9), d_bias = wanted(call, 2, 9);
  if (weight) weight = broadcast(grouped_weight(*weight, groups, in.rank()), in.shape);
  if (d_in) d_in = grouped(*d_in, groups);
  Lane weight_sum(channels, 0), bias_sum(channels, 0);
  for (Lanes lanes({grad, in, keep_dims(call.tensor(2), mask), keep_dims(call.tensor(3), mask), weight ? *weight : in,
                    d_in ? *d_in : in},
                   mask);
       lanes; lanes.next()) {
    Lane g = read<Real>(lanes[0]);
    const Lane x = read<Real>(lanes[1]), w = weight ? read<Real>(lanes[4]) : Lane(x.size(), 1);
    const Real mean = read<Real>(lanes[2])[0], rstd = read<Real>(lanes[3])[0];
    for (size_t i = 0; i < g.size(); ++i) {
      const size_t channel = lanes.index()[1] * each + i / (g.size() / each);
      weight_sum[channel] += g[i] * (x[i] - mean) * rstd;
      bias_sum[channel] += g[i];
      g[i] *= w[i];
    }
    if (d_in) write(lanes[5], normalize_backward(g, x, mean, rstd));
  }
  if (d_weight) write(*d_weight, weight_sum);
  if (d_bias) write(*d_bias, bias_sum);
}

}  // namespace

std::vector<Entry> norm_ops() {
  return {
      {"aten::native_layer_norm", kernel<layer_norm>},
      {"aten::native_layer_norm_backward", kernel<layer_norm_backward>},
      {"aten::native_batch_norm", kernel<batch_norm_in_place>},
      {"aten::_native_batch_norm_legit", kernel<batch_norm_in_place>},
      {"aten::_native_batch_norm_legit_functional", kernel<batch_norm_functional>},
      {"aten::_native_batch_norm_legit_no_training", kernel<batch_norm_inference>},
      {"aten::_native_batch_norm_legit.no_stats", kernel<batch_norm_no_stats>},
      {"aten::native_batch_norm_backward", kernel<batch_norm_backward>},
      {"aten::native_group_norm", kernel<group_norm>},
      {"aten::native_group_norm_backward", kernel<group_norm_backward>},
  };
}

}  // namespace ral::reference
