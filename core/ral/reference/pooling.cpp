// Pooling of two and three spatial dims: largest with its place, and averages; forward and backward.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

using Space = std::array<int64_t, 3>;  // depth, height, width; depth is 1 in two dims

// The last `spatial` dims as one space, all dims before them as its planes.
struct Planes {
  int64_t count;
  Space space;

  int64_t each() const { return space[0] * space[1] * space[2]; }
  int64_t place(int64_t z, int64_t y, int64_t x) const { return (z * space[1] + y) * space[2] + x; }
};
template <int spatial>
Planes planes(const View& view) {
  if (view.rank() != spatial + 1 && view.rank() != spatial + 2)
    refuse("a " + std::to_string(spatial) + "d pooling of " + std::to_string(view.rank()) + " dims");
  Planes out{product(Dims(view.shape.begin(), view.shape.end() - spatial)), {1, 1, 1}};
  for (int d = 0; d < spatial; ++d) out.space[3 - spatial + d] = view.size(view.rank() - spatial + d);
  return out;
}

// What one output position covers along one dim.
struct Window {
  int64_t start, end, step;
  int64_t padded;  // its size with the padding that it covers

  bool empty() const { return start >= end; }
};
using Windows = std::vector<Window>;
using Axes = std::array<Windows, 3>;
const Window kWhole{0, 1, 1, 1};  // of a dim that is not there

// One output position.
struct Place {
  const Window &z, &y, &x;

  bool empty() const { return z.empty() || y.empty() || x.empty(); }
};

// Calls f(n, plane, place) for the output positions of all planes in row-major order, n counting them.
template <class F>
void each_position(int64_t count, const Axes& axes, F f) {
  size_t n = 0;
  for (int64_t p = 0; p < count; ++p)
    for (const Window& z : axes[0])
      for (const Window& y : axes[1])
        for (const Window& x : axes[2]) f(n++, p, Place{z, y, x});
}
// Calls f(place in the plane) for what a position covers.
template <class F>
void each_covered(const Planes& in, const Place& at, F f) {
  for (int64_t z = at.z.start; z < at.z.end; z += at.z.step)
    for (int64_t y = at.y.start; y < at.y.end; y += at.y.step)
      for (int64_t x = at.x.start; x < at.x.end; x += at.x.step) f(in.place(z, y, x));
}

template <int spatial>
Dims parameter(const Dims& values, const Dims& otherwise) {
  if (values.empty()) return otherwise;
  if (values.size() == 1) return Dims(spatial, values[0]);
  require(values.size() == spatial, "a pooling parameter that does not fit the rank");
  return values;
}

// From the arguments kernel_size, stride and padding, `first` on.
template <int spatial>
Axes windows(const Call& call, uint32_t first, const Planes& in, const Planes& out, const Dims& dilation) {
  const Dims kernel = parameter<spatial>(call.ints(first), {});
  const Dims stride = parameter<spatial>(call.ints(first + 1), kernel);
  const Dims padding = parameter<spatial>(call.ints(first + 2), Dims(spatial, 0));
  require(!kernel.empty(), "a pooling without kernel");
  Axes axes{Windows{kWhole}, Windows{kWhole}, Windows{kWhole}};
  for (int d = 0; d < spatial; ++d) {
    const int axis = 3 - spatial + d;
    require(stride[d] > 0 && dilation[d] > 0, "a pooling without stride");
    axes[axis].clear();
    for (int64_t o = 0; o < out.space[axis]; ++o) {
      int64_t start = o * stride[d] - padding[d];
      const int64_t full = start + (kernel[d] - 1) * dilation[d] + 1;
      const int64_t padded = std::min(full, in.space[axis] + padding[d]) - start;
      while (start < 0) start += dilation[d];
      axes[axis].push_back({start, std::min(full, in.space[axis]), dilation[d], padded});
    }
  }
  return axes;
}

Axes adaptive(const Planes& in, const Planes& out) {
  Axes axes;
  for (int axis = 0; axis < 3; ++axis)
    for (int64_t o = 0; o < out.space[axis]; ++o) {
      const int64_t n = in.space[axis], m = out.space[axis];
      const int64_t start = o * n / m, end = ((o + 1) * n + m - 1) / m;
      axes[axis].push_back({start, end, 1, end - start});
    }
  return axes;
}

