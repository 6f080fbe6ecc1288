// Discrete Fourier transforms in long double, by splitting off one prime factor of the length at a time: O(n * the sum
// of n's prime factors), and so O(n^2) for a prime length.
#include <cmath>

#include "internal.h"

namespace ral::reference {
namespace {

using Wide = std::complex<long double>;
using Signal = std::vector<Wide>;

// exp(sign * 2 pi i k / n) for all k.
Signal roots(int64_t n, int sign) {
  const long double step = sign * 2 * std::acos(-1.0L) / static_cast<long double>(n);
  Signal w;
  for (int64_t k = 0; k < n; ++k) w.push_back(std::polar(1.0L, step * static_cast<long double>(k)));
  return w;
}

int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// The transform of n elements of x, `stride` apart. `w` are the roots of the whole length, n * stride.
Signal transform(const Wide* x, int64_t n, int64_t stride, const Signal& w) {
  if (n == 1) return {x[0]};
  const int64_t p = smallest_factor(n), m = n / p, whole = n * stride;
  std::vector<Signal> parts;
  for (int64_t r = 0; r < p; ++r) parts.push_back(transform(x + r * stride, m, stride * p, w));
  Signal y(n);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < p; ++r) y[k] += w[r * k % n * stride % whole] * parts[r][k % m];
  return y;
}

// Dense values and their shape.
struct Field {
  Dims shape;
  Signal values;
};

Field read_field(const View& view) {
  Field field{view.shape, {}};
  for (const Complex& v : read<Complex>(view)) field.values.emplace_back(v);
  return field;
}

// Replaces each line along `dim` by f of it; all of f's answers have one length.
template <class F>
void each_line(Field& field, int dim, int64_t length, F f) {
  const int64_t n = field.shape[dim], inner = product(Dims(field.shape.begin() + dim + 1, field.shape.end()));
  const int64_t outer = product(Dims(field.shape.begin(), field.shape.begin() + dim));
  Signal out(outer * length * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      Signal line;
      for (int64_t k = 0; k < n; ++k) line.push_back(field.values[(o * n + k) * inner + i]);
      line = f(line);
      for (int64_t k = 0; k < length; ++k) out[(o * length + k) * inner + i] = line[k];
    }
  field.shape[dim] = length;
  field.values = std::move(out);
}

void transform_dim(Field& field, int dim, int sign) {
  const int64_t n = field.shape[dim];
  const Signal w = roots(n, sign);
  each_line(field, dim, n, [&](const Signal& line) { return transform(line.data(), n, 1, w); });
}

// Of `normalization`: 0 none, 1 by the root of the number of elements, 2 by the number.
long double factor(int64_t normalization, int64_t n) {
  require(normalization >= 0 && normalization <= 2, "a normalization of other than 0, 1 or 2");
  const auto count = static_cast<long double>(n);
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

void write_field(const View& out, const Field& field, long double scale) {
  require(out.shape == field.shape, "the output's shape is not the transform's");
  std::vector<Complex> values;
  for (const Wide& v : field.values) values.emplace_back(v * scale);
  write(out, values);
}

std::vector<int> dims_of(const Call& call, const View& in) {
  std::vector<int> dims;
  for (const int64_t d : call.ints(1)) dims.push_back(wrap_dim(d, in.rank()));
  require(in.rank() > 0 && (in.count() > 0 || call.out().count() == 0), "a transform of no elements");
  return dims;
}
int64_t points(const Field& field, const std::vector<int>& dims) {
  int64_t n = 1;
  for (const int d : dims) n *= field.shape[d];
  return n;
}

// (self, dim, normalization, forward)
void complex_to_complex(const Call& call) {
  const View in = call.tensor(0);
  const std::vector<int> dims = dims_of(call, in);
  Field field = read_field(in);
  for (const int d : dims) transform_dim(field, d, call.flag(3, true) ? -1 : 1);
  write_field(call.out(), field, factor(call.integer(2, 0), points(field, dims)));
}

// (self, dim, normalization, onesided): the last of `dim` keeps n / 2 + 1 of its n frequencies.
void real_to_complex(const Call& call) {
  const View in = call.tensor(0);
  const std::vector<int> dims = dims_of(call, in);
  require(!dims.empty(), "a real transform along no dim");
  Field field = read_field(in);
  for (const int d : dims) transform_dim(field, d, -1);
  const long double scale = factor(call.integer(2, 0), points(field, dims));
  if (call.flag(3, true))
    each_line(field, dims.back(), field.shape[dims.back()] / 2 + 1, [](const Signal& line) { return line; });
  write_field(call.out(), field, scale);
}

// All n frequencies of a real signal from the first n / 2 + 1.
Signal mirrored(const Signal& half, int64_t n) {
  Signal all(half.begin(), half.begin() + n / 2 + 1);
  all[0] = all[0].real();
  if (n % 2 == 0) all[n / 2] = all[n / 2].real();
  all.resize(n);
  for (int64_t k = 1; k < n - k; ++k) all[n - k] = std::conj(all[k]);
  return all;
}

// (self, dim, normalization, last_dim_size)
void complex_to_real(const Call& call) {
  const View in = call.tensor(0);
  const std::vector<int> dims = dims_of(call, in);
  require(!dims.empty(), "a real transform along no dim");
  const int last = dims.back();
  const int64_t n = call.integer(3, 0);
  require(n > 0 && in.size(last) >= n / 2 + 1, "the input has fewer than last_dim_size / 2 + 1 frequencies");
  Field field = read_field(in);
  for (const int d : dims)
    if (d != last) transform_dim(field, d, 1);
  each_line(field, last, n, [n](const Signal& half) { return mirrored(half, n); });
  transform_dim(field, last, 1);
  write_field(call.out(), field, factor(call.integer(2, 0), points(field, dims)));
}

}  // namespace

std::vector<Entry> fft_ops() {
  return {
      {"aten::_fft_c2c", kernel<complex_to_complex>},
      {"aten::_fft_r2c", kernel<real_to_complex>},
      {"aten::_fft_c2r", kernel<complex_to_real>},
  };
}

}  // namespace ral::reference
