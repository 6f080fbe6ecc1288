// Gathers, scatters and indexing. Indices are all checked before anything is written.
#include <algorithm>
#include <map>

#include "internal.h"

namespace ral::reference {
namespace {

void check_index(Int i, int64_t n) {
  if (i < 0 || i >= n) refuse("index " + std::to_string(i) + " is out of range for size " + std::to_string(n));
}
std::vector<Int> read_indices(const View& view) {
  require(is_integral(view.dtype) && view.dtype != RAL_BOOL, "an index of other than integers");
  return read<Int>(view);
}

// Rank 0 as rank 1, as PyTorch takes it where it indexes a dim.
View at_least_1d(View view) {
  if (view.rank() == 0) {
    view.shape = {1};
    view.strides = {0};
  }
  return view;
}

// ---- gather and scatter --------------------------------------------------------------------------

// The row-major places in a tensor of `shape` that an index of gather or scatter names along `dim`.
std::vector<int64_t> named_places(const Dims& shape, int dim, const View& index) {
  require(index.shape.size() == shape.size(), "the index' rank is not the tensor's");
  for (size_t d = 0; d < shape.size(); ++d)
    require(static_cast<int>(d) == dim || index.shape[d] <= shape[d], "the index is larger than the tensor");
  const std::vector<Int> indices = read_indices(index);
  const Dims unit = dense_strides(shape);
  std::vector<int64_t> places;
  for (Walk walk(index.shape, {}); walk; walk.next()) {
    const Int named = indices[places.size()];
    check_index(named, shape[dim]);
    int64_t place = named * unit[dim];
    for (size_t d = 0; d < shape.size(); ++d)
      if (static_cast<int>(d) != dim) place += walk.index()[d] * unit[d];
    places.push_back(place);
  }
  return places;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& values, const std::vector<int64_t>& places) {
  std::vector<T> out;
  for (const int64_t place : places) out.push_back(values[place]);
  return out;
}

void gather(const Call& call) {
  const View in = at_least_1d(call.tensor(0)), index = at_least_1d(call.tensor(2));
  if (index.count() == 0) return;
  const std::vector<int64_t> places = named_places(in.shape, wrap_dim(call.integer(1, 0), in.rank()), index);
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    write(call.out(), chosen(read<T>(in), places));
  });
}

// How a scatter joins a new value to what is there.
struct Replace {
  template <class T>
  static T join(const T&, const T& next) {
    return next;
  }
};
struct Add {
  template <class T>
  static T join(const T& old, const T& next) {
    return old + next;
  }
};
struct Multiply {
  template <class T>
  static T join(const T& old, const T& next) {
    return old * next;
  }
};
template <bool largest>
struct Extremum {
  template <class T>
  static T join(const T& old, const T& next) {
    if constexpr (std::is_same_v<T, Complex>)
      refuse("an order of complex numbers");
    else
      return is_nan(old) || (!is_nan(next) && (largest ? old >= next : old <= next)) ? old : next;
  }
};

// The source of a scatter: the part of a tensor as large as the index, or one number.
template <class T>
std::vector<T> source(const Call& call, uint32_t argument, const View& index) {
  if (!call.is_tensor(argument) || (call.tensor(argument).rank() == 0 && call.value(argument)->tag != RAL_VALUE_TENSOR))
    return std::vector<T>(index.count(), number<T>(*call.value(argument)));
  View view = at_least_1d(call.tensor(argument));
  require(view.rank() == index.rank(), "the source's rank is not the index'");
  for (int d = 0; d < view.rank(); ++d) require(index.size(d) <= view.size(d), "the source is smaller than the index");
  view.shape = index.shape;
  return read<T>(view);
}

template <class J>
void scatter_with(const Call& call) {
  const View in = at_least_1d(call.tensor(0)), index = at_least_1d(call.tensor(2)), out = at_least_1d(call.out());
  const std::vector<int64_t> places = index.count() == 0
                                          ? std::vector<int64_t>()
                                          : named_places(in.shape, wrap_dim(call.integer(1, 0), in.rank()), index);
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in);
    if (!places.empty()) {
      const std::vector<T> from = source<T>(call, 3, index);
      for (size_t i = 0; i < places.size(); ++i) values[places[i]] = J::join(values[places[i]], from[i]);
    }
    write(out, values);
  });
}

