// Strided views of tensors and the walk over several of them.
#include "internal.h"

namespace ral::reference {

int64_t product(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

Dims dense_strides(const Dims& shape, int64_t unit) {
  Dims strides(shape.size());
  for (size_t d = shape.size(); d-- > 0; unit *= shape[d]) strides[d] = unit;
  return strides;
}

std::string text(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}

View broadcast(const View& view, const Dims& shape) {
  View out{view.data, view.dtype, shape, Dims(shape.size(), 0)};
  const int added = static_cast<int>(shape.size()) - view.rank();
  if (added < 0) refuse("shape " + text(view.shape) + " does not broadcast to " + text(shape));
  for (int d = 0; d < view.rank(); ++d) {
    if (view.shape[d] == shape[added + d]) {
      out.strides[added + d] = view.strides[d];
    } else if (view.shape[d] != 1) {
      refuse("shape " + text(view.shape) + " does not broadcast to " + text(shape));
    }
  }
  return out;
}

View pick(const View& view, const std::vector<int>& dims) {
  View out{view.data, view.dtype, {}, {}};
  for (const int d : dims) {
    out.shape.push_back(view.shape[d]);
    out.strides.push_back(view.strides[d]);
  }
  return out;
}

View without(const View& view, const std::vector<bool>& dims) {
  std::vector<int> kept;
  for (int d = 0; d < view.rank(); ++d)
    if (!dims[d]) kept.push_back(d);
  return pick(view, kept);
}

View split(const View& view, int dim, int64_t parts) {
  View out = view;
  require(parts > 0 && view.shape[dim] % parts == 0, "a dimension does not divide into its groups");
  const int64_t each = view.shape[dim] / parts;
  out.shape[dim] = each;
  out.shape.insert(out.shape.begin() + dim, parts);
  out.strides.insert(out.strides.begin() + dim, view.strides[dim] * each);
  return out;
}

int wrap_dim(int64_t dim, int rank) {
  const int64_t span = rank == 0 ? 1 : rank;
  if (dim < -span || dim >= span)
    refuse("dim " + std::to_string(dim) + " is out of range for rank " + std::to_string(rank));
  return static_cast<int>(dim < 0 ? dim + span : dim);
}

std::vector<bool> dim_mask(const Dims& dims, int rank) {
  std::vector<bool> mask(rank, dims.empty());
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, rank);
    if (rank > 0) mask[d] = true;
  }
  return mask;
}

Walk::Walk(Dims shape, std::vector<Dims> strides)
    : shape_(std::move(shape)),
      index_(shape_.size(), 0),
      strides_(std::move(strides)),
      offsets_(strides_.size(), 0),
      more_(product(shape_) > 0) {}

void Walk::next() {
  for (size_t d = shape_.size(); d-- > 0;) {
    if (++index_[d] < shape_[d]) {
      for (size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += strides_[k][d];
      return;
    }
    index_[d] = 0;
    for (size_t k = 0; k < offsets_.size(); ++k) offsets_[k] -= strides_[k][d] * (shape_[d] - 1);
  }
  more_ = false;
}

View keep_dims(const View& out, const std::vector<bool>& reduced) {
  if (out.shape.size() == reduced.size()) return out;
  View kept{out.data, out.dtype, {}, {}};
  size_t next = 0;
  for (const bool gone : reduced) {
    require(gone || next < out.shape.size(), "the output's rank is not the result's");
    kept.shape.push_back(gone ? 1 : out.shape[next]);
    kept.strides.push_back(gone ? 0 : out.strides[next]);
    next += !gone;
  }
  require(next == out.shape.size(), "the output's rank is not the result's");
  return kept;
}

namespace {

std::vector<bool> inverse(std::vector<bool> mask) {
  mask.flip();
  return mask;
}
Walk outer_walk(const std::vector<View>& views, const std::vector<bool>& mask) {
  const Dims shape = without(views[0], mask).shape;
  std::vector<Dims> strides;
  for (const View& view : views) {
    const View outer = without(view, mask);
    if (outer.shape != shape) refuse("shapes " + text(outer.shape) + " and " + text(shape) + " differ");
    strides.push_back(outer.strides);
  }
  return {shape, strides};
}

}  // namespace

Lanes::Lanes(const std::vector<View>& views, const std::vector<bool>& mask) : walk_(outer_walk(views, mask)) {
  for (const View& view : views) inner_.push_back(without(view, inverse(mask)));
}

View Lanes::operator[](size_t view) const {
  View lane = inner_[view];
  lane.data += walk_[view];
  return lane;
}

}  // namespace ral::reference
