// What the products of dense operands and those of a sparse one share.
#pragma once
#include "internal.h"

namespace ral::reference {

// out = beta * added + alpha * product. beta 0 leaves `added` unread, NaN and all.
template <class T>
void finish(const View& out, std::vector<T> product, const std::optional<View>& added, const T& beta, const T& alpha) {
  require(static_cast<int64_t>(product.size()) == out.count(), "the output's shape is not the product's");
  for (T& v : product) v *= alpha;
  if (added && beta != T(0)) {
    const std::vector<T> other = read<T>(broadcast(*added, out.shape));
    for (size_t i = 0; i < product.size(); ++i) product[i] += beta * other[i];
  }
  write(out, product);
}

template <class F>
void in_output_domain(const Call& call, F f) {
  const View out = call.out();
  in_domain(domain_of(out.dtype), [&](auto zero) { f(out, zero); });
}

// Whether one of the two operands from argument `first` on is sparse: a list of its parts.
bool has_sparse_operand(const Call& call, uint32_t first);
// mm and mv: (a, b), one of them sparse.
void sparse_product(const Call& call);
// addmm and addmv: (self, a, b, *, beta, alpha), a or b sparse.
void sparse_product_added(const Call& call);

}  // namespace ral::reference