// scatter.reduce and scatter.value_reduce: (self, dim, index, src, *, reduce).
void scatter_named(const Call& call) {
  const std::string reduce = call.string(4, "");
  if (reduce == "add") return scatter_with<Add>(call);
  if (reduce == "multiply") return scatter_with<Multiply>(call);
  refuse("reduce \"" + reduce + "\"");
}

// scatter_reduce.two: (self, dim, index, src, reduce, *, include_self). Each place's sources are collected first.
template <class T>
T collected(const std::string& reduce, const std::vector<T>& values) {
  T so_far = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (reduce == "sum" || reduce == "mean") so_far = Add::join(so_far, values[i]);
    if (reduce == "prod") so_far = Multiply::join(so_far, values[i]);
    if (reduce == "amax") so_far = Extremum<true>::join(so_far, values[i]);
    if (reduce == "amin") so_far = Extremum<false>::join(so_far, values[i]);
  }
  if (reduce != "mean") return so_far;
  const T n = T(static_cast<Int>(values.size()));
  if constexpr (std::is_same_v<T, Int>)
    return so_far / n - (so_far % n < 0);  // rounds down
  else
    return so_far / n;
}

void scatter_reduce(const Call& call) {
  const std::string reduce = call.string(4, "");
  const std::vector<std::string> known = {"sum", "prod", "mean", "amax", "amin"};
  if (std::find(known.begin(), known.end(), reduce) == known.end()) refuse("reduce \"" + reduce + "\"");
  const View in = at_least_1d(call.tensor(0)), index = at_least_1d(call.tensor(2)), out = at_least_1d(call.out());
  const bool include_self = call.flag(5, true);
  std::vector<int64_t> places;
  if (index.count() > 0) places = named_places(in.shape, wrap_dim(call.integer(1, 0), in.rank()), index);
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in);
    std::map<int64_t, std::vector<T>> parts;
    const std::vector<T> from = places.empty() ? std::vector<T>() : source<T>(call, 3, index);
    for (size_t i = 0; i < places.size(); ++i) {
      std::vector<T>& part = parts[places[i]];
      if (part.empty() && include_self) part.push_back(values[places[i]]);
      part.push_back(from[i]);
    }
    for (const auto& [place, part] : parts) values[place] = collected(reduce, part);
    write(out, values);
  });
}

// ---- One index vector along a dim ----------------------------------------------------------------

// Row-major places of the slices that an index vector names: those of tensor[.., index, ..].
std::vector<int64_t> slice_places(const Dims& shape, int dim, const View& index) {
  require(index.rank() <= 1, "an index of more than 1 dim");
  const std::vector<Int> indices = read_indices(index);
  for (const Int i : indices) check_index(i, shape[dim]);
  Dims result = shape;
  result[dim] = static_cast<int64_t>(indices.size());
  const Dims unit = dense_strides(shape);
  std::vector<int64_t> places;
  for (Walk walk(result, {}); walk; walk.next()) {
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      place += (static_cast<int>(d) == dim ? indices[walk.index()[d]] : walk.index()[d]) * unit[d];
    places.push_back(place);
  }
  return places;
}

void index_select(const Call& call) {
  const View in = at_least_1d(call.tensor(0));
  const std::vector<int64_t> places = slice_places(in.shape, wrap_dim(call.integer(1, 0), in.rank()), call.tensor(2));
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    write(call.out(), chosen(read<T>(in), places));
  });
}

// index_add, index_copy, index_fill: (self, dim, index, source or value, *, alpha).
template <class J>
void index_join(const Call& call) {
  const View in = at_least_1d(call.tensor(0)), out = at_least_1d(call.out());
  const std::vector<int64_t> places = slice_places(in.shape, wrap_dim(call.integer(1, 0), in.rank()), call.tensor(2));
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in), from;
    const T alpha = number<T>(call, 4, T(1));
    if (call.is_tensor(3))
      from = read<T>(call.tensor(3));
    else
      from = {number<T>(*call.value(3))};
    require(from.size() == places.size() || from.size() == 1, "the source's shape is not that of the slices");
    for (size_t i = 0; i < places.size(); ++i)
      values[places[i]] = J::join(values[places[i]], alpha * from[from.size() == 1 ? 0 : i]);
    write(out, values);
  });
}

