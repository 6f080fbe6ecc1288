// Segments and their blocks: what the pool keeps of each piece of device memory. A segment holds blocks of one size,
// or pieces that are cut and joined as they are needed (pieces.h).
//
// Segment and block records are never given back to malloc, only reused for segments of the same shape: a lock-free
// look-up may therefore still read one that has just been retired.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "ral/memory_pool.h"
#include "spinlock.h"

namespace ral {

struct FreeList;
struct PieceList;

constexpr int kUnitBits = 18;  // pieces are multiples of 256 KiB
constexpr uint64_t kUnit = uint64_t(1) << kUnitBits;

struct BlockUse {
  Stream* stream = nullptr;
  uint64_t sequence = 0;
};

// The last use of a block on each stream that may be unfinished. Block::pending counts the entries.
class UseList {
 public:
  void note(std::atomic<uint32_t>& pending, Stream& stream, uint64_t sequence);
  // Drops the entry of that stream unless a later use was noted meanwhile.
  void drop(std::atomic<uint32_t>& pending, const BlockUse& done) noexcept;
  std::vector<BlockUse> copy() const;
  // The use on that stream, if there is one. Allocates nothing.
  bool last(const Stream& stream, uint64_t* sequence) const noexcept;
  void clear(std::atomic<uint32_t>& pending) noexcept;

 private:
  static constexpr uint32_t kInline = 3;
  BlockUse& at(uint32_t i) noexcept { return i < kInline ? few_[i] : more_[i - kInline]; }
  void remove(uint32_t i) noexcept;

  mutable SpinLock lock_;
  uint32_t count_ = 0;
  BlockUse few_[kInline];
  std::vector<BlockUse> more_;
};

struct PoolBlock : Block {
  UseList uses;
  PoolBlock* next = nullptr;  // in a free list
  PoolBlock* prev = nullptr;  // in a bin of free pieces
  bool free_piece = false;    // in a bin; under the list's lock
};

// How the memory of a segment goes back.
enum class Origin : uint8_t {
  Plugin,    // host-visible memory of the plugin's malloc, aligned inside
  Imported,  // our own mapping, imported by the plugin
  Reserved   // the plugin's malloc, named by a range that cannot be read
};

struct Segment {
  char* base = nullptr;
  uint64_t bytes = 0;  // usable, from base on
  uint64_t block_bytes = 0;
  uint64_t reciprocal = 0;          // 2^43 / block_bytes, rounded up
  uint32_t block_count = 0;         // room in `blocks`
  std::atomic<uint32_t> carved{0};  // blocks that exist
  PoolBlock* blocks = nullptr;
  // Segments of pieces: the piece that each unit belongs to, else nullptr. Written under the list's lock.
  std::atomic<PoolBlock*>* owners = nullptr;
  PoolBlock* spare = nullptr;  // records of pieces that were joined to others, by `next`; under the list's lock
  Device* device = nullptr;
  Stream* stream = nullptr;
  FreeList* list = nullptr;     // blocks of one size
  PieceList* pieces = nullptr;  // or pieces
  uint32_t live = 0;            // blocks in use; under the list's lock
  bool retiring = false;        // under the list's lock
  Origin origin = Origin::Plugin;
  ral_handle handle = nullptr;
  uint64_t handle_offset = 0;  // of base
  void* mapping = nullptr;     // Imported, Reserved
  uint64_t mapping_bytes = 0;

  PoolBlock* block_at(const void* address) noexcept;
  uint32_t units() const noexcept { return static_cast<uint32_t>(bytes >> kUnitBits); }
};

// A record for a segment of `block_count` blocks, or of at least as many units in pieces, fresh or reused; every member
// but the arrays is as new.
Segment* new_segment_record(uint32_t block_count);
Segment* new_pieces_record(uint32_t units);
void retire_segment_record(Segment* segment) noexcept;

// Maps `bytes` at a multiple of `alignment` (a power of two); nullptr when there is no address space or memory.
void* map_aligned(uint64_t bytes, uint64_t alignment, int protection) noexcept;

}  // namespace ral
