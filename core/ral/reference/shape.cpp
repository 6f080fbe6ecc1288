// Operators that only move elements: joining, mirroring, rolling, padding, triangles.
#include "internal.h"

namespace ral::reference {
namespace {

// Elements of one view into another of the same shape, converted where the dtypes differ.
void move(const View& from, const View& to) {
  require(from.shape == to.shape, "shapes differ");
  in_domain(domain_of(from.dtype), [&](auto zero) {
    using T = decltype(zero);
    write(to, read<T>(from));
  });
}

// The part of a view from `start`, `size` long, along one dim.
View narrowed(View view, int dim, int64_t start, int64_t size) {
  view.data += start * view.strides[dim];
  view.shape[dim] = size;
  return view;
}

void cat(const Call& call) {
  const View out = call.out();
  std::vector<View> parts;
  for (const std::optional<View>& view : call.tensors(0)) {
    require(view.has_value(), "a tensor of the list is absent");
    if (!(view->rank() == 1 && view->count() == 0)) parts.push_back(*view);  // an old form of nothing
  }
  const int dim = wrap_dim(call.integer(1, 0), out.rank());
  int64_t end = 0;
  for (const View& part : parts) {
    require(part.rank() == out.rank() && out.rank() > 0, "the tensors' ranks differ");
    end += part.size(dim);
    require(end <= out.size(dim) && narrowed(out, dim, 0, part.size(dim)).shape == part.shape, "shapes do not join");
  }
  int64_t start = 0;
  for (const View& part : parts) {
    move(part, narrowed(out, dim, start, part.size(dim)));
    start += part.size(dim);
  }
}

void stack(const Call& call) {
  const View out = call.out();
  const std::vector<std::optional<View>> parts = call.tensors(0);
  const int dim = wrap_dim(call.integer(1, 0), out.rank());
  std::vector<bool> mask(out.rank(), false);
  mask[dim] = true;
  for (const std::optional<View>& part : parts)
    require(part && part->shape == without(out, mask).shape, "shapes do not stack");
  for (size_t i = 0; i < parts.size(); ++i)
    move(*parts[i], without(narrowed(out, dim, static_cast<int64_t>(i), 1), mask));
}

void flip(const Call& call) {
  View in = call.tensor(0);
  const Dims dims = call.ints(1);
  if (!dims.empty() && in.count() > 0) {
    const std::vector<bool> mask = dim_mask(dims, in.rank());
    for (int d = 0; d < in.rank(); ++d) {
      if (!mask[d]) continue;
      in.data += in.strides[d] * (in.shape[d] - 1);
      in.strides[d] = -in.strides[d];
    }
  }
  move(in, call.out());
}

int64_t wrapped(int64_t i, int64_t n) { return (i % n + n) % n; }

// Without dims the shift is along the flattened tensor.
void roll(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Dims shifts = call.ints(1), dims = call.ints(2);
  require(dims.empty() ? shifts.size() == 1 : shifts.size() == dims.size(), "shifts and dims differ in number");
  if (in.count() == 0) return;
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> from = read<T>(in);
    std::vector<T> to(from.size());
    const int64_t n = in.count();
    if (dims.empty()) {
      for (int64_t i = 0; i < n; ++i) to[wrapped(i + shifts[0], n)] = from[i];
      return write(out, to);
    }
    Dims shift(in.rank(), 0);
    for (size_t i = 0; i < dims.size(); ++i)
      if (in.rank() > 0) shift[wrap_dim(dims[i], in.rank())] += shifts[i];
    const Dims unit = dense_strides(in.shape);
    size_t i = 0;
    for (Walk walk(in.shape, {}); walk; walk.next()) {
      int64_t place = 0;
      for (int d = 0; d < in.rank(); ++d) place += wrapped(walk.index()[d] + shift[d], in.size(d)) * unit[d];
      to[place] = from[i++];
    }
    write(out, to);
  });
}

// The source index of a padded position along one dim; -1: the constant.
using Border = int64_t (*)(int64_t i, int64_t n);
int64_t constant(int64_t i, int64_t n) { return i < 0 || i >= n ? -1 : i; }
int64_t replicated(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
int64_t reflected(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

// `pad`: before and after, from the last dim on; negative ones cut.
template <Border border>
void pad(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const Dims pads = call.ints(1);
  require(pads.size() % 2 == 0 && pads.size() / 2 <= in.shape.size(), "pads do not fit the rank");
  require(border == constant || in.count() > 0, "a border of no elements");
  Dims before(in.rank(), 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const size_t d = in.shape.size() - 1 - i;
    before[d] = pads[2 * i];
    if (out.shape[d] != in.shape[d] + pads[2 * i] + pads[2 * i + 1]) refuse("pads do not give the output's shape");
    require(border != reflected || (pads[2 * i] < in.shape[d] && pads[2 * i + 1] < in.shape[d]),
            "a reflection too wide");
  }
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T fill = border == constant ? number<T>(call, 2, T(0)) : T(0);
    const std::vector<T> from = read<T>(in);
    const Dims unit = dense_strides(in.shape);
    std::vector<T> to;
    for (Walk walk(out.shape, {}); walk; walk.next()) {
      int64_t place = 0;
      for (int d = 0; d < in.rank() && place >= 0; ++d) {
        const int64_t i = border(walk.index()[d] - before[d], in.size(d));
        place = i < 0 ? -1 : place + i * unit[d];
      }
      to.push_back(place < 0 ? fill : from[place]);
    }
    write(out, to);
  });
}

template <bool upper>
void triangle(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  require(in.rank() >= 2, "a triangle of fewer than 2 dims");
  const int64_t diagonal = call.integer(1, 0);
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(in);
    size_t i = 0;
    for (Walk walk(in.shape, {}); walk; walk.next(), ++i) {
      const int64_t off = walk.index()[in.rank() - 1] - walk.index()[in.rank() - 2];
      if (upper ? off < diagonal : off > diagonal) values[i] = T(0);
    }
    write(out, values);
  });
}

void repeat(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  View wide = in;
  while (wide.rank() < out.rank()) {
    wide.shape.insert(wide.shape.begin(), 1);
    wide.strides.insert(wide.strides.begin(), 0);
  }
  require(wide.rank() == out.rank(), "fewer repeats than dims");
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    const Load<T> load = loader<T>(in.dtype);
    std::vector<T> to;
    for (Walk walk(out.shape, {}); walk; walk.next()) {
      int64_t offset = 0;
      for (int d = 0; d < out.rank(); ++d) offset += walk.index()[d] % wide.size(d) * wide.strides[d];
      to.push_back(load(in.data + offset));
    }
    write(out, to);
  });
}

}  // namespace

std::vector<Entry> shape_ops() {
  return {
      {"aten::cat", kernel<cat>},
      {"aten::stack", kernel<stack>},
      {"aten::flip", kernel<flip>},
      {"aten::roll", kernel<roll>},
      {"aten::repeat", kernel<repeat>},
      {"aten::constant_pad_nd", kernel<pad<constant>>},
      {"aten::reflection_pad1d", kernel<pad<reflected>>},
      {"aten::reflection_pad2d", kernel<pad<reflected>>},
      {"aten::reflection_pad3d", kernel<pad<reflected>>},
      {"aten::replication_pad1d", kernel<pad<replicated>>},
      {"aten::replication_pad2d", kernel<pad<replicated>>},
      {"aten::replication_pad3d", kernel<pad<replicated>>},
      {"aten::tril", kernel<triangle<false>>},
      {"aten::triu", kernel<triangle<true>>},
  };
}

}  // namespace ral::reference
