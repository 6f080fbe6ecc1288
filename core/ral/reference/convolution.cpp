// Convolutions of 1 to 3 spatial dims, transposed or not, with groups; forward and backward, as direct sums.
//
// A transposed convolution is the gradient of a plain one. So all of them are sums over the same triples of a place on
// the large side (a plain convolution's input), in the weight, and on the small side (its output).
#include "internal.h"

namespace ral::reference {
namespace {

using Space = std::array<int64_t, 3>;

struct Geometry {
  int64_t batch, groups, large_channels, small_channels;
  Space large, small, kernel, stride, padding, dilation;
};

int64_t size(const Space& s) { return s[0] * s[1] * s[2]; }

// The last dims of a shape after the first two, with ones in front.
Space space_of(const Dims& shape) {
  Space out{1, 1, 1};
  for (size_t i = 2; i < shape.size(); ++i) out[3 - (shape.size() - i)] = shape[i];
  return out;
}
Space space_of(Dims values, int spatial, int64_t otherwise) {
  if (values.size() == 1) values.assign(spatial, values[0]);
  require(static_cast<int>(values.size()) == spatial, "a stride, padding or dilation does not fit the rank");
  Space out{otherwise, otherwise, otherwise};
  for (int i = 0; i < spatial; ++i) out[3 - spatial + i] = values[i];
  return out;
}

// Calls f for the places along one dim: f(k, small, large).
template <class F>
void along(const Geometry& g, int dim, F f) {
  for (int64_t s = 0; s < g.small[dim]; ++s)
    for (int64_t k = 0; k < g.kernel[dim]; ++k) {
      const int64_t l = s * g.stride[dim] - g.padding[dim] + k * g.dilation[dim];
      if (l >= 0 && l < g.large[dim]) f(k, s, l);
    }
}

// Calls f(large, weight, small) with row-major places for each term of the sum.
template <class F>
void terms(const Geometry& g, F f) {
  const int64_t large_each = g.large_channels / g.groups, small_each = g.small_channels / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t sc = 0; sc < g.small_channels; ++sc)
      for (int64_t lc = 0; lc < large_each; ++lc) {
        const int64_t large_channel = sc / small_each * large_each + lc;
        const int64_t large = (n * g.large_channels + large_channel) * size(g.large);
        const int64_t small = (n * g.small_channels + sc) * size(g.small);
        const int64_t weight = (sc * large_each + lc) * size(g.kernel);
        along(g, 0, [&](int64_t k0, int64_t s0, int64_t l0) {
          along(g, 1, [&](int64_t k1, int64_t s1, int64_t l1) {
            along(g, 2, [&](int64_t k2, int64_t s2, int64_t l2) {
              f(large + (l0 * g.large[1] + l1) * g.large[2] + l2, weight + (k0 * g.kernel[1] + k1) * g.kernel[2] + k2,
                small + (s0 * g.small[1] + s1) * g.small[2] + s2);
            });
          });
        });
      }
}

// `first`: the argument of the stride; padding, dilation, transposed, output_padding and groups follow.
Geometry geometry(const Call& call, uint32_t first, const View& input, const View& weight, const View& output) {
  const int spatial = input.rank() - 2;
  require(spatial >= 1 && spatial <= 3, "a convolution of other than 1 to 3 spatial dims");
  require(weight.rank() == input.rank() && output.rank() == input.rank(), "input, weight and output differ in rank");
  const bool transposed = call.flag(first + 3, false);
  const View &large = transposed ? output : input, &small = transposed ? input : output;
  Geometry g{input.size(0),
             call.integer(first + 5, 1),
             large.size(1),
             small.size(1),
             space_of(large.shape),
             space_of(small.shape),
             space_of(weight.shape),
             space_of(call.ints(first), spatial, 1),
             space_of(call.ints(first + 1), spatial, 0),
             space_of(call.ints(first + 2), spatial, 1)};
  require(g.groups > 0 && g.large_channels % g.groups == 0 && g.small_channels % g.groups == 0,
          "the channels do not divide into the groups");
  require(weight.size(0) == g.small_channels && weight.size(1) == g.large_channels / g.groups,
          "the weight's channels are not those of input and output");
  return g;
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
void convolution(const Call& call) {
  const View input = call.tensor(0), weight = call.tensor(1), out = call.out();
  const std::optional<View> bias = call.tensor_if(2);
  const Geometry g = geometry(call, 3, input, weight, out);
  const bool transposed = call.flag(6, false);
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> x = read<T>(input), w = read<T>(weight);
    std::vector<T> y(out.count(), T(0));
    if (bias) {
      const std::vector<T> b = read<T>(*bias);
      require(static_cast<int64_t>(b.size()) == out.size(1), "the bias' size is not the output's channels");
      const int64_t each = product(Dims(out.shape.begin() + 2, out.shape.end()));
      for (size_t i = 0; i < y.size(); ++i) y[i] = b[static_cast<int64_t>(i) / each % out.size(1)];
    }
    terms(g, [&](int64_t large, int64_t k, int64_t small) {
      if (transposed)
        y[large] += x[small] * w[k];
      else
        y[small] += x[large] * w[k];
    });
    write(out, y);
  });
}

template <class T>
std::vector<T> conjugate(std::vector<T> values) {
  if constexpr (std::is_same_v<T, Complex>)
    for (T& v : values) v = std::conj(v);
  return values;
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)
void convolution_backward(const Call& call) {
  const View grad = call.tensor(0), input = call.tensor(1), weight = call.tensor(2);
  const Geometry g = geometry(call, 4, input, weight, grad);
  const bool transposed = call.flag(7, false);
  const ral_value* mask = call.value(10);
  require(mask && mask->tag == RAL_VALUE_BOOL_LIST && mask->u.bools.count == 3, "an output mask of other than three");
  std::array<std::optional<View>, 3> outs;
  for (uint32_t i = 0; i < 3; ++i)
    if (mask->u.bools.items[i]) outs[i] = call.out(i);
  in_domain(domain_of(grad.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> dy = read<T>(grad), x = conjugate(read<T>(input)), w = conjugate(read<T>(weight));
    std::vector<T> dx(x.size(), T(0)), dw(w.size(), T(0)), db(grad.size(1), T(0));
    terms(g, [&](int64_t large, int64_t k, int64_t small) {
      const int64_t out = transposed ? large : small, in = transposed ? small : large;
      dx[in] += dy[out] * w[k];
      dw[k] += dy[out] * x[in];
    });
    const int64_t each = product(Dims(grad.shape.begin() + 2, grad.shape.end()));
    for (size_t i = 0; i < dy.size(); ++i) db[static_cast<int64_t>(i) / each % grad.size(1)] += dy[i];
    const std::vector<T>* results[] = {&dx, &dw, &db};
    for (uint32_t i = 0; i < 3; ++i)
      if (outs[i]) write(*outs[i], *results[i]);
  });
}

}  // namespace

std::vector<Entry> convolution_ops() {
  return {
      {"aten::convolution", kernel<convolution>},
      {"aten::convolution_overrideable", kernel<convolution>},
      {"aten::convolution_backward", kernel<convolution_backward>},
  };
}

}  // namespace ral::reference
