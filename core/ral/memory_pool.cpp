// The caching pool: giving blocks out and taking them back. Getting memory from the device is pool_segments.cpp's part.
//
// Locks, in the order in which they may be nested: Impl::mutex (segments, caches), FreeList::lock, a stream's ring
// (polls only). No lock is held while the host waits for the device, in malloc and free of a plugin, or while the slot
// deleter runs.
#include "ral/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

#include "devices_internal.h"
#include "pool_impl.h"
#include "pool_internal.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/log.h"
#include "ral/trace.h"
#include "segment.h"
#include "segment_table.h"
#include "size_class.h"

namespace ral {

namespace {

// Is the block used by unfinished work of a stream other than its own?
bool used_elsewhere(PoolBlock& block) {
  if (block.pending.load(std::memory_order_acquire) == 0) return false;
  for (const BlockUse& use : block.uses.copy()) {
    if (use.stream == block.stream) continue;
    if (!use.stream->complete(use.sequence)) return true;
    block.uses.drop(block.pending, use);
  }
  return false;
}

// Pointers from outside.

bool live_on(const Block* block, const Device& device) {
  return block && block->device == &device && block->in_use.load(std::memory_order_acquire);
}

// Does the block, as it was asked for, hold so many bytes from there on?
bool holds(const Block& block, const void* address, uint64_t bytes) {
  const auto offset =
      static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(block.address));
  return offset <= block.size && bytes <= block.size - offset;
}

MemoryPlace place_in(const Segment& segment, const void* address) {
  return {segment.handle,
          segment.handle_offset + static_cast<uint64_t>(static_cast<const char*>(address) - segment.base)};
}

std::string shown(const void* address) {
  char text[64];
  std::snprintf(text, sizeof text, "buffer 0x%" PRIxPTR, reinterpret_cast<uintptr_t>(address));
  return text;
}

[[noreturn]] void refuse_pointer(const void* address, const Device& device, const Block* block) {
  std::string why;
  if (block && block->device != &device)
    why = "; it belongs to device " + std::to_string(block->device->index());
  else if (block)
    why = "; it was freed";
  throw Error(RAL_ERROR_INVALID_POINTER,
              shown(address) + " not mapped to device " + std::to_string(device.index()) + why);
}

[[noreturn]] void refuse_span(const void* address, uint64_t bytes, const Device& device, const Block& block) {
  throw Error(RAL_ERROR_INVALID_POINTER, std::to_string(bytes) + " bytes from " + shown(address) +
                                             " not mapped to device " + std::to_string(device.index()) +
                                             "; they reach past the end of its block of " + std::to_string(block.size) +
                                             " bytes at " + shown(block.address).substr(7));
}

}  // namespace

// $RAL_MEMORY_FRACTION: share of each device's memory that this process may reserve.
MemoryPool::Impl::Impl(Device& d) : device(d) {
  const char* text = std::getenv("RAL_MEMORY_FRACTION");
  if (!text || !*text) return;
  char* end = nullptr;
  const double share = std::strtod(text, &end);
  if (!*end && share > 0 && share <= 1)
    fraction.store(share);
  else
    log(RAL_LOG_WARNING, std::string("RAL_MEMORY_FRACTION=") + text + " is not in (0, 1]; ignored");
}

MemoryPool::MemoryPool(Device& device) : impl_(new Impl(device)) {}

MemoryPool::~MemoryPool() { delete impl_; }

StreamCache& MemoryPool::Impl::cache_of(Stream& stream) {
  std::atomic<void*>& place = pool_cache_slot(stream);
  if (void* known = place.load(std::memory_order_acquire)) return *static_cast<StreamCache*>(known);
  std::lock_guard<std::mutex> guard(mutex);
  if (void* known = place.load(std::memory_order_acquire)) return *static_cast<StreamCache*>(known);
  StreamCache* cache = new StreamCache;
  cache->stream = &stream;
  caches.push_back(cache);
  place.store(cache, std::memory_order_release);
  return *cache;
}

