// Block uses, segment records and aligned mappings.
#include "segment.h"

#include <sys/mman.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "ral/async_stream.h"

namespace ral {

namespace {

struct Records {
  std::mutex mutex;
  std::map<std::pair<bool, uint32_t>, std::vector<Segment*>> unused;  // by whether of pieces, and number of blocks
};
Records& records() {
  static Records* const all = new Records;
  return *all;
}

}  // namespace

void UseList::note(std::atomic<uint32_t>& pending, Stream& stream, uint64_t sequence) {
  lock_.lock();
  uint32_t i = 0;
  while (i < count_ && at(i).stream != &stream) ++i;
  if (i < count_) {
    if (at(i).sequence < sequence) at(i).sequence = sequence;
  } else {
    if (i >= kInline && more_.size() <= i - kInline) more_.resize(i - kInline + 1);
    ++count_;
    at(i) = {&stream, sequence};
    pending.store(count_, std::memory_order_release);
  }
  lock_.unlock();
}

void UseList::remove(uint32_t i) noexcept {
  at(i) = at(count_ - 1);
  --count_;
}

void UseList::drop(std::atomic<uint32_t>& pending, const BlockUse& done) noexcept {
  lock_.lock();
  for (uint32_t i = 0; i < count_; ++i) {
    if (at(i).stream != done.stream) continue;
    if (at(i).sequence <= done.sequence) remove(i);
    break;
  }
  pending.store(count_, std::memory_order_release);
  lock_.unlock();
}

std::vector<BlockUse> UseList::copy() const {
  std::vector<BlockUse> all;
  all.reserve(8);
  lock_.lock();
  for (uint32_t i = 0; i < count_; ++i) all.push_back(i < kInline ? few_[i] : more_[i - kInline]);
  lock_.unlock();
  return all;
}

bool UseList::last(const Stream& stream, uint64_t* sequence) const noexcept {
  bool found = false;
  lock_.lock();
  for (uint32_t i = 0; i < count_ && !found; ++i) {
    const BlockUse& use = i < kInline ? few_[i] : more_[i - kInline];
    found = use.stream == &stream;
    if (found) *sequence = use.sequence;
  }
  lock_.unlock();
  return found;
}

void UseList::clear(std::atomic<uint32_t>& pending) noexcept {
  lock_.lock();
  count_ = 0;
  pending.store(0, std::memory_order_release);
  lock_.unlock();
}

PoolBlock* Segment::block_at(const void* address) noexcept {
  const uint64_t offset = static_cast<uint64_t>(static_cast<const char*>(address) - base);
  if (offset >= bytes) return nullptr;
  if (owners) return owners[offset >> kUnitBits].load(std::memory_order_acquire);
  const uint64_t index = block_count == 1 ? 0 : offset * reciprocal >> 43;
  return index < carved.load(std::memory_order_acquire) ? blocks + index : nullptr;
}

namespace {

Segment* reused_record(bool pieces, uint32_t block_count) {
  Records& all = records();
  std::lock_guard<std::mutex> guard(all.mutex);
  std::vector<Segment*>& unused = all.unused[{pieces, block_count}];
  if (unused.empty()) return nullptr;
  Segment* segment = unused.back();
  unused.pop_back();
  return segment;
}

Segment* fresh_record(uint32_t block_count) {
  // Untouched pages cost nothing: most small segments are carved only in part. (The leak checker does not look into
  // mappings, so that it would take what the records own for lost.)
#ifdef __SANITIZE_ADDRESS__
  constexpr bool kMapped = false;
#else
  constexpr bool kMapped = true;
#endif
  const uint64_t bytes = uint64_t(block_count) * sizeof(PoolBlock);
  void* array = block_count == 1 || !kMapped
                    ? ::operator new(bytes)
                    : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (array == MAP_FAILED) throw Error(RAL_ERROR_OUT_OF_MEMORY, "no host memory for the records of a segment");
  Segment* segment = new Segment;
  segment->blocks = static_cast<PoolBlock*>(array);
  segment->block_count = block_count;
  return segment;
}

}  // namespace

Segment* new_segment_record(uint32_t block_count) {
  Segment* segment = reused_record(false, block_count);
  return segment ? segment : fresh_record(block_count);
}

Segment* new_pieces_record(uint32_t units) {
  uint32_t room = 1;  // few shapes, so that records fit again
  while (room < units) room *= 2;
  if (Segment* segment = reused_record(true, room)) return segment;
  std::unique_ptr<std::atomic<PoolBlock*>[]> owners(new std::atomic<PoolBlock*>[room]());
  Segment* segment = fresh_record(room);
  segment->owners = owners.release();
  return segment;
}

void retire_segment_record(Segment* segment) noexcept {
  if (segment->owners)
    for (uint32_t i = 0; i < segment->block_count; ++i) segment->owners[i].store(nullptr, std::memory_order_release);
  const uint32_t carved = segment->carved.exchange(0);
  for (uint32_t i = 0; i < carved; ++i) segment->blocks[i].~PoolBlock();
  segment->base = nullptr;
  segment->bytes = 0;
  segment->live = 0;
  segment->retiring = false;
  segment->spare = nullptr;
  segment->list = nullptr;
  segment->pieces = nullptr;
  Records& all = records();
  std::lock_guard<std::mutex> guard(all.mutex);
  all.unused[{segment->owners != nullptr, segment->block_count}].push_back(segment);
}

void* map_aligned(uint64_t bytes, uint64_t alignment, int protection) noexcept {
  const uint64_t spare = bytes + alignment;
  if (spare < bytes) return nullptr;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* raw = mmap(nullptr, spare, protection, flags, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + alignment - 1) & ~(alignment - 1);
  if (aligned > begin) munmap(raw, aligned - begin);
  if (aligned + bytes < begin + spare)
    munmap(reinterpret_cast<void*>(aligned + bytes), begin + spare - aligned - bytes);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace ral
