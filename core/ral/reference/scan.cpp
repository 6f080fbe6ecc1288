// Running sums, products and extrema along one dim.
#include "numbers.h"

namespace ral::reference {
namespace {

struct Sum {
  template <class T>
  static void step(T& so_far, const T& next) {
    so_far += next;
  }
};
struct Product {
  template <class T>
  static void step(T& so_far, const T& next) {
    so_far *= next;
  }
};

template <class F>
void scan(const Call& call) {
  const View in = call.tensor(0), out = call.out();
  require(out.dtype != RAL_BOOL, "a running sum with dtype bool");
  const std::vector<bool> mask = dim_mask({call.integer(1, 0)}, in.rank());
  in_domain(domain_of(out.dtype), [&](auto zero) {
    using T = decltype(zero);
    for (Lanes lanes({in, out}, mask); lanes; lanes.next()) {
      std::vector<T> lane = read<T>(lanes[0]);
      for (size_t i = 1; i < lane.size(); ++i) {
        T so_far = lane[i - 1];
        F::step(so_far, lane[i]);
        lane[i] = so_far;
      }
      write(lanes[1], lane);
    }
  });
}

struct LogSumExp {
  template <class T>
  static void step(T& so_far, const T& next) {
    if constexpr (std::is_integral_v<T>)
      refuse("logcumsumexp of other than floating numbers");
    else
      so_far = log_add(so_far, next);
  }
};

// The last of equals, NaN over all.
template <bool largest>
void extremum(const Call& call) {
  const View in = call.tensor(0);
  require(!is_complex(in.dtype), "an order of complex numbers");
  const std::vector<bool> mask = dim_mask({call.integer(1, 0)}, in.rank());
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Complex>) {
      for (Lanes lanes({in, call.out(0), call.out(1)}, mask); lanes; lanes.next()) {
        std::vector<T> lane = read<T>(lanes[0]);
        std::vector<Int> places(lane.size(), 0);
        for (size_t i = 1; i < lane.size(); ++i) {
          const bool beats = largest ? lane[i] >= lane[i - 1] : lane[i] <= lane[i - 1];
          const bool wins = is_nan(lane[i]) || (!is_nan(lane[i - 1]) && beats);
          places[i] = wins ? static_cast<Int>(i) : places[i - 1];
          if (!wins) lane[i] = lane[i - 1];
        }
        write(lanes[1], lane);
        write(lanes[2], places);
      }
    }
  });
}

}  // namespace

std::vector<Entry> scan_ops() {
  return {
      {"aten::cumsum", kernel<scan<Sum>>},
      {"aten::cumprod", kernel<scan<Product>>},
      {"aten::logcumsumexp", kernel<scan<LogSumExp>>},
      {"aten::cummax", kernel<extremum<true>>},
      {"aten::cummin", kernel<extremum<false>>},
  };
}

}  // namespace ral::reference
