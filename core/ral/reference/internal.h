// What the families of the reference tier share: element types, strided views, arguments, the registry.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ral/reference.h"

namespace ral::reference {

// ---- What values are computed in -----------------------------------------------------------------

using Int = int64_t;
using UInt = uint64_t;  // only where uint64 takes part
using Real = double;
using Complex = std::complex<double>;

// In the order in which one holds the other's values.
enum class Domain : uint8_t { Int, UInt, Real, Complex };

Domain domain_of(ral_dtype type);
inline bool is_integral(ral_dtype type) { return domain_of(type) < Domain::Real; }  // bool too
inline bool is_complex(ral_dtype type) { return domain_of(type) == Domain::Complex; }
// Largest finite value of a floating type, or of the parts of a complex one.
double largest(ral_dtype type);
// PyTorch's promoteTypes.
ral_dtype promote(ral_dtype a, ral_dtype b);

// Calls f with a value of the domain's type; its type is what counts.
template <class F>
decltype(auto) in_domain(Domain domain, F&& f) {
  if (domain == Domain::Int) return f(Int());
  if (domain == Domain::UInt) return f(UInt());
  if (domain == Domain::Real) return f(Real());
  return f(Complex());
}

// Conversions as PyTorch's: complex to real takes the real part, floating to integer truncates.
template <class T>
using Load = T (*)(const char* from);
template <class T>
using Store = void (*)(char* to, T value);
template <class T>
Load<T> loader(ral_dtype type);
template <class T>
Store<T> storer(ral_dtype type);

template <class T>
bool is_nan(const T& value) {
  return value != value;
}

// ---- Refusals ------------------------------------------------------------------------------------

// Thrown before anything is written; the kernel answers RAL_ERROR_UNSUPPORTED.
struct Refused {
  std::string why;
};
[[noreturn]] void refuse(const std::string& why);
inline void require(bool condition, const char* otherwise) {
  if (!condition) refuse(otherwise);
}

// ---- Strided views -------------------------------------------------------------------------------

using Dims = std::vector<int64_t>;
constexpr int kMaxRank = 16;

int64_t product(const Dims& dims);  // 1 for no dims
Dims dense_strides(const Dims& shape, int64_t unit = 1);
std::string text(const Dims& dims);  // "[2, 3]"

// A tensor of host memory. Strides in bytes.
struct View {
  char* data = nullptr;
  ral_dtype dtype = -1;
  Dims shape, strides;

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t count() const { return product(shape); }
  int64_t size(int dim) const { return shape[dim]; }
};

View broadcast(const View& view, const Dims& shape);  // refuses what does not broadcast
View pick(const View& view, const std::vector<int>& dims);
View without(const View& view, const std::vector<bool>& dims);
View split(const View& view, int dim, int64_t parts);  // [.., n, ..] as [.., parts, n / parts, ..]

// Counts dim from the end where negative; a 0-dim tensor has dims 0 and -1. The answer is 0 for rank 0.
int wrap_dim(int64_t dim, int rank);
// dim is absent or empty: all of them.
std::vector<bool> dim_mask(const Dims& dims, int rank);

// Visits a shape in row-major order with the byte offsets of several operands:
//   for (Walk walk(shape, {a.strides, b.strides}); walk; walk.next()) use(walk[0], walk[1]);
class Walk {
 public:
  Walk(Dims shape, std::vector<Dims> strides);
  explicit operator bool() const { return more_; }
  int64_t operator[](size_t operand) const { return offsets_[operand]; }
  const Dims& index() const { return index_; }
  void next();

 private:
  Dims shape_, index_;
  std::vector<Dims> strides_;
  std::vector<int64_t> offsets_;
  bool more_;
};

// All elements, row-major.
template <class T>
std::vector<T> read(const View& view) {
  const Load<T> load = loader<T>(view.dtype);
  std::vector<T> values;
  values.reserve(view.count());
  for (Walk walk(view.shape, {view.strides}); walk; walk.next()) values.push_back(load(view.data + walk[0]));
  return values;
}
template <class T>
void write(const View& view, const std::vector<T>& values) {
  const Store<T> store = storer<T>(view.dtype);
  size_t i = 0;
  for (Walk walk(view.shape, {view.strides}); walk; walk.next()) store(view.data + walk[0], values[i++]);
}

// Gives a reduction's result size-1 dims in place of the reduced ones, where keepdim has not.
View keep_dims(const View& out, const std::vector<bool>& reduced);

// Visits the lanes of views of one rank: their elements along the masked dims, at each place of the other dims, whose
// sizes are the same in all views.
//   for (Lanes lanes({in, out}, mask); lanes; lanes.next()) write(lanes[1], f(read<T>(lanes[0])));
class Lanes {
 public:
  Lanes(const std::vector<View>& views, const std::vector<bool>& mask);
  explicit operator bool() const { return static_cast<bool>(walk_); }
  View operator[](size_t view) const;
  const Dims& index() const { return walk_.index(); }
  void next() { walk_.next(); }

