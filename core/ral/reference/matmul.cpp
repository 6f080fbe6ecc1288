// Matrix and vector products, of dense operands here; with one sparse operand, see sparse.cpp. Everything is computed
// before anything is written: an output may be an operand too.
#include "product.h"

namespace ral::reference {
namespace {

template <class T>
struct Matrix {
  std::vector<T> values;
  int64_t rows, columns;
};

template <class T>
Matrix<T> matrix(const View& view) {
  require(view.rank() == 2, "an operand is not a matrix");
  return {read<T>(view), view.size(0), view.size(1)};
}

// Products are summed in T: double for all real floating types, wrapping integers.
template <class T>
Matrix<T> multiply(const Matrix<T>& a, const Matrix<T>& b) {
  require(a.columns == b.rows, "the matrices' inner sizes differ");
  Matrix<T> c{std::vector<T>(a.rows * b.columns, T(0)), a.rows, b.columns};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t j = 0; j < b.columns; ++j)
        c.values[i * b.columns + j] += a.values[i * a.columns + k] * b.values[k * b.columns + j];
  return c;
}

View as_batch(View view) {
  if (view.rank() == 2) {
    view.shape.insert(view.shape.begin(), 1);
    view.strides.insert(view.strides.begin(), 0);
  }
  require(view.rank() == 3, "an operand is not a batch of matrices");
  return view;
}
View at(const View& batch, int64_t i) {
  View one = pick(batch, {1, 2});
  one.data += i * batch.strides[0];
  return one;
}
// A vector as a matrix of one row or one column.
View row(const View& v) {
  require(v.rank() == 1, "an operand is not a vector");
  return {v.data, v.dtype, {1, v.size(0)}, {0, v.strides[0]}};
}
View column(const View& v) {
  require(v.rank() == 1, "an operand is not a vector");
  return {v.data, v.dtype, {v.size(0), 1}, {v.strides[0], 0}};
}

// The products of two batches, row-major.
template <class T>
std::vector<T> products(const View& a, const View& b) {
  require(a.size(0) == b.size(0), "the batches' sizes differ");
  std::vector<T> all;
  for (int64_t i = 0; i < a.size(0); ++i) {
    const Matrix<T> c = multiply(matrix<T>(at(a, i)), matrix<T>(at(b, i)));
    all.insert(all.end(), c.values.begin(), c.values.end());
  }
  return all;
}

template <class T>
void conjugate(std::vector<T>& values) {
  if constexpr (std::is_same_v<T, Complex>)
    for (T& v : values) v = std::conj(v);
}

// How two operands become batches of matrices.
using Shaper = View (*)(const View& view);
View batch(const View& v) { return as_batch(v); }
View row_batch(const View& v) { return as_batch(row(v)); }
View column_batch(const View& v) { return as_batch(column(v)); }

template <Shaper left, Shaper right, bool conjugated = false>
void plain(const Call& call) {
  if (has_sparse_operand(call, 0)) return sparse_product(call);
  in_output_domain(call, [&](const View& out, auto zero) {
    using T = decltype(zero);
    const View a = left(call.tensor(0)), b = right(call.tensor(1));
    if (!conjugated) return finish<T>(out, products<T>(a, b), {}, T(0), T(1));
    Matrix<T> first = matrix<T>(at(a, 0));
    conjugate(first.values);
    finish<T>(out, multiply(first, matrix<T>(at(b, 0))).values, {}, T(0), T(1));
  });
}

// addmm and its like: (self, a, b, *, beta, alpha).
template <Shaper left, Shaper right>
void added(const Call& call) {
  if (has_sparse_operand(call, 1)) return sparse_product_added(call);
  in_output_domain(call, [&](const View& out, auto zero) {
    using T = decltype(zero);
    finish<T>(out, products<T>(left(call.tensor(1)), right(call.tensor(2))), call.tensor(0), number<T>(call, 3, T(1)),
              number<T>(call, 4, T(1)));
  });
}

// addbmm: the products of the batch summed.
void added_sum(const Call& call) {
  in_output_domain(call, [&](const View& out, auto zero) {
    using T = decltype(zero);
    const std::vector<T> all = products<T>(batch(call.tensor(1)), batch(call.tensor(2)));
    std::vector<T> sum(out.count(), T(0));
    for (size_t i = 0; i < all.size(); ++i) sum[i % sum.size()] += all[i];
    finish<T>(out, sum, call.tensor(0), number<T>(call, 3, T(1)), number<T>(call, 4, T(1)));
  });
}

}  // namespace

std::vector<Entry> matmul_ops() {
  return {
      {"aten::mm", kernel<plain<batch, batch>>},
      {"aten::bmm", kernel<plain<batch, batch>>},
      {"aten::mv", kernel<plain<batch, column_batch>>},
      {"aten::dot", kernel<plain<row_batch, column_batch>>},
      {"aten::vdot", kernel<plain<row_batch, column_batch, true>>},
      {"aten::addmm", kernel<added<batch, batch>>},
      {"aten::baddbmm", kernel<added<batch, batch>>},
      {"aten::addmv", kernel<added<batch, column_batch>>},
      {"aten::addr", kernel<added<column_batch, row_batch>>},
      {"aten::addbmm", kernel<added_sum>},
  };
}

}  // namespace ral::reference
