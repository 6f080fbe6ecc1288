// Products of a sparse matrix (COO, CSR or CSC) and a dense matrix or vector: a sum over the elements that are stored.
#include "product.h"

namespace ral::reference {
namespace {

// The stored elements by their places, in any order; a place that is there twice counts twice, as in PyTorch.
template <class T>
struct Sparse {
  std::vector<Int> rows, columns;
  std::vector<T> values;
};

// COO: indices [2, n] and values [n].
template <class T>
Sparse<T> coordinates(const View& indices, const View& values) {
  require(indices.rank() == 2 && indices.size(0) == 2, "a sparse COO operand of other than 2 sparse dims");
  require(values.rank() == 1, "a sparse COO operand with dense dims");
  require(values.size(0) == indices.size(1), "the sparse operand has not as many indices as values");
  const std::vector<Int> all = read<Int>(indices);
  const auto half = all.begin() + values.size(0);
  return {{all.begin(), half}, {half, all.end()}, read<T>(values)};
}

// CSR: row r has the elements from pointers[r] to pointers[r + 1]. Of CSC this makes the transposed matrix.
template <class T>
Sparse<T> compressed(const View& pointers, const View& columns, const View& values) {
  require(pointers.rank() == 1 && pointers.size(0) > 0, "a batch of compressed sparse operands");
  require(values.rank() == 1 && columns.rank() == 1, "a compressed sparse operand with dense dims");
  Sparse<T> out{{}, read<Int>(columns), read<T>(values)};
  const std::vector<Int> starts = read<Int>(pointers);
  const auto n = static_cast<Int>(out.values.size());
  require(out.columns.size() == out.values.size(), "the sparse operand has not as many indices as values");
  require(starts.front() == 0 && starts.back() == n, "the row or column pointers do not cover the values");
  for (size_t r = 0; r + 1 < starts.size(); ++r) {
    require(starts[r] <= starts[r + 1] && starts[r + 1] <= n, "the row or column pointers do not ascend");
    out.rows.insert(out.rows.end(), starts[r + 1] - starts[r], static_cast<Int>(r));
  }
  return out;
}

bool is_sparse(const Call& call, uint32_t i) {
  const ral_value* value = call.value(i);
  return value && value->tag == RAL_VALUE_TENSOR_LIST;
}

template <class T>
Sparse<T> sparse(const Call& call, uint32_t i) {
  std::vector<std::optional<View>> parts = call.tensors(i);
  const bool by_column = parts.size() == 4 && !parts[0];
  if (by_column) parts.erase(parts.begin());
  for (const std::optional<View>& part : parts) require(part.has_value(), "a part of a sparse operand is absent");
  if (parts.size() == 2) return coordinates<T>(*parts[0], *parts[1]);
  require(parts.size() == 3, "a sparse operand of other than 2 parts (COO), 3 (CSR) or 4 (CSC)");
  Sparse<T> out = compressed<T>(*parts[0], *parts[1], *parts[2]);
  if (by_column) std::swap(out.rows, out.columns);
  return out;
}

// A vector, which is always the second operand, is a matrix of one column.
View as_matrix(View view) {
  if (view.rank() == 1) {
    view.shape.push_back(1);
    view.strides.push_back(0);
  }
  require(view.rank() == 2, "an operand is not a matrix");
  return view;
}

// The product of the operands at `first` and after it, row-major.
template <class T>
std::vector<T> product_of(const Call& call, uint32_t first, const View& out) {
  const bool left = is_sparse(call, first);
  require(!left || !is_sparse(call, first + 1), "a product of two sparse operands");
  const Sparse<T> s = sparse<T>(call, left ? first : first + 1);
  const View dense = as_matrix(call.tensor(left ? first + 1 : first)), result = as_matrix(out);
  const int64_t rows = result.size(0), columns = result.size(1), inner = dense.size(left ? 0 : 1);
  require(dense.size(left ? 1 : 0) == (left ? columns : rows), "the matrices' outer sizes are not the output's");
  const std::vector<T> d = read<T>(dense);
  std::vector<T> sums(rows * columns, T(0));
  for (size_t n = 0; n < s.values.size(); ++n) {
    const Int r = s.rows[n], c = s.columns[n];
    require(r >= 0 && r < (left ? rows : inner) && c >= 0 && c < (left ? inner : columns),
            "an index outside the sparse operand");
    if (left)
      for (int64_t j = 0; j < columns; ++j) sums[r * columns + j] += s.values[n] * d[c * columns + j];
    else
      for (int64_t i = 0; i < rows; ++i) sums[i * columns + c] += d[i * inner + r] * s.values[n];
  }
  return sums;
}

}  // namespace

bool has_sparse_operand(const Call& call, uint32_t first) {
  return is_sparse(call, first) || is_sparse(call, first + 1);
}

void sparse_product(const Call& call) {
  in_output_domain(call, [&](const View& out, auto zero) {
    using T = decltype(zero);
    finish<T>(out, product_of<T>(call, 0, out), {}, T(0), T(1));
  });
}

void sparse_product_added(const Call& call) {
  in_output_domain(call, [&](const View& out, auto zero) {
    using T = decltype(zero);
    finish<T>(out, product_of<T>(call, 1, out), call.tensor(0), number<T>(call, 3, T(1)), number<T>(call, 4, T(1)));
  });
}

}  // namespace ral::reference
