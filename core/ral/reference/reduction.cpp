// Reductions to one value: sums, products, truth, moments, norms.
#include <cmath>
#include <limits>

#include "internal.h"

namespace ral::reference {
namespace {

// What sums are held in.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<Real> {
  using type = long double;
};
template <>
struct WideOf<Complex> {
  using type = std::complex<long double>;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class T>
Wide<T> total(const std::vector<T>& lane) {
  Wide<T> sum(0);
  for (const T& v : lane) sum += Wide<T>(v);
  return sum;
}

template <bool all>
struct Truth {
  template <class T>
  static T of(const std::vector<T>& lane) {
    for (const T& v : lane)
      if ((v != T(0)) != all) return T(!all);
    return T(all);
  }
};
struct NoTruth {
  template <class T>
  static T of(const std::vector<T>&) {
    refuse("a floating result with dtype bool");
  }
};

// OfTruth is what the reduction is where its output is bool: the elements count as true or false.
struct Sum {
  using OfTruth = Truth<false>;
  template <class T>
  static T of(const std::vector<T>& lane) {
    return T(total(lane));
  }
};
struct Mean {
  using OfTruth = NoTruth;
  template <class T>
  static T of(const std::vector<T>& lane) {
    if constexpr (std::is_integral_v<T>)
      refuse("the mean of integers");
    else
      return T(total(lane) / static_cast<long double>(lane.size()));
  }
};
struct Product {
  using OfTruth = Truth<true>;
  template <class T>
  static T of(const std::vector<T>& lane) {
    Wide<T> out(1);
    for (const T& v : lane) out *= Wide<T>(v);
    return T(out);
  }
};
struct AnyButNan {
  template <class T>
  static T of(const std::vector<T>& lane) {
    for (const T& v : lane)
      if (v != T(0) && !is_nan(v)) return T(1);
    return T(0);
  }
};
struct NanSum {
  using OfTruth = AnyButNan;
  template <class T>
  static T of(const std::vector<T>& lane) {
    Wide<T> sum(0);
    for (const T& v : lane)
      if (!is_nan(v)) sum += Wide<T>(v);
    return T(sum);
  }
};
struct LogSumExp {
  using OfTruth = NoTruth;
  template <class T>
  static T of(const std::vector<T>& lane) {
    if constexpr (std::is_same_v<T, Complex>) {
      Real high = -std::numeric_limits<Real>::infinity();  // of the real parts, which give the magnitudes
      for (const Complex& v : lane) high = is_nan(v.real()) || v.real() > high ? v.real() : high;
      if (std::isinf(high)) high = 0;
      std::complex<long double> sum(0);
      for (const Complex& v : lane) sum += std::complex<long double>(std::exp(v - high));
      return std::log(Complex(sum)) + high;
    } else if constexpr (std::is_same_v<T, Real>) {
      Real high = -std::numeric_limits<Real>::infinity();
      for (const Real v : lane) high = is_nan(v) || v > high ? v : high;
      if (std::isinf(high)) return high;
      long double sum = 0;
      for (const Real v : lane) sum += std::exp(v - high);
      return high + std::log(static_cast<Real>(sum));
    } else {
      refuse("logsumexp of other than floating numbers");
    }
  }
};
struct CountNonzero {
  template <class T>
  static T of(const std::vector<T>& lane) {
    Int n = 0;
    for (const T& v : lane) n += v != T(0);
    return T(n);
  }
};

std::vector<bool> mask_at(const Call& call, int dims, int rank) {
  return dim_mask(dims < 0 ? Dims() : call.ints(dims), rank);
}

// Which dtype's domain the lanes are read in.
enum class Reads { Output, Input };

template <class F>
void reduce(const View& in, const View& out, const std::vector<bool>& mask, Reads reads) {
  in_domain(domain_of(reads == Reads::Output ? out.dtype : in.dtype), [&](auto zero) {
    using T = decltype(zero);
    for (Lanes lanes({in, keep_dims(out, mask)}, mask); lanes; lanes.next())
      write<T>(lanes[1], {F::of(read<T>(lanes[0]))});
  });
}

// `dims`: the argument that lists them; -1: all dims are reduced.
template <class F, int dims, Reads reads = Reads::Output>
void reduction(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  const std::vector<bool> mask = mask_at(call, dims, in.rank());
  if constexpr (reads == Reads::Output)
    if (out.dtype == RAL_BOOL) return reduce<typename F::OfTruth>(in, out, mask, Reads::Input);
  reduce<F>(in, out, mask, reads);
}

// any.dims and all.dims: an empty list reduces nothing.
template <bool all>
void truth_dims(const Call& call) {
  const View in = call.tensor(0);
  std::vector<bool> mask = mask_at(call, 1, in.rank());
  if (call.given(1) && call.ints(1).empty()) mask.assign(in.rank(), false);
  reduce<Truth<all>>(in, call.out(), mask, Reads::Input);
}

// ---- Variance ------------------------------------------------------------------------------------

struct Moments {
  std::complex<long double> mean;
  long double squares = 0;  // sum of |x - mean|^2
};
Moments moments(const std::vector<Complex>& lane) {
  Moments m;
  m.mean = total(lane) / static_cast<long double>(lane.size());
  for (const Complex& v : lane) m.squares += std::norm(std::complex<long double>(v) - m.mean);
  return m;
}

template <bool root, bool with_mean>
void variance(const Call& call) {
  const View in = call.tensor(0);
  const std::vector<bool> mask = mask_at(call, 1, in.rank());
  const double correction = call.real(2, 1);
  std::vector<View> views{in, keep_dims(call.out(), mask)};
  if (with_mean) views.push_back(keep_dims(call.out(1), mask));
  for (Lanes lanes(views, mask); lanes; lanes.next()) {
    const std::vector<Complex> lane = read<Complex>(lanes[0]);
    const Moments m = moments(lane);
    const double var = static_cast<double>(m.squares / std::max(0.0, static_cast<double>(lane.size()) - correction));
    write<Real>(lanes[1], {root ? std::sqrt(var) : var});
    if (with_mean) write<Complex>(lanes[2], {Complex(m.mean)});
  }
}

// ---- Norms ---------------------------------------------------------------------------------------

double norm_of(const std::vector<Complex>& lane, double p) {
  long double out = p == -INFINITY ? INFINITY : 0;
  for (const Complex& v : lane) {
    const long double size = v.imag() == 0 ? std::abs(v.real()) : std::abs(std::complex<long double>(v));
    if (std::isinf(p)) {
      if (std::isnan(out)) continue;
      out = std::isnan(size) || (p > 0 ? size > out : size < out) ? size : out;
    } else {
      out += p == 0 ? (size != 0) : p == 1 ? size : p == 2 ? size * size : std::pow(size, static_cast<long double>(p));
    }
  }
  if (std::isinf(p) || p == 0 || p == 1) return static_cast<double>(out);
  return static_cast<double>(p == 2 ? std::sqrt(out) : std::pow(out, 1 / static_cast<long double>(p)));
}

template <int dims>
void norm(const Call& call) {
  const View in = call.tensor(0);
  const double p = call.real(1, 2);
  const std::vector<bool> mask = mask_at(call, dims, in.rank());
  require(in.count() > 0 || p >= 0 || call.out().count() == 0, "a negative norm of no elements");
  require(in.count() > 0 || !std::isinf(p) || call.out().count() == 0, "an infinite norm of no elements");
  for (Lanes lanes({in, keep_dims(call.out(), mask)}, mask); lanes; lanes.next())
    write<Real>(lanes[1], {norm_of(read<Complex>(lanes[0]), p)});
}

}  // namespace

std::vector<Entry> reduction_ops() {
  return {
      {"aten::sum", kernel<reduction<Sum, -1>>},
      {"aten::sum.dim_IntList", kernel<reduction<Sum, 1>>},
      {"aten::nansum", kernel<reduction<NanSum, 1>>},
      {"aten::mean", kernel<reduction<Mean, -1>>},
      {"aten::mean.dim", kernel<reduction<Mean, 1>>},
      {"aten::prod", kernel<reduction<Product, -1>>},
      {"aten::prod.dim_int", kernel<reduction<Product, 1>>},
      {"aten::logsumexp", kernel<reduction<LogSumExp, 1>>},
      {"aten::any", kernel<reduction<Truth<false>, -1, Reads::Input>>},
      {"aten::any.dim", kernel<reduction<Truth<false>, 1, Reads::Input>>},
      {"aten::any.dims", kernel<truth_dims<false>>},
      {"aten::all", kernel<reduction<Truth<true>, -1, Reads::Input>>},
      {"aten::all.dim", kernel<reduction<Truth<true>, 1, Reads::Input>>},
      {"aten::all.dims", kernel<truth_dims<true>>},
      {"aten::count_nonzero", kernel<reduction<CountNonzero, 1, Reads::Input>>},
      {"aten::count_nonzero.dim_IntList", kernel<reduction<CountNonzero, 1, Reads::Input>>},
      {"aten::var.correction", kernel<variance<false, false>>},
      {"aten::std.correction", kernel<variance<true, false>>},
      {"aten::var_mean.correction", kernel<variance<false, true>>},
      {"aten::std_mean.correction", kernel<variance<true, true>>},
      {"aten::linalg_vector_norm", kernel<norm<2>>},
      {"aten::norm.Scalar", kernel<norm<-1>>},
      {"aten::norm.ScalarOpt_dim", kernel<norm<2>>},
      {"aten::norm.ScalarOpt_dim_dtype", kernel<norm<2>>},
  };
}

}  // namespace ral::reference
