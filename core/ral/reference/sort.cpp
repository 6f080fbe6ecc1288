// Sorting along one dim, stable, with NaN above all numbers.
#include <algorithm>
#include <numeric>

#include "internal.h"

namespace ral::reference {
namespace {

template <class T>
bool below(const T& a, const T& b) {
  return is_nan(b) ? !is_nan(a) : a < b;
}

// Places of a lane's elements in order, equals as they came.
template <class T>
std::vector<Int> sorted_places(const std::vector<T>& lane, bool descending) {
  std::vector<Int> places(lane.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](Int a, Int b) { return descending ? below(lane[b], lane[a]) : below(lane[a], lane[b]); });
  return places;
}

// Writes the elements from `first`, as many as the outputs have along the dim.
void ordered(const Call& call, int64_t dim, bool descending, int64_t first) {
  const View in = call.tensor(0);
  require(!is_complex(in.dtype), "an order of complex numbers");
  const std::vector<bool> mask = dim_mask({dim}, in.rank());
  const View values = keep_dims(call.out(0), mask), indices = keep_dims(call.out(1), mask);
  for (int d = 0; d < in.rank(); ++d)
    require(!mask[d] || first + values.size(d) <= in.size(d), "more elements are asked for than there are");
  in_domain(domain_of(in.dtype), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, Complex>) {
      for (Lanes lanes({in, values, indices}, mask); lanes; lanes.next()) {
        const std::vector<T> lane = read<T>(lanes[0]);
        const std::vector<Int> places = sorted_places(lane, descending);
        const int64_t n = lanes[1].count();
        std::vector<T> chosen;
        for (int64_t i = 0; i < n; ++i) chosen.push_back(lane[places[first + i]]);
        write(lanes[1], chosen);
        write(lanes[2], std::vector<Int>(places.begin() + first, places.begin() + first + n));
      }
    }
  });
}

void sort(const Call& call) { ordered(call, call.integer(1, -1), call.flag(2, false), 0); }
void sort_stable(const Call& call) { ordered(call, call.integer(2, -1), call.flag(3, false), 0); }
// (self, k, dim, largest, sorted): sorted in any case.
void topk(const Call& call) { ordered(call, call.integer(2, -1), call.flag(3, true), 0); }
// (self, k, dim, keepdim): the k-th smallest, from 1.
void kthvalue(const Call& call) { ordered(call, call.integer(2, -1), false, call.integer(1, 1) - 1); }

}  // namespace

std::vector<Entry> sort_ops() {
  return {
      {"aten::sort", kernel<sort>},
      {"aten::sort.stable", kernel<sort_stable>},
      {"aten::topk", kernel<topk>},
      {"aten::kthvalue", kernel<kthvalue>},
  };
}

}  // namespace ral::reference
