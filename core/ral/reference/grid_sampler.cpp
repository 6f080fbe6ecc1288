// Samples of an image or a volume at the places that a grid names; forward and backward.
//
// Along each dim a place becomes a few taps: elements with their weights, and how each weight changes with the grid's
// coordinate. A sample is the sum over all combinations of taps; both gradients are the same sum, taken apart.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

enum Mode : int64_t { kLinear, kNearest, kCubic };
enum Padding : int64_t { kZeros, kBorder, kReflection };

struct Tap {
  int64_t place;  // -1: outside, where the padding is zeros
  Real weight, slope;
};
using Taps = std::vector<Tap>;

// A position along a dim and its derivative by the grid's coordinate.
struct Position {
  Real at, slope;
};

Position clipped(Position p, int64_t size) {
  const Real last = static_cast<Real>(size - 1);
  // The borders count as outside for the gradient.
  if (!(p.at > 0)) return {0, 0};
  return p.at >= last ? Position{last, 0} : p;
}

// Mirrored between low and high, as often as it takes.
Position reflected(Position p, Real low, Real high) {
  const Real span = high - low;
  if (span == 0) return {0, 0};
  if (p.at < low) p = {2 * low - p.at, -p.slope};
  const Real off = p.at - low, extra = std::fmod(off, span);
  const bool even = std::fmod(std::floor(off / span), 2) == 0;
  return even ? Position{low + extra, p.slope} : Position{high - extra, -p.slope};
}

struct Sampler {
  Mode mode;
  Padding padding;
  bool align_corners;

  Position padded(Position p, int64_t size) const {
    if (padding == kZeros) return p;
    if (padding == kReflection)
      p = align_corners ? reflected(p, 0, static_cast<Real>(size - 1))
                        : reflected(p, -0.5, static_cast<Real>(size) - 0.5);
    return clipped(p, size);
  }

  static int64_t place(Real at, int64_t size) {
    return at >= 0 && at <= static_cast<Real>(size - 1) ? static_cast<int64_t>(at) : -1;  // NaN: outside
  }

  Taps taps(Real coordinate, int64_t size) const {
    const Real n = static_cast<Real>(align_corners ? size - 1 : size);
    const Position raw{align_corners ? (coordinate + 1) / 2 * n : ((coordinate + 1) * n - 1) / 2, n / 2};
    if (mode == kCubic) return cubic(raw, size);
    const Position p = padded(raw, size);
    if (mode == kNearest) return {{place(std::nearbyint(p.at), size), 1, 0}};
    const Real low = std::floor(p.at), t = p.at - low;
    return {{place(low, size), 1 - t, -p.slope}, {place(low + 1, size), t, p.slope}};
  }

  // Keys' kernel with a = -0.75. Here each tap is padded, not the position between them; taps of one place are one. The
  // weights' sum is 1, so that the slopes' is 0: the last slope is taken from the others to make it so exactly.
  Taps cubic(const Position& p, int64_t size) const {
    constexpr Real a = -0.75;
    const Real low = std::floor(p.at);
    Taps all;
    Real slopes = 0;
    for (int k = -1; k <= 2; ++k) {
      const Real off = p.at - low - k, x = std::abs(off);
      const bool near = x <= 1;
      const Real weight = near ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      const Real steep = near ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
      const Real slope = k == 2 ? -slopes : std::copysign(1.0, off) * steep * p.slope;
      slopes += slope;
      const int64_t at = place(padded({low + k, 0}, size).at, size);
      if (!all.empty() && all.back().place == at) {
        all.back().weight += weight;
        all.back().slope += slope;
      } else {
        all.push_back({at, weight, slope});
      }
    }
    return all;
  }
};

// Shapes of one call: input [batch, channels, space...], grid [batch, out space..., spatial].
template <int spatial>
struct Geometry {
  int64_t batch, channels, points;  // points: sampled places of one batch
  std::array<int64_t, spatial> space;
  int64_t each = 1;  // elements of one channel

  Geometry(const View& input, const View& grid, const View& output) {
    require(input.rank() == spatial + 2 && grid.rank() == spatial + 2 && output.rank() == spatial + 2,
            "the ranks do not fit a grid sample");
    batch = input.size(0);
    channels = input.size(1);
    for (int d = 0; d < spatial; ++d) each *= space[d] = input.size(d + 2);
    require(grid.size(spatial + 1) == spatial, "the grid's last dim is not the number of spatial dims");
    Dims shape{batch, channels};
    points = 1;
    for (int d = 1; d <= spatial; ++d) {
      shape.push_back(grid.size(d));
      points *= grid.size(d);
    }
    require(grid.size(0) == batch && output.shape == shape, "input, grid and output do not fit each other");
    require(each > 0, "a grid sample of no elements");
  }
};