Block* MemoryPool::allocate(size_t bytes, Stream& stream) {
  if (__builtin_expect(devices_forked() || devices_closed(), 0)) require_devices();
  if (bytes > kLargest) {
    impl_->out_of_memory.fetch_add(1);
    impl_->out_of_memory_error(bytes);
  }
  StreamCache& cache = impl_->cache_of(stream);
  const int index = size_class(bytes);
  PoolBlock* block;
  if (__builtin_expect(index == kPieceClass, 0)) {
    block = impl_->take_piece(cache, bytes);
  } else {
    FreeList& list = cache.lists[index];
    list.lock.lock();
    block = list.head;
    if (__builtin_expect(block != nullptr, 1)) {
      list.head = block->next;
      ++block->segment->live;
      ++list.allocations;
      ++list.hits;
      list.lock.unlock();
    } else {
      list.lock.unlock();
      block = impl_->refill(cache, index, bytes);
    }
  }
  block->size = bytes;
  block->id = trace::next_id();
  const trace::Context& by = trace::context();
  block->op = by.op;
  block->location = trace::line();
  block->in_use.store(true, std::memory_order_release);

  const uint64_t now = impl_->allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const bool new_peak = now > impl_->peak.load(std::memory_order_relaxed);
  if (new_peak) raise_to(impl_->peak, now);
  if (ral_trace_gauge* gauge = trace::gauge(impl_->device.index())) {
    set_gauge(gauge->allocated, now);
    if (new_peak) set_gauge(gauge->peak, std::max(impl_->lifetime_peak.load(), impl_->peak.load()));
  }
  if (trace::enabled()) emit_buffer(RAL_TRACE_ALLOC, *block, 0);
  return block;
}

void MemoryPool::free(Block* given) noexcept {
  if (!given || devices_forked() || devices_closed()) return;
  PoolBlock& block = pool_block(*given);
  if (!block.in_use.exchange(false, std::memory_order_acq_rel)) {
    log(RAL_LOG_ERROR, "a block was freed twice; the second call is ignored");
    return;
  }
  const uint64_t now = impl_->allocated.fetch_sub(block.size, std::memory_order_relaxed) - block.size;
  if (ral_trace_gauge* gauge = trace::gauge(impl_->device.index())) set_gauge(gauge->allocated, now);
  if (trace::enabled()) emit_buffer(RAL_TRACE_FREE, block, 0);
  const bool defer = used_elsewhere(block);
  if (__builtin_expect(block.segment->pieces != nullptr, 0)) {
    impl_->give_piece(block, defer);
    return;
  }
  FreeList& list = *block.segment->list;
  list.lock.lock();
  PoolBlock*& chain = defer ? list.deferred : list.head;
  block.next = chain;
  chain = &block;
  --block.segment->live;
  ++list.frees;
  list.lock.unlock();
}

PoolBlock* MemoryPool::Impl::take_deferred(FreeList& list) {
  list.lock.lock();
  PoolBlock* chain = list.deferred;
  list.deferred = nullptr;
  // Counted as live while they are in no list, so that nobody retires their segments.
  for (PoolBlock* b = chain; b; b = b->next) ++b->segment->live;
  list.lock.unlock();
  PoolBlock* found = nullptr;
  while (chain) {
    PoolBlock* block = chain;
    chain = chain->next;
    const bool busy = used_elsewhere(*block);
    if (!busy && !found) {
      found = block;
      continue;
    }
    list.lock.lock();
    PoolBlock*& place = busy ? list.deferred : list.head;
    block->next = place;
    place = block;
    --block->segment->live;
    list.lock.unlock();
  }
  return found;
}

// With the list's lock held.
PoolBlock* MemoryPool::Impl::carve(FreeList& list, Segment* segment) {
  const uint32_t index = segment->carved.load(std::memory_order_relaxed);
  PoolBlock* block = new (segment->blocks + index) PoolBlock;
  block->address = segment->base + index * segment->block_bytes;
  block->capacity = segment->block_bytes;
  block->segment = segment;
  block->device = segment->device;
  block->stream = segment->stream;
  segment->carved.store(index + 1, std::memory_order_release);
  list.carving = index + 1 < segment->block_count ? segment : nullptr;
  ++segment->live;
  ++list.allocations;
  return block;
}

PoolBlock* MemoryPool::Impl::refill(StreamCache& cache, int index, size_t asked) {
  FreeList& list = cache.lists[index];
  if (PoolBlock* block = take_deferred(list)) {
    list.lock.lock();
    ++list.allocations;
    ++list.hits;
    list.lock.unlock();
    return block;
  }
  list.lock.lock();
  PoolBlock* block = list.carving ? carve(list, list.carving) : nullptr;
  list.lock.unlock();
  if (block) return block;

  Segment* segment = block_segment(cache, index, asked);
  segment_table::insert(segment, segment->base, segment->bytes);
  std::lock_guard<std::mutex> guard(mutex);
  list.lock.lock();
  list.segments.push_back(segment);
  block = carve(list, segment);
  list.lock.unlock();
  return block;
}

