// The caching pool: free lists per stream and size class, segments, and what to do when memory runs out.
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

std::atomic<void (*)(void*)> g_slot_deleter{nullptr};

std::string readable(uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

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
  FreeList& list = cache.lists[index];
  list.lock.lock();
  PoolBlock* block = list.head;
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

  Segment* segment = create_segment(cache, index, asked);
  segment_table::insert(segment, segment->base, segment->bytes);
  std::lock_guard<std::mutex> guard(mutex);
  list.lock.lock();
  list.segments.push_back(segment);
  block = carve(list, segment);
  list.lock.unlock();
  return block;
}

Segment* MemoryPool::Impl::create_segment(StreamCache& cache, int index, size_t asked) {
  if (device.lost())
    throw Error(RAL_ERROR_DEVICE_LOST, device_title(device) + " is lost; its memory and work are gone");
  const bool large = index >= kSmallClasses;
  const uint64_t block_bytes = class_bytes(index);
  const uint64_t bytes = large ? block_bytes : kGranule;
  Segment* segment = new_segment_record(large ? 1 : static_cast<uint32_t>(kGranule / block_bytes));
  segment->block_bytes = block_bytes;
  segment->reciprocal = ((uint64_t(1) << 43) + block_bytes - 1) / block_bytes;
  segment->device = &device;
  segment->stream = cache.stream;
  segment->list = &cache.lists[index];
  segment->bytes = bytes;

  // Cached blocks of other classes do not pile up: beyond a quarter of the device they go back first.
  const uint64_t held = reserved.load(), used = allocated.load();
  if (large && held > used && held - used + bytes > device.info().total_memory / 4) release_cached(false, true);
  bool got = obtain(segment, bytes);
  if (!got) {
    retries.fetch_add(1);
    if (release_cached(true, false) > 0) got = obtain(segment, bytes);
  }
  if (!got) {
    retire_segment_record(segment);
    out_of_memory.fetch_add(1);
    out_of_memory_error(asked);
  }
  segments.fetch_add(1);
  if (!device.used()) device_changed(device);
  return segment;
}

bool MemoryPool::Impl::obtain(Segment* segment, uint64_t bytes) {
  const uint64_t now = reserved.fetch_add(bytes) + bytes;
  bool ok = false;
  try {
    ok = now <= limit() && (obtain_import(segment, bytes) || obtain_plugin(segment, bytes));
  } catch (...) {
    reserved.fetch_sub(bytes);
    retire_segment_record(segment);
    throw;
  }
  if (!ok) {
    reserved.fetch_sub(bytes);
    return false;
  }
  raise_to(reserved_peak, now);
  if (ral_trace_gauge* gauge = trace::gauge(device.index())) set_gauge(gauge->reserved, reserved.load());
  device_mallocs.fetch_add(1);
  // Fresh pages cost more than most kernels: ask for huge ones.
  if (device.is_cpu() && segment->origin != Origin::Reserved && bytes >= kGranule)
    madvise(segment->base, bytes, MADV_HUGEPAGE);
  if (needs_host_copies(device)) {
    std::lock_guard<std::mutex> guard(mutex);
    host_addresses[segment->handle] = segment->base - segment->handle_offset;
  }
  return true;
}

bool MemoryPool::Impl::obtain_import(Segment* segment, uint64_t bytes) {
  const ral_memory_table& table = *device.plugin().memory;
  if (!device.host_visible() || !table.import_host || !table.release_import || !import_works.load()) return false;
  void* mapping = map_aligned(bytes, kGranule, PROT_READ | PROT_WRITE);
  if (!mapping) return false;
  ral_memory memory = {};
  const ral_status status = table.import_host(device.plugin_index(), mapping, bytes, &memory);
  if (status != RAL_SUCCESS) {
    munmap(mapping, bytes);
    if (status != RAL_ERROR_OUT_OF_MEMORY) import_works.store(false);
    return false;
  }
  segment->origin = Origin::Imported;
  segment->base = static_cast<char*>(mapping);
  segment->handle = memory.handle;
  segment->handle_offset = 0;
  segment->mapping = mapping;
  segment->mapping_bytes = bytes;
  return true;
}

