// Large blocks: pieces cut from shared segments of one stream.
//
// Policy. Blocks above 1 MiB are multiples of 256 KiB (units). A request takes the smallest free piece that holds it
// (best fit; one of exactly its size is taken whole, with the alias cached in its slot); what is over, 256 KiB or more,
// stays as a free piece. A freed piece is joined at once with free neighbours. One that another stream still uses is
// held back: it is neither handed out nor joined until that use is past.
//
// Segments: requests up to 8 MiB share segments of 32 MiB; larger ones get a segment of their size (rounded to 2 MiB),
// which is cut for others once it was freed. To keep a small block from pinning a large segment, a wholly free segment
// above 32 MiB is opened only by requests of an eighth of it or more. Before a stream asks the device for a new segment
// it gives wholly free ones that are too small for the request back, as many bytes as it asks for: growing sizes do not
// leave a trail of segments. Above 256 MiB a block has a segment of its own (memory_pool.cpp).
#pragma once
#include <cstdint>
#include <vector>

#include "segment.h"
#include "size_class.h"
#include "spinlock.h"

namespace ral {

constexpr uint32_t kSharedUnits = 32 * 4;   // a shared segment
constexpr uint32_t kSharedRequest = 8 * 4;  // the largest request that makes one
constexpr uint32_t kMostUnits = kPieceLimit >> kUnitBits;
constexpr uint32_t kOpenShare = 8;

inline uint32_t units_for(uint64_t bytes) noexcept { return static_cast<uint32_t>((bytes + kUnit - 1) >> kUnitBits); }

// Slots of pieces that changed: for the slot deleter, which runs when no lock is held.
struct StaleSlots {
  void* slots[3];
  int count = 0;
  void take(Block& block) noexcept;
};

// The pieces of one stream. Everything but take_deferred's checks is under `lock`; free pieces are in the bin of their
// size in units, and a bit tells which bins hold any.
struct PieceList {
  SpinLock lock;
  PoolBlock* deferred = nullptr;  // freed while work of another stream used them
  std::vector<Segment*> segments;
  uint64_t allocations = 0, hits = 0, frees = 0;

  // A piece of exactly `units`, cut from a larger free one where need be; nullptr if none fits. Counted as live.
  PoolBlock* take(uint32_t units, StaleSlots& stale) noexcept;
  // The same, only from a piece of that size.
  PoolBlock* take_exact(uint32_t units) noexcept;
  // A piece that was live: joined with its free neighbours, and free.
  void give(PoolBlock* piece, StaleSlots& stale) noexcept;
  // A new segment: its first `units` as a live piece, the rest free.
  PoolBlock* add(Segment* segment, uint32_t units, StaleSlots& stale);
  // Moves wholly free segments below `below` units to `out`, at least `wanted` bytes of them if there are as many; only
  // those that no unfinished work uses, unless `wait`.
  void detach(bool wait, uint32_t below, uint64_t wanted, std::vector<Segment*>* out);

 private:
  PoolBlock* fit(uint32_t units) const noexcept;
  uint32_t filled_from(uint32_t units) const noexcept;
  PoolBlock* cut(PoolBlock* piece, uint32_t units, StaleSlots& stale) noexcept;
  PoolBlock* join(PoolBlock* low, PoolBlock* high, StaleSlots& stale) noexcept;
  void put(PoolBlock* piece) noexcept;
  void remove(PoolBlock* piece) noexcept;

  uint64_t filled_[kMostUnits / 64 + 1] = {};
  PoolBlock* bins_[kMostUnits + 1] = {};
};

}  // namespace ral
