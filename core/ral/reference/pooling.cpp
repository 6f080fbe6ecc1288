// Two-dimensional pooling: largest with its place, and averages; forward and backward.
#include <cmath>
#include <limits>

#include "internal.h"

namespace ral::reference {
namespace {

// The last two dims as planes, all dims before them as one.
struct Planes {
  int64_t count, height, width;
};
Planes planes(const View& view) {
  require(view.rank() == 3 || view.rank() == 4, "a 2d pooling of other than 3 or 4 dims");
  const int64_t h = view.size(view.rank() - 2), w = view.size(view.rank() - 1);
  return {product(Dims(view.shape.begin(), view.shape.end() - 2)), h, w};
}

// What one output position covers along one dim.
struct Window {
  int64_t start, end, step;
  int64_t padded;  // its size with the padding that it covers
};
using Windows = std::vector<Window>;

Dims two(const Dims& values, const Dims& otherwise) {
  if (values.empty()) return otherwise;
  require(values.size() <= 2, "a pooling parameter of more than 2 values");
  return values.size() == 1 ? Dims{values[0], values[0]} : values;
}

// Arguments kernel_size, stride, padding from `first` on; dim 0 or 1.
Windows windows(const Call& call, uint32_t first, int dim, int64_t in, int64_t out, int64_t dilation) {
  const Dims kernel = two(call.ints(first), {}), stride = two(call.ints(first + 1), kernel);
  const Dims padding = two(call.ints(first + 2), {0, 0});
  require(kernel.size() == 2 && stride[dim] > 0 && dilation > 0, "a pooling without kernel or stride");
  Windows all;
  for (int64_t o = 0; o < out; ++o) {
    int64_t start = o * stride[dim] - padding[dim];
    const int64_t full = start + (kernel[dim] - 1) * dilation + 1;
    const int64_t padded = std::min(full, in + padding[dim]) - start;
    while (start < 0) start += dilation;
    all.push_back({start, std::min(full, in), dilation, padded});
  }
  return all;
}

Windows adaptive(int64_t in, int64_t out) {
  Windows all;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * in / out, end = ((o + 1) * in + out - 1) / out;
    all.push_back({start, end, 1, end - start});
  }
  return all;
}

// ---- Largest -------------------------------------------------------------------------------------

// (self, kernel_size, stride, padding, dilation, ceil_mode)
void max_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out(0), places = call.out(1);
  require(!is_complex(in.dtype), "an order of complex numbers");
  const Planes from = planes(in), to = planes(out);
  const Dims dilation = two(call.ints(4), {1, 1});
  const Windows rows = windows(call, 1, 0, from.height, to.height, dilation[0]);
  const Windows columns = windows(call, 1, 1, from.width, to.width, dilation[1]);
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Complex>) {
      const std::vector<T> x = read<T>(in);
      std::vector<T> values;
      std::vector<Int> indices;
      for (int64_t p = 0; p < from.count; ++p)
        for (const Window& r : rows)
          for (const Window& c : columns) {
            Int best = r.start * from.width + c.start;
            const T* plane = x.data() + p * from.height * from.width;
            for (int64_t i = r.start; i < r.end; i += r.step)
              for (int64_t j = c.start; j < c.end; j += c.step) {
                const T v = plane[i * from.width + j];
                if (v > plane[best] || is_nan(v)) best = i * from.width + j;
              }
            values.push_back(plane[best]);
            indices.push_back(best);
          }
      write(out, values);
      write(places, indices);
    }
  });
}

// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
void max_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  const Planes from = planes(grad), to = planes(out);
  const std::vector<Real> g = read<Real>(grad);
  const std::vector<Int> indices = read<Int>(call.tensor(7));
  require(indices.size() == g.size(), "the indices' shape is not the gradient's");
  const int64_t each = from.height * from.width, plane = to.height * to.width;
  std::vector<Real> sums(out.count(), 0);
  for (size_t i = 0; i < g.size(); ++i) {
    require(indices[i] >= 0 && indices[i] < plane, "an index outside the plane");
    sums[static_cast<int64_t>(i) / each * plane + indices[i]] += g[i];
  }
  write(out, sums);
}