void MemoryPool::Impl::give_piece(PoolBlock& block, bool defer) noexcept {
  PieceList& list = *block.segment->pieces;
  StaleSlots stale;
  list.lock.lock();
  if (defer) {
    block.next = list.deferred;
    list.deferred = &block;
    --block.segment->live;
  } else {
    list.give(&block, stale);
  }
  ++list.frees;
  list.lock.unlock();
  delete_slots(stale);
}

void MemoryPool::Impl::free_deferred(PieceList& list) {
  list.lock.lock();
  PoolBlock* chain = list.deferred;
  list.deferred = nullptr;
  for (PoolBlock* b = chain; b; b = b->next) ++b->segment->live;  // as in take_deferred
  list.lock.unlock();
  while (chain) {
    PoolBlock& block = *chain;
    chain = chain->next;
    const bool busy = used_elsewhere(block);
    StaleSlots stale;
    list.lock.lock();
    if (busy) {
      block.next = list.deferred;
      list.deferred = &block;
      --block.segment->live;
    } else {
      list.give(&block, stale);
    }
    list.lock.unlock();
    delete_slots(stale);
  }
}

PoolBlock* MemoryPool::Impl::take_piece(StreamCache& cache, size_t bytes) {
  PieceList& list = cache.pieces;
  const uint32_t units = units_for(bytes);
  StaleSlots stale;
  list.lock.lock();
  PoolBlock* piece = list.take_exact(units);
  if (!piece && list.deferred) {
    list.lock.unlock();
    free_deferred(list);
    list.lock.lock();
  }
  if (!piece) piece = list.take(units, stale);
  if (piece) {
    ++list.allocations;
    ++list.hits;
  }
  list.lock.unlock();
  delete_slots(stale);
  return piece ? piece : new_piece(cache, units, bytes);
}

PoolBlock* MemoryPool::Impl::new_piece(StreamCache& cache, uint32_t units, size_t asked) {
  Segment* segment = piece_segment(cache, units, asked);
  segment_table::insert(segment, segment->base, segment->bytes);
  PieceList& list = cache.pieces;
  StaleSlots stale;
  std::lock_guard<std::mutex> guard(mutex);
  list.lock.lock();
  PoolBlock* piece = list.add(segment, units, stale);
  ++list.allocations;
  list.lock.unlock();
  return piece;
}

void MemoryPool::empty_cache() {
  require_devices();
  impl_->release_cached(true, false);
}

uint64_t MemoryPool::free_memory() const { return impl_->device_free(impl_->limit()); }

void MemoryPool::set_fraction(double fraction) {
  if (!(fraction > 0 && fraction <= 1))
    throw Error(RAL_ERROR_INVALID_ARGUMENT, "memory fraction " + std::to_string(fraction) + " is not in (0, 1]");
  impl_->fraction.store(fraction);
}

void* MemoryPool::host_address(ral_handle handle) const {
  std::lock_guard<std::mutex> guard(impl_->mutex);
  const auto found = impl_->host_addresses.find(handle);
  if (found == impl_->host_addresses.end())
    throw Error(RAL_ERROR_INVALID_POINTER, "handle " + std::to_string(reinterpret_cast<uintptr_t>(handle)) +
                                               " is no memory of " + device_title(impl_->device));
  return found->second;
}

Block* MemoryPool::find(const void* address) noexcept {
  Segment* segment = segment_table::find(address);
  return segment ? segment->block_at(address) : nullptr;
}

MemoryPlace MemoryPool::place(const void* address, const Device& device) {
  Block* block = find(address);
  if (!live_on(block, device)) refuse_pointer(address, device, block);
  return place_in(*block->segment, address);
}

Pointer MemoryPool::pointer(const void* address, uint64_t bytes, const Device& device) {
  Block* block = find(address);
  if (!live_on(block, device)) refuse_pointer(address, device, block);
  if (!holds(*block, address, bytes)) refuse_span(address, bytes, device, *block);
  return {address, bytes, block->id};
}

MemoryPlace MemoryPool::place(const Pointer& pointer, const Device& device) {
  Block* block = find(pointer.address);
  if (!live_on(block, device)) refuse_pointer(pointer.address, device, block);
  if (block->id != pointer.generation)
    throw Error(RAL_ERROR_INVALID_POINTER,
                shown(pointer.address) + " of generation " + std::to_string(pointer.generation) +
                    " not mapped to device " + std::to_string(device.index()) +
                    "; it was freed, and its memory is generation " + std::to_string(block->id) + "'s now");
  if (!holds(*block, pointer.address, pointer.bytes)) refuse_span(pointer.address, pointer.bytes, device, *block);
  return place_in(*block->segment, pointer.address);
}

}  // namespace ral