bool MemoryPool::Impl::obtain_plugin(Segment* segment, uint64_t bytes) {
  const ral_memory_table& table = *device.plugin().memory;
  const bool visible = device.host_visible();
  ral_memory memory = {};
  // Address space only: the pages around an aligned piece are never touched.
  const ral_status status = table.malloc(device.plugin_index(), visible ? bytes + kGranule : bytes, &memory);
  if (status == RAL_ERROR_OUT_OF_MEMORY) return false;
  device.check(status, "memory allocation");
  if (visible) {
    if (!memory.host_address) {
      table.free(device.plugin_index(), memory.handle);
      throw Error(RAL_ERROR_INTERNAL,
                  device_title(device) + ": its plugin says HOST_VISIBLE but malloc gave no host_address");
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(memory.host_address);
    const uintptr_t aligned = (address + kGranule - 1) & ~(kGranule - 1);
    segment->origin = Origin::Plugin;
    segment->base = reinterpret_cast<char*>(aligned);
    segment->handle_offset = aligned - address;
  } else {
    segment->mapping_bytes = (bytes + kGranule - 1) & ~(kGranule - 1);
    segment->mapping = map_aligned(segment->mapping_bytes, kGranule, PROT_NONE);
    if (!segment->mapping) {
      table.free(device.plugin_index(), memory.handle);
      return false;
    }
    segment->origin = Origin::Reserved;
    segment->base = static_cast<char*>(segment->mapping);
    segment->handle_offset = 0;
  }
  segment->handle = memory.handle;
  return true;
}

uint64_t MemoryPool::Impl::release_cached(bool wait, bool large_only) {
  std::vector<Segment*> detached;
  {
    std::lock_guard<std::mutex> guard(mutex);
    for (StreamCache* cache : caches) {
      for (int index = large_only ? kSmallClasses : 0; index < kClasses; ++index) {
        FreeList& list = cache->lists[index];
        list.lock.lock();
        const size_t before = detached.size();
        for (size_t i = 0; i < list.segments.size();) {
          Segment* segment = list.segments[i];
          bool unused = segment->live == 0;
          for (uint32_t k = 0; unused && !wait && k < segment->carved.load(); ++k)
            unused = segment->blocks[k].pending.load() == 0 || idle(segment->blocks[k]);
          if (!unused) {
            ++i;
            continue;
          }
          segment->retiring = true;
          if (list.carving == segment) list.carving = nullptr;
          detached.push_back(segment);
          list.segments[i] = list.segments.back();
          list.segments.pop_back();
        }
        if (detached.size() > before) {
          for (PoolBlock** chain : {&list.head, &list.deferred}) {
            PoolBlock** place = chain;
            while (*place) {
              if ((*place)->segment->retiring)
                *place = (*place)->next;
              else
                place = &(*place)->next;
            }
          }
        }
        list.lock.unlock();
      }
    }
  }
  uint64_t bytes = 0;
  for (Segment* segment : detached) {
    bytes += segment->bytes;
    give_back(segment);
  }
  return bytes;
}

void MemoryPool::Impl::give_back(Segment* segment) noexcept {
  auto* deleter = g_slot_deleter.load();
  for (uint32_t i = 0; i < segment->carved.load(); ++i) {
    PoolBlock& block = segment->blocks[i];
    for (const BlockUse& use : block.uses.copy()) settle(*use.stream, use.sequence);
    if (void* slot = block.slot.exchange(nullptr)) {
      if (deleter) deleter(slot);
    }
  }
  segment_table::remove(segment->base, segment->bytes);
  const ral_memory_table& table = *device.plugin().memory;
  const int plugin_index = device.plugin_index();
  const ral_status status = segment->origin == Origin::Imported ? table.release_import(plugin_index, segment->handle)
                                                                : table.free(plugin_index, segment->handle);
  if (status != RAL_SUCCESS) {
    log(RAL_LOG_WARNING,
        device_title(device) + ": memory could not be given back: " + code_name(status) + " " + device.last_error());
  }
  if (segment->mapping) munmap(segment->mapping, segment->mapping_bytes);
  segment->mapping = nullptr;
  {
    std::lock_guard<std::mutex> guard(mutex);
    host_addresses.erase(segment->handle);
  }
  const uint64_t now = reserved.fetch_sub(segment->bytes) - segment->bytes;
  segments.fetch_sub(1);
  if (ral_trace_gauge* gauge = trace::gauge(device.index())) set_gauge(gauge->reserved, now);
  retire_segment_record(segment);
}

uint64_t MemoryPool::Impl::device_free(uint64_t total_limit) const noexcept {
  const uint64_t held = reserved.load();
  const uint64_t ours = total_limit > held ? total_limit - held : 0;
  uint64_t free_now = 0;
  const ral_device_table& table = *device.plugin().device;
  if (table.free_memory && table.free_memory(device.plugin_index(), &free_now) == RAL_SUCCESS)
    return std::min(free_now, ours);
  return ours;
}

void MemoryPool::Impl::out_of_memory_error(size_t asked) const {
  const uint64_t in_use = allocated.load(), held = reserved.load(), most = limit();
  const uint64_t largest = device.info().max_allocation;
  std::string text = "asked for " + readable(asked) + " (" + std::to_string(asked) + " bytes) on " +
                     device_title(device) + ": " + readable(in_use) + " in use, " +
                     readable(held > in_use ? held - in_use : 0) + " cached, " + readable(device_free(most)) +
                     " free of " + readable(most);
  if (largest && asked > largest) text += "; its largest single allocation is " + readable(largest);
  throw Error(RAL_ERROR_OUT_OF_MEMORY, text + ". Free tensors that are not needed, or use a smaller batch");
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
  if (block && block->device == &device && block->in_use.load(std::memory_order_acquire)) {
    const Segment& segment = *block->segment;
    return {segment.handle,
            segment.handle_offset + static_cast<uint64_t>(static_cast<const char*>(address) - segment.base)};
  }
  char text[64];
  std::snprintf(text, sizeof text, "buffer 0x%" PRIxPTR, reinterpret_cast<uintptr_t>(address));
  std::string why;
  if (block && block->device != &device)
    why = "; it belongs to device " + std::to_string(block->device->index());
  else if (block)
    why = "; it was freed";
  throw Error(RAL_ERROR_INVALID_POINTER,
              std::string(text) + " not mapped to device " + std::to_string(device.index()) + why);
}

void MemoryPool::set_slot_deleter(void (*deleter)(void*)) noexcept { g_slot_deleter.store(deleter); }

}  // namespace ral
