// MemoryPool: a caching allocator for one device, and the table that knows whose pointer an address is.
//
// Freed blocks are kept per stream and reused. Small blocks (to 1 MiB) come in size classes, carved from 2 MiB segments
// of one class. Large ones are multiples of 256 KiB, cut from shared segments by best fit and joined with their free
// neighbours when freed; above 256 MiB each has a segment of its own. The policy is written down in ral/pieces.h.
// On devices that are not host-visible the addresses lie in a reserved PROT_NONE range: they name memory but cannot be
// read.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ral/status.h"

namespace ral {

class Device;
class Stream;
struct Segment;

// A live or cached piece of a segment. Owned by its pool; the pointer stays valid while the block is in use. A large
// block's record may stand for another piece of its segment once it is freed.
struct Block {
  void* address = nullptr;  // what data_ptr() shows
  size_t capacity = 0;      // bytes usable
  size_t size = 0;          // bytes asked for
  uint64_t id = 0;          // buffer id of this life, from allocate to free; as in the trace
  uint32_t op = 0;          // who allocated it: operator and source line as strings of the trace; 0 where not known
  uint32_t location = 0;
  Segment* segment = nullptr;
  Device* device = nullptr;
  Stream* stream = nullptr;  // the stream that it was allocated for
  std::atomic<bool> in_use{false};
  // Non-zero while device work that uses the block may be unfinished; see note_use and wait_idle.
  std::atomic<uint32_t> pending{0};
  // One slot for whoever sits above (the adapter caches an alias there); freed with set_slot_deleter's
  // function when the block's memory goes back to the device, or the block is cut or joined to another.
  std::atomic<void*> slot{nullptr};
};

// A place in device memory, as plugins take it.
struct MemoryPlace {
  ral_handle handle = nullptr;
  uint64_t offset = 0;
};

// Bytes of a block together with the life that they belong to: for those outside the RAL who keep an address. Where the
// block was freed meanwhile and its memory given out again, the generation tells.
struct Pointer {
  const void* address = nullptr;
  uint64_t bytes = 0;
  uint64_t generation = 0;  // Block::id
};

// A pool's bytes and counts, since its first allocation or the last reset_peak or reset_accumulated.
struct MemoryStats {
  uint64_t allocated = 0, allocated_peak = 0, reserved = 0, reserved_peak = 0;
  uint64_t active_blocks = 0, segments = 0;
  uint64_t allocations = 0, frees = 0, cache_hits = 0, device_mallocs = 0, retries = 0, out_of_memory = 0;
  uint64_t live_views = 0;
};

// A live view of a block; bytes from the block's begin. `parent` is the id of the block's life, for a view of a view too.
struct ViewInfo {
  uint64_t id, parent;
  uint64_t offset, bytes;
};
// A block as snapshot() saw it; sizes in bytes.
struct BlockInfo {
  const void* address;
  uint64_t size, capacity, id;
  int64_t stream;
  bool in_use;
  uint32_t op, location;        // as in Block
  std::vector<ViewInfo> views;  // live ones that begin_view told of, by id
};
// A segment as snapshot() saw it, with its blocks in address order; those above 1 MiB cover the segment, free pieces too.
struct SegmentInfo {
  const void* address;
  uint64_t size;
  std::vector<BlockInfo> blocks;
};

// The caching allocator of one device. Any thread may use it.
class RAL_API MemoryPool {
 public:
  // Made with its device.
  explicit MemoryPool(Device& device);
  ~MemoryPool();

  // A block of at least `bytes` (0 gives a smallest block), 64-byte aligned, for work on `stream`. Emits ALLOC.
  // Throws OUT_OF_MEMORY naming bytes asked, in use, cached and free; caches are flushed and it is tried again first.
  Block* allocate(size_t bytes, Stream& stream);
  // Gives the block back; it may be handed out again at once for its own stream. Uses noted on other streams
  // are waited out before it is handed out again. Emits FREE. Never throws.
  void free(Block* block) noexcept;
  // Returns unused segments to the device.
  void empty_cache();

  MemoryStats stats() const;                  // as of now
  void reset_peak() noexcept;                 // the peaks begin again at what is allocated and reserved now
  void reset_accumulated() noexcept;          // counts of things that happened begin again at 0
  std::vector<SegmentInfo> snapshot() const;  // every segment and what was carved from it
  uint64_t free_memory() const;               // bytes the device could still give (best knowledge)
  void set_fraction(double fraction);         // share of the device's memory that may be reserved

  // The block in use or cached that holds `address` (any byte of it), of any device; nullptr if none. Lock-free, ~10 ns.
  static Block* find(const void* address) noexcept;
  // Handle and offset of an address inside a block. Throws INVALID_POINTER naming address and device when the
  // address is in no live block of `device`.
  static MemoryPlace place(const void* address, const Device& device);
  // The `bytes` from `address` on as they are now. Throws as place(address) does, and where they reach past the block's end.
  static Pointer pointer(const void* address, uint64_t bytes, const Device& device);
  // Handle and offset of a pointer kept since. Throws INVALID_POINTER also where the block has begun another life.
  static MemoryPlace place(const Pointer& pointer, const Device& device);

  // A BufferView: returns its id; emits VIEW (parent is the block's id). It is live, in statistics and snapshots, until
  // end_view. The pool knows of those views only: the adapter tells of what view operators make while a trace records.
  static uint64_t begin_view(Block& block, uint64_t byte_offset, uint64_t bytes);
  // The view is gone; emits FREE with its id.
  static void end_view(Block* block, uint64_t id, uint64_t bytes) noexcept;

  // Device work `sequence` of `stream` uses the block.
  static void note_use(Block& block, Stream& stream, uint64_t sequence);
  // True when no unfinished device work uses the block.
  static bool idle(Block& block) noexcept;
  // The host waits until `idle`; emits SYNC named `why` if it had to wait. Returns nanoseconds waited.
  // Throws the error that poisoned the stream waited for.
  static int64_t wait_idle(Block& block, const char* why);

  // What frees the content of Block::slot, for all pools.
  static void set_slot_deleter(void (*deleter)(void*)) noexcept;
  // Emits ALLOC records with RAL_TRACE_SNAPSHOT for every live block of every device.
  static void trace_snapshot();
  // Where host code sees the bytes of a handle of this pool; only on devices whose plugin has no copy functions of
  // its own. Throws INVALID_POINTER for an unknown handle.
  void* host_address(ral_handle handle) const;

  // For the trace's housekeeping.
  void refresh_gauge() const noexcept;

 private:
  void emit_live_blocks() const;
  struct Impl;
  Impl* impl_;
};

}  // namespace ral