// ---- Averages ------------------------------------------------------------------------------------

struct Average {
  Windows rows, columns;
  bool count_padding;
  int64_t divisor;  // 0: the elements that count

  Real factor(const Window& r, const Window& c) const {
    if (divisor) return 1 / static_cast<Real>(divisor);
    const int64_t n = count_padding ? r.padded * c.padded : (r.end - r.start) * (c.end - c.start);
    return 1 / static_cast<Real>(n);
  }
};

// From kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override.
Average average(const Call& call, uint32_t first, const Planes& in, const Planes& out) {
  require(call.integer(first + 5, 1) != 0, "a divisor of zero");
  return {windows(call, first, 0, in.height, out.height, 1), windows(call, first, 1, in.width, out.width, 1),
          call.flag(first + 4, true), call.integer(first + 5, 0)};
}

void average_forward(const View& in, const View& out, const Average& a) {
  const Planes from = planes(in);
  const std::vector<Real> x = read<Real>(in);
  std::vector<Real> y;
  for (int64_t p = 0; p < from.count; ++p)
    for (const Window& r : a.rows)
      for (const Window& c : a.columns) {
        long double sum = 0;
        for (int64_t i = r.start; i < r.end; ++i)
          for (int64_t j = c.start; j < c.end; ++j) sum += x[(p * from.height + i) * from.width + j];
        y.push_back(r.start >= r.end || c.start >= c.end ? 0 : static_cast<Real>(sum) * a.factor(r, c));
      }
  write(out, y);
}

void average_backward(const View& grad, const View& out, const Average& a) {
  const Planes to = planes(out);
  const std::vector<Real> g = read<Real>(grad);
  std::vector<Real> sums(out.count(), 0);
  size_t n = 0;
  for (int64_t p = 0; p < to.count; ++p)
    for (const Window& r : a.rows)
      for (const Window& c : a.columns) {
        const Real each = g[n++] * a.factor(r, c);
        for (int64_t i = r.start; i < r.end; ++i)
          for (int64_t j = c.start; j < c.end; ++j) sums[(p * to.height + i) * to.width + j] += each;
      }
  write(out, sums);
}

void only_real(const View& view) {
  require(domain_of(view.dtype) == Domain::Real, "an average of other than real floating numbers");
}

void avg_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  only_real(in);
  average_forward(in, out, average(call, 1, planes(in), planes(out)));
}
void avg_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  only_real(grad);
  average_backward(grad, out, average(call, 2, planes(out), planes(grad)));
}

Average adaptive_average(const Planes& in, const Planes& out) {
  return {adaptive(in.height, out.height), adaptive(in.width, out.width), true, 0};
}
void adaptive_avg_pool(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  only_real(in);
  average_forward(in, out, adaptive_average(planes(in), planes(out)));
}
void adaptive_avg_pool_backward(const Call& call) {
  const View grad = call.tensor(0), out = call.out();
  only_real(grad);
  average_backward(grad, out, adaptive_average(planes(out), planes(grad)));
}

}  // namespace

std::vector<Entry> pooling_ops() {
  return {
      {"aten::max_pool2d_with_indices", kernel<max_pool>},
      {"aten::max_pool2d_with_indices_backward", kernel<max_pool_backward>},
      {"aten::avg_pool2d", kernel<avg_pool>},
      {"aten::avg_pool2d_backward", kernel<avg_pool_backward>},
      {"aten::_adaptive_avg_pool2d", kernel<adaptive_avg_pool>},
      {"aten::_adaptive_avg_pool2d_backward", kernel<adaptive_avg_pool_backward>},
  };
}

}  // namespace ral::reference