// ---- Largest -------------------------------------------------------------------------------------

// The last NaN of a window goes before all numbers, else the first of the largest.
void largest(const View& in, const View& out, const View& places, const Planes& from, const Axes& axes) {
  require(!is_complex(in.dtype), "an order of complex numbers");
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Complex>) {
      const std::vector<T> x = read<T>(in);
      std::vector<T> values;
      std::vector<Int> indices;
      each_position(from.count, axes, [&](size_t, int64_t p, const Place& at) {
        require(!at.empty(), "a window outside the input");
        const T* plane = x.data() + p * from.each();
        int64_t best = from.place(at.z.start, at.y.start, at.x.start);
        each_covered(from, at, [&](int64_t i) {
          if (plane[i] > plane[best] || is_nan(plane[i])) best = i;
        });
        values.push_back(plane[best]);
        indices.push_back(best);
      });
      write(out, values);
      write(places, indices);
    }
  });
}

// (self, kernel_size, stride, padding, dilation, ceil_mode)
template <int spatial>
void max_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out(0);
  const Planes from = planes<spatial>(in), to = planes<spatial>(out);
  const Dims dilation = parameter<spatial>(call.ints(4), Dims(spatial, 1));
  largest(in, out, call.out(1), from, windows<spatial>(call, 1, from, to, dilation));
}
// (self, output_size)
template <int spatial>
void adaptive_max_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out(0);
  const Planes from = planes<spatial>(in);
  largest(in, out, call.out(1), from, adaptive(from, planes<spatial>(out)));
}

std::vector<Int> indices_into(const View& indices, const View& values, const Planes& planes) {
  require(indices.shape == values.shape, "the indices' shape is not that of the values");
  std::vector<Int> all = read<Int>(indices);
  for (const Int i : all) require(i >= 0 && i < planes.each(), "an index outside the plane");
  return all;
}

// (grad_output, self, ..., indices)
template <int spatial, uint32_t at>
void max_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  const Planes from = planes<spatial>(grad), to = planes<spatial>(out);
  require(from.count == to.count, "gradient and input differ in planes");
  const std::vector<Real> g = read<Real>(grad);
  const std::vector<Int> indices = indices_into(call.tensor(at), grad, to);
  std::vector<Real> sums(out.count(), 0);
  for (size_t i = 0; i < g.size(); ++i) sums[static_cast<int64_t>(i) / from.each() * to.each() + indices[i]] += g[i];
  write(out, sums);
}

// (self, indices, output_size, ...): zero but for the values at their places.
template <int spatial>
void max_unpool(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Planes from = planes<spatial>(in), to = planes<spatial>(out);
  require(from.count == to.count, "input and output differ in planes");
  const std::vector<Int> indices = indices_into(call.tensor(1), in, to);
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> x = read<T>(in);
    std::vector<T> y(out.count(), T(0));
    for (size_t i = 0; i < x.size(); ++i) y[static_cast<int64_t>(i) / from.each() * to.each() + indices[i]] = x[i];
    write(out, y);
  });
}

// ---- Averages ------------------------------------------------------------------------------------

struct Average {
  Axes axes;
  bool count_padding;
  int64_t divisor;  // 0: the elements that count

  int64_t divided_by(const Place& at) const {
    if (divisor) return divisor;
    if (count_padding) return at.z.padded * at.y.padded * at.x.padded;
    return (at.z.end - at.z.start) * (at.y.end - at.y.start) * (at.x.end - at.x.start);
  }
};

// From kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override.
template <int spatial>
Average average(const Call& call, uint32_t first, const Planes& in, const Planes& out) {
  require(call.integer(first + 5, 1) != 0, "a divisor of zero");
  return {windows<spatial>(call, first, in, out, Dims(spatial, 1)), call.flag(first + 4, true),
          call.integer(first + 5, 0)};
}
Average adaptive_average(const Planes& in, const Planes& out) { return {adaptive(in, out), true, 0}; }