 private:
  std::vector<View> inner_;
  Walk walk_;
};

// ---- Arguments -----------------------------------------------------------------------------------

// One call of a kernel. Accessors refuse a value of the wrong kind.
class Call {
 public:
  Call(const ral_value* args, uint32_t arg_count, const ral_value* outs, uint32_t out_count)
      : args_(args), outs_(outs), arg_count_(arg_count), out_count_(out_count) {}

  uint32_t arg_count() const { return arg_count_; }
  const ral_value* value(uint32_t i) const;  // nullptr where it was not given
  bool given(uint32_t i) const { return value(i) != nullptr; }
  bool is_tensor(uint32_t i) const;  // on the device, or a host scalar
  View tensor(uint32_t i) const;
  std::optional<View> tensor_if(uint32_t i) const;
  std::vector<std::optional<View>> tensors(uint32_t i) const;
  View out(uint32_t i = 0) const;
  uint32_t out_count() const { return out_count_; }
  int64_t integer(uint32_t i, int64_t otherwise) const;
  double real(uint32_t i, double otherwise) const;
  bool flag(uint32_t i, bool otherwise) const;
  Dims ints(uint32_t i) const;  // a single integer is a list of one; not given: none
  std::string string(uint32_t i, const char* otherwise) const;

 private:
  const ral_value* args_;
  const ral_value* outs_;
  uint32_t arg_count_, out_count_;
  mutable std::deque<std::array<char, 16>> scalars_;  // what host scalars' views point to
};

// A number argument, converted as an element would be.
template <class T>
T number(const ral_value& value);
template <class T>
T number(const Call& call, uint32_t i, T otherwise) {
  const ral_value* value = call.value(i);
  return value ? number<T>(*value) : otherwise;
}

// ---- Registry ------------------------------------------------------------------------------------

struct Entry {
  const char* name;
  Kernel kernel;
  Sizing sizing = nullptr;
};

// Runs f; the status and *why (which may be nullptr) say what it threw.
ral_status guarded(std::string* why, const std::function<void()>& f) noexcept;

using Body = void (*)(const Call& call);

template <Body body>
ral_status kernel(const ral_value* args, uint32_t arg_count, const ral_value* outs, uint32_t out_count,
                  std::string* why) {
  const Call call(args, arg_count, outs, out_count);
  return guarded(why, [&] { body(call); });
}

using SizingBody = std::vector<Result> (*)(const Call& call);

template <SizingBody body>
ral_status sizing(const ral_value* args, uint32_t arg_count, std::vector<Result>* results, std::string* why) {
  const Call call(args, arg_count, nullptr, 0);
  return guarded(why, [&] { *results = body(call); });
}

// One table a family.
std::vector<Entry> arithmetic_ops();
std::vector<Entry> math_ops();
std::vector<Entry> activation_ops();
std::vector<Entry> reduction_ops();
std::vector<Entry> extremum_ops();
std::vector<Entry> scan_ops();
std::vector<Entry> softmax_ops();
std::vector<Entry> norm_ops();
std::vector<Entry> loss_ops();
std::vector<Entry> matmul_ops();
std::vector<Entry> index_ops();
std::vector<Entry> shape_ops();
std::vector<Entry> sort_ops();
std::vector<Entry> convolution_ops();
std::vector<Entry> pooling_ops();
std::vector<Entry> interpolate_ops();
std::vector<Entry> grid_sampler_ops();
std::vector<Entry> selection_ops();
std::vector<Entry> factory_ops();
std::vector<Entry> fft_ops();

}  // namespace ral::reference