// (weight, indices, padding_idx, scale_grad_by_freq, sparse)
void embedding(const Call& call) {
  const View weight = call.tensor(0);
  require(weight.rank() == 2, "a weight that is not a matrix");
  View flat = call.tensor(1);
  const std::vector<Int> indices = read_indices(flat);
  for (const Int i : indices) check_index(i, weight.size(0));
  in_domain(domain_of(weight.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> rows = read<T>(weight);
    std::vector<T> out;
    for (const Int i : indices)
      out.insert(out.end(), rows.begin() + i * weight.size(1), rows.begin() + (i + 1) * weight.size(1));
    write(call.out(), out);
  });
}

// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
void embedding_backward(const Call& call) {
  const View out = call.out();
  const std::vector<Int> indices = read_indices(call.tensor(1));
  const Int padding = call.integer(3, -1);
  for (const Int i : indices) check_index(i, out.size(0));
  std::map<Int, Int> uses;
  if (call.flag(4, false))
    for (const Int i : indices) ++uses[i];
  const std::vector<Real> grads = read<Real>(call.tensor(0));
  std::vector<Real> sums(out.count(), 0);
  const int64_t width = out.size(1);
  for (size_t n = 0; n < indices.size(); ++n) {
    if (indices[n] == padding) continue;
    const Real scale = uses.empty() ? 1 : 1 / static_cast<Real>(uses[indices[n]]);
    for (int64_t j = 0; j < width; ++j) sums[indices[n] * width + j] += scale * grads[n * width + j];
  }
  write(out, sums);
}

// ---- index.Tensor and index_put ------------------------------------------------------------------

struct Index {
  std::vector<Int> values;  // row-major over `shape`, not negative
  Dims shape;
};

// A mask counts for as many dims as it has: the places of its true elements along each.
std::vector<Index> from_mask(const View& mask) {
  std::vector<Index> out(mask.rank());
  const std::vector<Int> truth = read<Int>(mask);
  size_t i = 0;
  for (Walk walk(mask.shape, {}); walk; walk.next())
    if (truth[i++] != 0)
      for (int d = 0; d < mask.rank(); ++d) out[d].values.push_back(walk.index()[d]);
  for (Index& one : out) one.shape = {static_cast<int64_t>(one.values.size())};
  return out;
}

struct Indexing {
  Dims shape;                   // of the result
  std::vector<int64_t> places;  // of its elements in the tensor, row-major
};

// One entry for each dim that is indexed or passed over.
std::vector<std::optional<Index>> per_dim(const View& in, const std::vector<std::optional<View>>& list) {
  std::vector<std::optional<Index>> dims;
  for (const std::optional<View>& given : list) {
    if (!given) {
      dims.push_back(std::nullopt);
    } else if (given->dtype == RAL_BOOL || given->dtype == RAL_UINT8) {
      require(given->rank() > 0, "a mask without dims");
      for (int d = 0; d < given->rank(); ++d)
        require(dims.size() + d < in.shape.size() && given->size(d) == in.size(static_cast<int>(dims.size()) + d),
                "a mask's shape is not the tensor's");
      for (Index& one : from_mask(*given)) dims.push_back(std::move(one));
    } else {
      dims.push_back(Index{read_indices(*given), given->shape});
    }
  }
  require(dims.size() <= in.shape.size(), "more indices than dims");
  dims.resize(in.shape.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d]) continue;
    for (Int& i : dims[d]->values) {
      if (i < 0) i += in.shape[d];
      check_index(i, in.shape[d]);
    }
  }
  return dims;
}

Dims broadcast_shape(const std::vector<std::optional<Index>>& dims) {
  Dims shape;
  for (const std::optional<Index>& one : dims) {
    if (!one) continue;
    while (shape.size() < one->shape.size()) shape.insert(shape.begin(), 1);
    const size_t added = shape.size() - one->shape.size();
    for (size_t d = 0; d < one->shape.size(); ++d) {
      int64_t& n = shape[added + d];
      require(n == one->shape[d] || n == 1 || one->shape[d] == 1, "the indices do not broadcast");
      if (n == 1) n = one->shape[d];
    }
  }
  return shape;
}

