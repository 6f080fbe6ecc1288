// The inside of MemoryPool: free lists by stream and size class. Shared by memory_pool.cpp (blocks),
// pool_segments.cpp (memory of the device) and pool_report.cpp (what is known of it).
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "pieces.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/memory_pool.h"
#include "segment.h"
#include "size_class.h"
#include "views.h"

namespace ral {

struct FreeList {
  SpinLock lock;
  PoolBlock* head = nullptr;
  PoolBlock* deferred = nullptr;  // freed while work of another stream used them
  Segment* carving = nullptr;     // has blocks that were never handed out
  std::vector<Segment*> segments;
  uint64_t allocations = 0, hits = 0, frees = 0;
};

struct StreamCache {
  Stream* stream = nullptr;
  FreeList lists[kClasses];  // that of kPieceClass is not used
  PieceList pieces;
};

// Runs the slot deleter; with no lock held.
void delete_slots(const StaleSlots& stale) noexcept;

struct MemoryPool::Impl {
  explicit Impl(Device& d);

  StreamCache& cache_of(Stream& stream);
  PoolBlock* refill(StreamCache& cache, int index, size_t asked);
  PoolBlock* take_deferred(FreeList& list);
  PoolBlock* carve(FreeList& list, Segment* segment);
  PoolBlock* take_piece(StreamCache& cache, size_t bytes);
  PoolBlock* new_piece(StreamCache& cache, uint32_t units, size_t asked);
  void give_piece(PoolBlock& block, bool defer) noexcept;
  void free_deferred(PieceList& list);
  Segment* block_segment(StreamCache& cache, int index, size_t asked);
  Segment* piece_segment(StreamCache& cache, uint32_t units, size_t asked);
  void fill_segment(Segment* segment, uint64_t usual, uint64_t least, size_t asked);
  bool obtain(Segment* segment, uint64_t bytes);
  bool obtain_import(Segment* segment, uint64_t bytes);
  bool obtain_plugin(Segment* segment, uint64_t bytes);
  void release_cached(bool wait, bool large_only);
  void give_back(const std::vector<Segment*>& detached) noexcept;
  void give_back(Segment* segment) noexcept;
  uint64_t limit() const noexcept {
    return static_cast<uint64_t>(static_cast<double>(device.info().total_memory) *
                                 fraction.load(std::memory_order_relaxed));
  }
  uint64_t device_free(uint64_t total_limit) const noexcept;
  [[noreturn]] void out_of_memory_error(size_t asked) const;

  Device& device;
  mutable std::mutex mutex;
  int returning = 0;  // threads that give detached segments back; under `mutex`
  std::condition_variable returned;
  std::atomic<uint64_t> given_back{0};  // segments, ever
  std::vector<StreamCache*> caches;
  std::unordered_map<ral_handle, char*> host_addresses;  // only where the RAL copies by itself
  std::atomic<uint64_t> allocated{0}, peak{0}, reserved{0}, reserved_peak{0}, lifetime_peak{0};
  std::atomic<uint64_t> live_views{0}, segments{0}, device_mallocs{0}, retries{0}, out_of_memory{0};
  uint64_t allocations_base = 0, frees_base = 0, hits_base = 0;  // subtracted since reset_accumulated
  ViewTable views;
  std::atomic<double> fraction{1.0};
  std::atomic<bool> import_works{true};
};

// Raises `place` to at least `value`.
inline void raise_to(std::atomic<uint64_t>& place, uint64_t value) noexcept {
  uint64_t seen = place.load(std::memory_order_relaxed);
  while (seen < value && !place.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// A member of the trace file's gauges.
inline void set_gauge(uint64_t& member, uint64_t value) noexcept { __atomic_store_n(&member, value, __ATOMIC_RELAXED); }

inline PoolBlock& pool_block(Block& block) noexcept { return static_cast<PoolBlock&>(block); }

}  // namespace ral