// int64 divides as integers do.
template <class F>
void in_average_domain(const View& view, F f) {
  require(domain_of(view.dtype) == Domain::Real || view.dtype == RAL_INT64, "an average of this dtype");
  if (view.dtype == RAL_INT64) return f(Int());
  f(Real());
}

void average_forward(const View& in, const View& out, const Planes& from, const Average& a) {
  in_average_domain(in, [&](auto zero) {
    using T = decltype(zero);
    using Sum = std::conditional_t<std::is_same_v<T, Real>, long double, T>;
    const std::vector<T> x = read<T>(in);
    std::vector<T> y;
    each_position(from.count, a.axes, [&](size_t, int64_t p, const Place& at) {
      Sum sum = 0;
      each_covered(from, at, [&](int64_t i) { sum += x[p * from.each() + i]; });
      y.push_back(at.empty() ? T(0) : static_cast<T>(sum / static_cast<Sum>(a.divided_by(at))));
    });
    write(out, y);
  });
}

void average_backward(const View& grad, const View& out, const Planes& to, const Average& a) {
  in_average_domain(grad, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> g = read<T>(grad);
    std::vector<T> sums(out.count(), T(0));
    each_position(to.count, a.axes, [&](size_t n, int64_t p, const Place& at) {
      if (at.empty()) return;
      const T each = g[n] / static_cast<T>(a.divided_by(at));
      each_covered(to, at, [&](int64_t i) { sums[p * to.each() + i] += each; });
    });
    write(out, sums);
  });
}

template <int spatial>
void avg_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Planes from = planes<spatial>(in);
  average_forward(in, out, from, average<spatial>(call, 1, from, planes<spatial>(out)));
}
template <int spatial>
void avg_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  const Planes to = planes<spatial>(out), from = planes<spatial>(grad);
  require(from.count == to.count, "gradient and input differ in planes");
  average_backward(grad, out, to, average<spatial>(call, 2, to, from));
}
template <int spatial>
void adaptive_avg_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Planes from = planes<spatial>(in);
  average_forward(in, out, from, adaptive_average(from, planes<spatial>(out)));
}
template <int spatial>
void adaptive_avg_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  const Planes to = planes<spatial>(out), from = planes<spatial>(grad);
  require(from.count == to.count, "gradient and input differ in planes");
  average_backward(grad, out, to, adaptive_average(to, from));
}

}  // namespace

std::vector<Entry> pooling_ops() {
  return {
      {"aten::max_pool2d_with_indices", kernel<max_pool<2>>},
      {"aten::max_pool3d_with_indices", kernel<max_pool<3>>},
      {"aten::max_pool2d_with_indices_backward", kernel<max_pool_backward<2, 7>>},
      {"aten::max_pool3d_with_indices_backward", kernel<max_pool_backward<3, 7>>},
      {"aten::adaptive_max_pool2d", kernel<adaptive_max_pool<2>>},
      {"aten::adaptive_max_pool3d", kernel<adaptive_max_pool<3>>},
      {"aten::adaptive_max_pool2d_backward", kernel<max_pool_backward<2, 2>>},
      {"aten::adaptive_max_pool3d_backward", kernel<max_pool_backward<3, 2>>},
      {"aten::max_unpool2d", kernel<max_unpool<2>>},
      {"aten::max_unpool3d", kernel<max_unpool<3>>},
      {"aten::avg_pool2d", kernel<avg_pool<2>>},
      {"aten::avg_pool3d", kernel<avg_pool<3>>},
      {"aten::avg_pool2d_backward", kernel<avg_pool_backward<2>>},
      {"aten::avg_pool3d_backward", kernel<avg_pool_backward<3>>},
      {"aten::_adaptive_avg_pool2d", kernel<adaptive_avg_pool<2>>},
      {"aten::_adaptive_avg_pool3d", kernel<adaptive_avg_pool<3>>},
      {"aten::_adaptive_avg_pool2d_backward", kernel<adaptive_avg_pool_backward<2>>},
      {"aten::_adaptive_avg_pool3d_backward", kernel<adaptive_avg_pool_backward<3>>},
  };
}

}  // namespace ral::reference
