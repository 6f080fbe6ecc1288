// Resampling of 1 to 3 spatial dims: nearest, linear and cubic. Each is a weighted sum along one dim after the other,
// and the backward of each is the same sum transposed.
#include <algorithm>
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

struct Tap {
  int64_t place;
  Real weight;
};
using Taps = std::vector<std::vector<Tap>>;  // of each output position

struct Line {
  int64_t in, out;
  bool align_corners;
  double scale;  // out / in as the caller gave it; 0: from the sizes
};
using Rule = std::vector<Tap> (*)(const Line& line, int64_t position);

// PyTorch computes the source of nearest neighbours in float, and so which neighbour it is.
float nearest_scale(const Line& l) {
  return l.scale > 0 ? static_cast<float>(1.0 / l.scale) : static_cast<float>(l.in) / static_cast<float>(l.out);
}
std::vector<Tap> nearest(const Line& l, int64_t i) {
  if (l.out == l.in) return {{i, 1}};
  if (l.out == 2 * l.in) return {{i / 2, 1}};
  const auto source = static_cast<int64_t>(std::floor(static_cast<float>(i) * nearest_scale(l)));
  return {{std::min(source, l.in - 1), 1}};
}
std::vector<Tap> nearest_exact(const Line& l, int64_t i) {
  const auto source = static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5f) * nearest_scale(l)));
  return {{std::min(source, l.in - 1), 1}};
}

double source_position(const Line& l, int64_t i) {
  if (l.align_corners)
    return l.out > 1 ? static_cast<double>(i) * static_cast<double>(l.in - 1) / static_cast<double>(l.out - 1) : 0;
  const double step = l.scale > 0 ? 1 / l.scale : static_cast<double>(l.in) / static_cast<double>(l.out);
  return (static_cast<double>(i) + 0.5) * step - 0.5;
}

std::vector<Tap> linear(const Line& l, int64_t i) {
  const double x = std::max(0.0, source_position(l, i));
  const int64_t low = std::min(static_cast<int64_t>(x), l.in - 1), high = std::min(low + 1, l.in - 1);
  const double t = std::min(x - static_cast<double>(low), 1.0);
  return {{low, 1 - t}, {high, t}};
}

// Keys' kernel with a = -0.75.
double cubic_weight(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
std::vector<Tap> cubic(const Line& l, int64_t i) {
  const double x = source_position(l, i), floor = std::floor(x);
  std::vector<Tap> taps;
  for (int k = -1; k <= 2; ++k) {
    const int64_t place = std::clamp<int64_t>(static_cast<int64_t>(floor) + k, 0, l.in - 1);
    taps.push_back({place, cubic_weight(x - floor - k)});
  }
  return taps;
}

// Values of shape [outer, from, inner] to [outer, to, inner].
std::vector<Real> resample(const std::vector<Real>& x, int64_t inner, const Line& l, const Taps& taps, bool backward) {
  const int64_t from = backward ? l.out : l.in, to = backward ? l.in : l.out;
  const int64_t outer = static_cast<int64_t>(x.size()) / (from * inner);
  std::vector<Real> y(outer * to * inner, 0);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < l.out; ++i)
      for (const Tap& tap : taps[i])
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t target = backward ? tap.place : i, source = backward ? i : tap.place;
          y[(o * to + target) * inner + k] += tap.weight * x[(o * from + source) * inner + k];
        }
  return y;
}

// Forward: (self, output_size, [align_corners], scales...). Backward: (grad_output, output_size, input_size,
// [align_corners], scales...).
template <int spatial, Rule rule, bool aligns, bool backward>
void interpolate(const Call& call) {
  const View from = call.tensor(0), to = call.out();
  require(from.rank() == spatial + 2 && to.rank() == spatial + 2, "the rank does not fit");
  require(domain_of(from.dtype) == Domain::Real || (from.dtype == RAL_UINT8 && !backward && (!aligns || spatial == 2)),
          "a resampling of this dtype");
  if (from.count() == 0 || to.count() == 0) {
    require(to.count() == 0, "a resampling of no elements");
    return;
  }
  const uint32_t align = backward ? 3 : 2, scales = align + aligns;
  std::vector<Real> values = read<Real>(from);
  for (int s = 0; s < spatial; ++s) {
    const int d = s + 2;
    const Line line{(backward ? to : from).size(d), (backward ? from : to).size(d), aligns && call.flag(align, false),
                    call.real(scales + s, 0)};
    Taps taps;
    for (int64_t i = 0; i < line.out; ++i) taps.push_back(rule(line, i));
    values = resample(values, product(Dims(from.shape.begin() + d + 1, from.shape.end())), line, taps, backward);
  }
  // Bytes are rounded to the nearest at the end; PyTorch rounds them after each dim and may be off by one.
  if (to.dtype == RAL_UINT8)
    for (Real& v : values) v = std::clamp(std::floor(v + 0.5), 0.0, 255.0);
  write(to, values);
}

}  // namespace

std::vector<Entry> interpolate_ops() {
  return {
      {"aten::upsample_nearest1d", kernel<interpolate<1, nearest, false, false>>},
      {"aten::upsample_nearest2d", kernel<interpolate<2, nearest, false, false>>},
      {"aten::upsample_nearest3d", kernel<interpolate<3, nearest, false, false>>},
      {"aten::_upsample_nearest_exact1d", kernel<interpolate<1, nearest_exact, false, false>>},
      {"aten::_upsample_nearest_exact2d", kernel<interpolate<2, nearest_exact, false, false>>},
      {"aten::_upsample_nearest_exact3d", kernel<interpolate<3, nearest_exact, false, false>>},
      {"aten::upsample_linear1d", kernel<interpolate<1, linear, true, false>>},
      {"aten::upsample_bilinear2d", kernel<interpolate<2, linear, true, false>>},
      {"aten::upsample_trilinear3d", kernel<interpolate<3, linear, true, false>>},
      {"aten::upsample_bicubic2d", kernel<interpolate<2, cubic, true, false>>},
      {"aten::upsample_nearest1d_backward", kernel<interpolate<1, nearest, false, true>>},
      {"aten::upsample_nearest2d_backward", kernel<interpolate<2, nearest, false, true>>},
      {"aten::upsample_nearest3d_backward", kernel<interpolate<3, nearest, false, true>>},
      {"aten::_upsample_nearest_exact1d_backward", kernel<interpolate<1, nearest_exact, false, true>>},
      {"aten::_upsample_nearest_exact2d_backward", kernel<interpolate<2, nearest_exact, false, true>>},
      {"aten::_upsample_nearest_exact3d_backward", kernel<interpolate<3, nearest_exact, false, true>>},
      {"aten::upsample_linear1d_backward", kernel<interpolate<1, linear, true, true>>},
      {"aten::upsample_bilinear2d_backward", kernel<interpolate<2, linear, true, true>>},
      {"aten::upsample_trilinear3d_backward", kernel<interpolate<3, linear, true, true>>},
      {"aten::upsample_bicubic2d_backward", kernel<interpolate<2, cubic, true, true>>},
  };
}

}  // namespace ral::reference