Indexing indexing(const View& in, const std::vector<std::optional<View>>& list) {
  const std::vector<std::optional<Index>> dims = per_dim(in, list);
  const Dims shared = broadcast_shape(dims), unit = dense_strides(in.shape);
  std::vector<int64_t> base(product(shared), 0);
  int first = -1, last = -1, indexed = 0;
  for (int d = 0; d < in.rank(); ++d) {
    if (!dims[d]) continue;
    first = first < 0 ? d : first;
    last = d;
    ++indexed;
    const View named{nullptr, RAL_INT64, dims[d]->shape, dense_strides(dims[d]->shape)};
    size_t i = 0;
    for (Walk walk(shared, {broadcast(named, shared).strides}); walk; walk.next())
      base[i++] += dims[d]->values[walk[0]] * unit[d];
  }
  require(indexed > 0, "no index is given");
  // The indexed dims' place in the result: where they stand if side by side, else in front.
  const int at = last - first + 1 == indexed ? first : 0;
  Dims shape, strides, base_strides;
  const Dims shared_unit = dense_strides(shared);
  const auto append_shared = [&] {
    shape.insert(shape.end(), shared.begin(), shared.end());
    strides.insert(strides.end(), shared.size(), 0);
    base_strides.insert(base_strides.end(), shared_unit.begin(), shared_unit.end());
  };
  if (at == 0) append_shared();
  for (int d = 0; d < in.rank(); ++d) {
    if (at > 0 && d == at) append_shared();
    if (dims[d]) continue;
    shape.push_back(in.size(d));
    strides.push_back(unit[d]);
    base_strides.push_back(0);
  }
  Indexing result{shape, {}};
  for (Walk walk(shape, {strides, base_strides}); walk; walk.next()) result.places.push_back(walk[0] + base[walk[1]]);
  return result;
}

void index(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Indexing named = indexing(in, call.tensors(1));
  if (named.shape != out.shape)
    refuse("the indices give shape " + text(named.shape) + ", the output has " + text(out.shape));
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    write(out, chosen(read<T>(in), named.places));
  });
}

// (self, indices, values, accumulate)
void index_put(const Call& call) {
  const View in = call.tensor(0);
  const Indexing named = indexing(in, call.tensors(1));
  const View source = broadcast(call.tensor(2), named.shape);
  const bool accumulate = call.flag(3, false);
  in_domain(domain_of(call.out().dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in);
    const std::vector<T> from = read<T>(source);
    for (size_t i = 0; i < from.size(); ++i) {
      T& to = values[named.places[i]];
      to = accumulate ? to + from[i] : from[i];
    }
    write(call.out(), values);
  });
}

// masked_scatter: (self, mask, source): the source's elements in turn.
void masked_scatter(const Call& call) {
  const View out = call.out();
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(broadcast(call.tensor(0), out.shape));
    const std::vector<Int> mask = read<Int>(broadcast(call.tensor(1), out.shape));
    const std::vector<T> from = read<T>(call.tensor(2));
    size_t next = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (mask[i] == 0) continue;
      require(next < from.size(), "the source has fewer elements than the mask");
      values[i] = from[next++];
    }
    write(out, values);
  });
}

// take: (self, index) into the flattened tensor; negative indices count from the end.
void take(const Call& call) {
  const View in = call.tensor(0);
  std::vector<Int> indices = read_indices(call.tensor(1));
  for (Int& i : indices) {
    if (i < 0) i += in.count();
    check_index(i, in.count());
  }
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    write(call.out(), chosen(read<T>(in), indices));
  });
}

}  // namespace

std::vector<Entry> index_ops() {
  return {
      {"aten::gather", kernel<gather>},
      {"aten::scatter.src", kernel<scatter_with<Replace>>},
      {"aten::scatter.value", kernel<scatter_with<Replace>>},
      {"aten::scatter.reduce", kernel<scatter_named>},
      {"aten::scatter.value_reduce", kernel<scatter_named>},
      {"aten::scatter_add", kernel<scatter_with<Add>>},
      {"aten::scatter_reduce.two", kernel<scatter_reduce>},
      {"aten::index_select", kernel<index_select>},
      {"aten::index_add", kernel<index_join<Add>>},
      {"aten::index_copy", kernel<index_join<Replace>>},
      {"aten::index_fill.int_Scalar", kernel<index_join<Replace>>},
      {"aten::index_fill.int_Tensor", kernel<index_join<Replace>>},
      {"aten::index.Tensor", kernel<index>},
      {"aten::_unsafe_index.Tensor", kernel<index>},
      {"aten::index_put", kernel<index_put>},
      {"aten::_index_put_impl", kernel<index_put>},
      {"aten::_unsafe_index_put", kernel<index_put>},
      {"aten::masked_scatter", kernel<masked_scatter>},
      {"aten::take", kernel<take>},
      {"aten::embedding", kernel<embedding>},
      {"aten::embedding_dense_backward", kernel<embedding_backward>},
  };
}

}  // namespace ral::reference
