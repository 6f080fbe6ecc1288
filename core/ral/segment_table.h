// "Whose address is this": a two-level map from 2 MiB granules of the address space to segments. Look-ups take no lock.
#pragma once
#include <cstdint>

namespace ral {

struct Segment;

constexpr uint64_t kGranule = uint64_t(1) << 21;

namespace segment_table {

// The granules from `base` (a multiple of 2 MiB) on; no other segment may touch them.
void insert(Segment* segment, const void* base, uint64_t bytes);
void remove(const void* base, uint64_t bytes) noexcept;
Segment* find(const void* address) noexcept;

}  // namespace segment_table
}  // namespace ral