Sampler sampler(const Call& call, uint32_t first, int spatial) {
  const int64_t mode = call.integer(first, 0), padding = call.integer(first + 1, 0);
  require(mode >= kLinear && mode <= kCubic && padding >= kZeros && padding <= kReflection, "an unknown mode");
  require(mode != kCubic || spatial == 2, "cubic samples of other than 2 dims");
  return {static_cast<Mode>(mode), static_cast<Padding>(padding), call.flag(first + 2, false)};
}

// Calls f(place, weight, slopes) for all combinations of taps inside; slopes are by the grid's coordinates in its order
// (the last dim's first).
template <int spatial, class F>
void combine(const std::array<Taps, spatial>& taps, const std::array<int64_t, spatial>& space, F f) {
  Dims counts;
  for (const Taps& t : taps) counts.push_back(static_cast<int64_t>(t.size()));
  for (Walk walk(counts, {}); walk; walk.next()) {
    int64_t place = 0;
    Real weight = 1;
    std::array<Real, spatial> slopes;
    slopes.fill(1);
    bool inside = true;
    for (int d = 0; d < spatial; ++d) {
      const Tap& tap = taps[d][walk.index()[d]];
      inside = inside && tap.place >= 0;
      place = place * space[d] + tap.place;
      weight *= tap.weight;
      for (int s = 0; s < spatial; ++s) slopes[s] *= s == spatial - 1 - d ? tap.slope : tap.weight;
    }
    if (inside) f(place, weight, slopes);
  }
}

template <int spatial>
std::array<Taps, spatial> taps_at(const Sampler& how, const Real* coordinates,
                                  const std::array<int64_t, spatial>& space) {
  std::array<Taps, spatial> taps;
  for (int d = 0; d < spatial; ++d) taps[d] = how.taps(coordinates[spatial - 1 - d], space[d]);
  return taps;
}

void only_real(const View& view) {
  require(domain_of(view.dtype) == Domain::Real, "a grid sample of other than real floating numbers");
}

// (input, grid, interpolation_mode, padding_mode, align_corners)
template <int spatial>
void sample(const Call& call) {
  const View input = call.tensor(0), grid = call.tensor(1), out = call.out();
  only_real(input);
  const Geometry<spatial> g(input, grid, out);
  const Sampler how = sampler(call, 2, spatial);
  const std::vector<Real> x = read<Real>(input), at = read<Real>(grid);
  std::vector<Real> y(out.count(), 0);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t p = 0; p < g.points; ++p)
      combine<spatial>(taps_at<spatial>(how, &at[(n * g.points + p) * spatial], g.space), g.space,
                       [&](int64_t place, Real weight, const std::array<Real, spatial>&) {
                         for (int64_t c = n * g.channels; c < (n + 1) * g.channels; ++c)
                           y[c * g.points + p] += weight * x[c * g.each + place];
                       });
  write(out, y);
}

// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)
template <int spatial>
void sample_backward(const Call& call) {
  const View grad = call.tensor(0), input = call.tensor(1), grid = call.tensor(2);
  only_real(input);
  const Geometry<spatial> g(input, grid, grad);
  const Sampler how = sampler(call, 3, spatial);
  const ral_value* mask = call.value(6);
  require(mask && mask->tag == RAL_VALUE_BOOL_LIST && mask->u.bools.count == 2, "an output mask of other than two");
  const std::vector<Real> dy = read<Real>(grad), x = read<Real>(input), at = read<Real>(grid);
  std::vector<Real> dx(x.size(), 0), dat(at.size(), 0);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t p = 0; p < g.points; ++p) {
      const int64_t point = (n * g.points + p) * spatial;
      combine<spatial>(taps_at<spatial>(how, &at[point], g.space), g.space,
                       [&](int64_t place, Real weight, const std::array<Real, spatial>& slopes) {
                         for (int64_t c = n * g.channels; c < (n + 1) * g.channels; ++c) {
                           dx[c * g.each + place] += weight * dy[c * g.points + p];
                           for (int s = 0; s < spatial; ++s)
                             dat[point + s] += slopes[s] * x[c * g.each + place] * dy[c * g.points + p];
                         }
                       });
    }
  std::array<std::optional<View>, 2> outs;
  for (uint32_t i = 0; i < 2; ++i)
    if (mask->u.bools.items[i]) outs[i] = call.out(i);
  if (outs[0]) write(*outs[0], dx);
  if (outs[1]) write(*outs[1], dat);
}

}  // namespace

std::vector<Entry> grid_sampler_ops() {
  return {
      {"aten::grid_sampler_2d", kernel<sample<2>>},
      {"aten::grid_sampler_3d", kernel<sample<3>>},
      {"aten::grid_sampler_2d_backward", kernel<sample_backward<2>>},
      {"aten::grid_sampler_3d_backward", kernel<sample_backward<3>>},
  };
}

}  // namespace ral::reference
