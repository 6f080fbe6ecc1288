// Size classes: 4 a power of two from 256 bytes to 1 MiB (small), one for what is cut from shared segments (pieces.h),
// and above its limit 8 a power of two (apart).
#pragma once
#include <cstdint>

namespace ral {

constexpr uint64_t kSmallest = 256;
constexpr uint64_t kSmallLimit = uint64_t(1) << 20;
constexpr int kSmallClasses = 4 * 12 + 1;  // 256 .. 1 MiB
constexpr uint64_t kPieceLimit = uint64_t(1) << 28;
constexpr int kPieceClass = kSmallClasses;  // above 1 MiB, .. 256 MiB
constexpr int kApartClasses = 8 * 19;       // .. 2^47
constexpr int kClasses = kSmallClasses + 1 + kApartClasses;
constexpr uint64_t kLargest = uint64_t(1) << 47;

namespace detail {
// Class among those with 2^bits steps a power of two, counted from `least` (a power of two): 0 is `least` itself.
inline int class_from(uint64_t bytes, uint64_t least, int bits) noexcept {
  if (bytes <= least) return 0;
  const uint64_t top = bytes - 1;
  const int power = 63 - __builtin_clzll(top);
  const int base = 63 - __builtin_clzll(least);
  const int step = static_cast<int>(top >> (power - bits)) & ((1 << bits) - 1);
  return ((power - base) << bits) + step + 1;
}
inline uint64_t bytes_from(int index, uint64_t least, int bits) noexcept {
  const int power = index >> bits;
  const int step = index & ((1 << bits) - 1);
  return (least << power) + ((least << power) >> bits) * static_cast<uint64_t>(step);
}
}  // namespace detail

// `bytes` at most kLargest.
inline int size_class(uint64_t bytes) noexcept {
  if (bytes <= kSmallLimit) return detail::class_from(bytes, kSmallest, 2);
  return kPieceClass + detail::class_from(bytes, kPieceLimit, 3);
}
inline uint64_t class_bytes(int index) noexcept {
  if (index < kSmallClasses) return detail::bytes_from(index, kSmallest, 2);
  return detail::bytes_from(index - kPieceClass, kPieceLimit, 3);
}

}  // namespace ral
