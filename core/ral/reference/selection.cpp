// Operators whose results' sizes depend on their arguments' values: places of what is not zero, masked elements, distinct
// elements. A sizing says what the kernel then fills.
#include <algorithm>
#include <numeric>

#include "internal.h"

namespace ral::reference {
namespace {

Result dense(ral_dtype dtype, Dims shape) {
  Dims strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  return {dtype, std::move(shape), std::move(strides)};
}

void require_size(int64_t found, const View& out, int64_t wanted) {
  if (found != wanted)
    refuse("the output " + text(out.shape) + " has no room for " + std::to_string(wanted) + " elements");
}

// Whether each element is true, row-major.
std::vector<bool> truths(const View& view) {
  std::vector<bool> out;
  in_domain(domain_of(view.dtype), [&](auto zero) {
    using T = decltype(zero);
    for (const T& v : read<T>(view)) out.push_back(v != T(0));
  });
  return out;
}
int64_t count(const std::vector<bool>& truths) { return std::count(truths.begin(), truths.end(), true); }

// ---- Places of what is not zero ------------------------------------------------------------------

// (self): one row of indices an element, laid out column after column as PyTorch does.
std::vector<Result> nonzero_sizing(const Call& call) {
  const View in = call.tensor(0);
  const int64_t n = count(truths(in));
  Result out{RAL_INT64, {n, in.rank()}, {1, n}};
  return {out};
}
void nonzero(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const std::vector<bool> chosen = truths(in);
  require(out.rank() == 2 && out.size(1) == in.rank(), "the output is not a row of indices for each element");
  require_size(out.size(0), out, count(chosen));
  std::vector<Int> rows;
  size_t i = 0;
  for (Walk walk(in.shape, {}); walk; walk.next())
    if (chosen[i++]) rows.insert(rows.end(), walk.index().begin(), walk.index().end());
  write(out, rows);
}

// ---- Masked elements -----------------------------------------------------------------------------

// (self, mask), broadcast against each other.
struct Masked {
  View in;
  std::vector<bool> chosen;
};
Masked masked(const Call& call) {
  const View in = call.tensor(0), mask = call.tensor(1);
  require(mask.dtype == RAL_BOOL, "a mask of other than bool");
  const View &longer = in.rank() < mask.rank() ? mask : in, &shorter = in.rank() < mask.rank() ? in : mask;
  Dims shape = longer.shape;
  const int before = longer.rank() - shorter.rank();
  for (int d = 0; d < shorter.rank(); ++d)
    if (shape[before + d] == 1) shape[before + d] = shorter.shape[d];
  return {broadcast(in, shape), truths(broadcast(mask, shape))};
}
std::vector<Result> masked_select_sizing(const Call& call) {
  const Masked m = masked(call);
  return {dense(m.in.dtype, {count(m.chosen)})};
}
void masked_select(const Call& call) {
  const Masked m = masked(call);
  const View out = call.out();
  require(out.rank() == 1, "the output is not a vector");
  require_size(out.size(0), out, count(m.chosen));
  in_domain(domain_of(m.in.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> all = read<T>(m.in);
    std::vector<T> kept;
    for (size_t i = 0; i < all.size(); ++i)
      if (m.chosen[i]) kept.push_back(all[i]);
    write(out, kept);
  });
}

// ---- Distinct elements ---------------------------------------------------------------------------

template <class T>
struct Distinct {
  std::vector<T> values;
  std::vector<Int> inverse, counts;  // inverse: of each element, its place among the values
};

// Ascending; each NaN is distinct, after all numbers.
template <class T>
Distinct<T> distinct(const std::vector<T>& all) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return is_nan(all[b]) ? !is_nan(all[a]) : all[a] < all[b]; });
  Distinct<T> out{{}, std::vector<Int>(all.size()), {}};
  for (const size_t i : order) {
    if (out.values.empty() || !(out.values.back() == all[i])) {
      out.values.push_back(all[i]);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[i] = static_cast<Int>(out.values.size()) - 1;
  }
  return out;
}

template <class F>
void in_ordered_domain(const View& in, F f) {
  require(!is_complex(in.dtype), "an order of complex numbers");
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Complex>) f(distinct(read<T>(in)));
  });
}

// _unique2: (self, sorted, return_inverse, return_counts); what is not asked for is empty.
std::vector<Result> unique_sizing(const Call& call) {
  const View in = call.tensor(0);
  int64_t n = 0;
  in_ordered_domain(in, [&](const auto& found) { n = static_cast<int64_t>(found.values.size()); });
  return {dense(in.dtype, {n}), dense(RAL_INT64, call.flag(2, false) ? in.shape : Dims{0}),
          dense(RAL_INT64, {call.flag(3, false) ? n : 0})};
}
void unique(const Call& call) {
  const View in = call.tensor(0), values = call.out(0), inverse = call.out(1), counts = call.out(2);
  in_ordered_domain(in, [&](const auto& found) {
    const auto n = static_cast<int64_t>(found.values.size());
    require_size(values.count(), values, n);
    require_size(inverse.count(), inverse, call.flag(2, false) ? in.count() : 0);
    require_size(counts.count(), counts, call.flag(3, false) ? n : 0);
    write(values, found.values);
    if (call.flag(2, false)) write(inverse, found.inverse);
    if (call.flag(3, false)) write(counts, found.counts);
  });
}

}  // namespace

std::vector<Entry> selection_ops() {
  return {
      {"aten::nonzero", kernel<nonzero>, sizing<nonzero_sizing>},
      {"aten::masked_select", kernel<masked_select>, sizing<masked_select_sizing>},
      {"aten::_unique2", kernel<unique>, sizing<unique_sizing>},
  };
}

}  // namespace ral::reference
