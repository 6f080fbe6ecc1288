// Largest and smallest elements and their places: NaN wins over all, the first of equals is meant.
#include "internal.h"

namespace ral::reference {
namespace {

template <class T>
size_t best(const std::vector<T>& lane, bool largest) {
  size_t at = 0;
  for (size_t i = 1; i < lane.size() && !is_nan(lane[at]); ++i)
    if (is_nan(lane[i]) || (largest ? lane[i] > lane[at] : lane[i] < lane[at])) at = i;
  return at;
}

// Calls f(T zero) for the types that have an order, once no lane is known to be empty.
template <class F>
void ordered_lanes(const View& in, const View& out, F f) {
  require(in.count() > 0 || out.count() == 0, "the largest or smallest of no elements");
  const Domain domain = domain_of(in.dtype);
  require(domain != Domain::Complex, "an order of complex numbers");
  if (domain == Domain::Int) return f(Int());
  if (domain == Domain::UInt) return f(UInt());
  f(Real());
}

enum class Wants { Value, Place };

template <bool largest, Wants wants>
void pick_one(const Call& call, const std::vector<bool>& mask) {
  const View in = call.tensor(0), out = call.out();
  ordered_lanes(in, out, [&](auto zero) {
    using T = decltype(zero);
    for (Lanes lanes({in, keep_dims(out, mask)}, mask); lanes; lanes.next()) {
      const std::vector<T> lane = read<T>(lanes[0]);
      const size_t at = best(lane, largest);
      if (wants == Wants::Place)
        write<Int>(lanes[1], {static_cast<Int>(at)});
      else
        write<T>(lanes[1], {lane[at]});
    }
  });
}

template <bool largest>
void whole(const Call& call) {
  pick_one<largest, Wants::Value>(call, dim_mask({}, call.tensor(0).rank()));
}
// amax, argmax: argument 1 names dims; none: all of them.
template <bool largest, Wants wants>
void along(const Call& call) {
  pick_one<largest, wants>(call, dim_mask(call.ints(1), call.tensor(0).rank()));
}

template <bool largest>
void value_and_place(const Call& call) {
  const View in = call.tensor(0), values = call.out(0), places = call.out(1);
  const std::vector<bool> mask = dim_mask({call.integer(1, 0)}, in.rank());
  ordered_lanes(in, values, [&](auto zero) {
    using T = decltype(zero);
    for (Lanes lanes({in, keep_dims(values, mask), keep_dims(places, mask)}, mask); lanes; lanes.next()) {
      const std::vector<T> lane = read<T>(lanes[0]);
      const size_t at = best(lane, largest);
      write<T>(lanes[1], {lane[at]});
      write<Int>(lanes[2], {static_cast<Int>(at)});
    }
  });
}

void both(const Call& call) {
  const View in = call.tensor(0), low = call.out(0), high = call.out(1);
  const std::vector<bool> mask = dim_mask(call.ints(1), in.rank());
  ordered_lanes(in, low, [&](auto zero) {
    using T = decltype(zero);
    for (Lanes lanes({in, keep_dims(low, mask), keep_dims(high, mask)}, mask); lanes; lanes.next()) {
      const std::vector<T> lane = read<T>(lanes[0]);
      write<T>(lanes[1], {lane[best(lane, false)]});
      write<T>(lanes[2], {lane[best(lane, true)]});
    }
  });
}

}  // namespace

std::vector<Entry> extremum_ops() {
  return {
      {"aten::max", kernel<whole<true>>},
      {"aten::min", kernel<whole<false>>},
      {"aten::amax", kernel<along<true, Wants::Value>>},
      {"aten::amin", kernel<along<false, Wants::Value>>},
      {"aten::argmax", kernel<along<true, Wants::Place>>},
      {"aten::argmin", kernel<along<false, Wants::Place>>},
      {"aten::max.dim", kernel<value_and_place<true>>},
      {"aten::min.dim", kernel<value_and_place<false>>},
      {"aten::aminmax", kernel<both>},
  };
}

}  // namespace ral::reference
