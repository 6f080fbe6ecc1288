// 48 address bits: 21 within a granule, 13 in a leaf, 14 in the root.
#include "segment_table.h"

#include <atomic>

#include "ral/status.h"

namespace ral::segment_table {

namespace {

constexpr int kLeafBits = 13, kRootBits = 14, kGranuleBits = 21;
struct Leaf {
  std::atomic<Segment*> entries[1 << kLeafBits];
};
std::atomic<Leaf*> g_root[1 << kRootBits];

Leaf* leaf_for(uint64_t granule) {
  std::atomic<Leaf*>& place = g_root[granule >> kLeafBits];
  Leaf* leaf = place.load(std::memory_order_acquire);
  if (leaf) return leaf;
  Leaf* fresh = new Leaf();
  if (place.compare_exchange_strong(leaf, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return leaf;
}

void set(Segment* segment, const void* base, uint64_t bytes) {
  const uint64_t first = reinterpret_cast<uintptr_t>(base) >> kGranuleBits;
  const uint64_t last = (reinterpret_cast<uintptr_t>(base) + bytes - 1) >> kGranuleBits;
  if (last >> (kLeafBits + kRootBits)) throw Error(RAL_ERROR_INTERNAL, "device address outside 48 bits");
  for (uint64_t g = first; g <= last; ++g)
    leaf_for(g)->entries[g & ((1 << kLeafBits) - 1)].store(segment, std::memory_order_release);
}

}  // namespace

void insert(Segment* segment, const void* base, uint64_t bytes) { set(segment, base, bytes); }

void remove(const void* base, uint64_t bytes) noexcept { set(nullptr, base, bytes); }

Segment* find(const void* address) noexcept {
  const uint64_t granule = reinterpret_cast<uintptr_t>(address) >> kGranuleBits;
  if (granule >> (kLeafBits + kRootBits)) return nullptr;
  Leaf* leaf = g_root[granule >> kLeafBits].load(std::memory_order_acquire);
  return leaf ? leaf->entries[granule & ((1 << kLeafBits) - 1)].load(std::memory_order_acquire) : nullptr;
}

}  // namespace ral::segment_table
