// Tensors made of numbers alone: ranges, spaced points, identities, triangles' indices. PyTorch allocates most of them
// itself and asks for the out= form, under whose name they stand here.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

// (start, end, step)
void arange(const Call& call) {
  const View out = call.out();
  require(out.rank() == 1 && !is_complex(out.dtype), "a range of other than one dim of real numbers");
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T start = number<T>(call, 0, T(0)), step = number<T>(call, 2, T(1));
    std::vector<T> values;
    for (int64_t i = 0; i < out.size(0); ++i) values.push_back(start + static_cast<T>(i) * step);
    write(out, values);
  });
}

// Point i of n from start to end, from whichever end is nearer, as PyTorch counts them.
template <class T>
T point(const T& start, const T& end, int64_t i, int64_t n) {
  if (n == 1) return start;
  const T step = (end - start) / static_cast<T>(static_cast<Real>(n - 1));
  return i < n / 2 ? start + step * static_cast<T>(static_cast<Real>(i))
                   : end - step * static_cast<T>(static_cast<Real>(n - i - 1));
}

// Ends of integral outputs are integers; what lies between them is computed in double.
template <class F>
void spaced(const Call& call, F f) {
  const View out = call.out();
  require(out.rank() == 1 && out.size(0) == call.integer(2, 0),
          "the output has not as many elements as there are steps");
  const bool integral = is_integral(out.dtype);
  in_domain(is_complex(out.dtype) ? Domain::Complex : Domain::Real, [&](auto zero) {
    using T = decltype(zero);
    const auto end_of = [&](uint32_t i) {
      const T value = number<T>(call, i, T(0));
      return integral ? T(std::trunc(std::real(value))) : value;
    };
    const T start = end_of(0), end = end_of(1);
    std::vector<T> values;
    for (int64_t i = 0; i < out.size(0); ++i) values.push_back(f(point(start, end, i, out.size(0))));
    write(out, values);
  });
}
// (start, end, steps)
void linspace(const Call& call) {
  spaced(call, [](const auto& exponent) { return exponent; });
}
// (start, end, steps, base)
void logspace(const Call& call) {
  const Real base = call.real(3, 10);
  require(!is_integral(call.out().dtype), "a logarithmic space of integers");
  spaced(call, [base](const auto& exponent) { return std::pow(std::decay_t<decltype(exponent)>(base), exponent); });
}

// (n) or (n, m); the output has their sizes.
void eye(const Call& call) {
  const View out = call.out();
  const int64_t rows = call.integer(0, 0);
  require(out.shape == Dims{rows, call.integer(1, rows)}, "the output has not the identity's shape");
  std::vector<Int> values;
  for (Walk walk(out.shape, {}); walk; walk.next()) values.push_back(walk.index()[0] == walk.index()[1]);
  write(out, values);
}

// (row, col, offset, *, dtype, ...): rows, then columns of the elements below (above) a diagonal, it included.
template <bool upper>
std::vector<Int> triangle_indices(const Call& call) {
  const int64_t rows = call.integer(0, 0), columns = call.integer(1, 0), offset = call.integer(2, 0);
  require(rows >= 0 && columns >= 0, "a triangle of negative size");
  std::vector<Int> of_rows, of_columns;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (upper ? c - r >= offset : c - r <= offset) {
        of_rows.push_back(r);
        of_columns.push_back(c);
      }
  of_rows.insert(of_rows.end(), of_columns.begin(), of_columns.end());
  return of_rows;
}
template <bool upper>
std::vector<Result> triangle_sizing(const Call& call) {
  const auto n = static_cast<int64_t>(triangle_indices<upper>(call).size()) / 2;
  const ral_value* dtype = call.value(3);
  return {{dtype && dtype->tag == RAL_VALUE_DTYPE ? dtype->dtype : RAL_INT64, {2, n}, {std::max<int64_t>(n, 1), 1}}};
}
template <bool upper>
void triangle(const Call& call) {
  const View out = call.out();
  const std::vector<Int> indices = triangle_indices<upper>(call);
  require(out.shape == Dims{2, static_cast<int64_t>(indices.size()) / 2}, "the output has not the triangle's size");
  write(out, indices);
}

}  // namespace

std::vector<Entry> factory_ops() {
  return {
      {"aten::arange.start_out", kernel<arange>},
      {"aten::linspace.out", kernel<linspace>},
      {"aten::logspace.out", kernel<logspace>},
      {"aten::eye.out", kernel<eye>},
      {"aten::eye.m_out", kernel<eye>},
      {"aten::tril_indices", kernel<triangle<false>>, sizing<triangle_sizing<false>>},
      {"aten::triu_indices", kernel<triangle<true>>, sizing<triangle_sizing<true>>},
  };
}

}  // namespace ral::reference
