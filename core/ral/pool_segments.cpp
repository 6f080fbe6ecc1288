// Where the pool's memory comes from and how it goes back: segments from the device, and what to do when there are none.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "devices_internal.h"
#include "pool_impl.h"
#include "pool_internal.h"
#include "ral/log.h"
#include "ral/trace.h"
#include "segment_table.h"

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

uint64_t round_up(uint64_t bytes, uint64_t multiple) noexcept { return (bytes + multiple - 1) / multiple * multiple; }

constexpr int kMostTries = 16;  // to get memory, each after giving back what is cached

}  // namespace

void MemoryPool::set_slot_deleter(void (*deleter)(void*)) noexcept { g_slot_deleter.store(deleter); }

void delete_slots(const StaleSlots& stale) noexcept {
  if (stale.count == 0) return;
  auto* deleter = g_slot_deleter.load();
  for (int i = 0; deleter && i < stale.count; ++i) deleter(stale.slots[i]);
}

Segment* MemoryPool::Impl::block_segment(StreamCache& cache, int index, size_t asked) {
  const bool apart = index >= kSmallClasses;
  const uint64_t block_bytes = class_bytes(index);
  const uint64_t bytes = apart ? block_bytes : kGranule;
  Segment* segment = new_segment_record(apart ? 1 : static_cast<uint32_t>(kGranule / block_bytes));
  segment->block_bytes = block_bytes;
  segment->reciprocal = ((uint64_t(1) << 43) + block_bytes - 1) / block_bytes;
  segment->stream = cache.stream;
  segment->list = &cache.lists[index];
  fill_segment(segment, bytes, bytes, asked);
  return segment;
}

Segment* MemoryPool::Impl::piece_segment(StreamCache& cache, uint32_t units, size_t asked) {
  const uint64_t least = uint64_t(units) << kUnitBits;
  const uint64_t usual = units <= kSharedRequest ? uint64_t(kSharedUnits) << kUnitBits : round_up(least, kGranule);
  std::vector<Segment*> too_small;
  {
    std::lock_guard<std::mutex> guard(mutex);
    cache.pieces.lock.lock();
    cache.pieces.detach(false, units, usual, &too_small);
    cache.pieces.lock.unlock();
    ++returning;
  }
  give_back(too_small);
  Segment* segment = new_pieces_record(static_cast<uint32_t>(usual >> kUnitBits));
  segment->stream = cache.stream;
  segment->pieces = &cache.pieces;
  fill_segment(segment, usual, least, asked);
  return segment;
}

// Memory for a segment: `usual` bytes, or `least` where the device cannot give those.
void MemoryPool::Impl::fill_segment(Segment* segment, uint64_t usual, uint64_t least, size_t asked) {
  segment->device = &device;
  try {
    if (device.lost())
      throw Error(RAL_ERROR_DEVICE_LOST, device_title(device) + " is lost; its memory and work are gone");
    // Cached blocks of other sizes do not pile up: beyond a quarter of the device they go back first.
    const uint64_t held = reserved.load(), used = allocated.load();
    if (usual > kGranule && held > used && held - used + usual > device.info().total_memory / 4)
      release_cached(false, true);
    const auto got = [&] { return obtain(segment, usual) || (least < usual && obtain(segment, least)); };
    // Other threads take and give back meanwhile: again as long as anything came back, but not for ever.
    for (int tries = 0;; ++tries) {
      const uint64_t seen = given_back.load();
      if (got()) break;
      if (tries == 0) retries.fetch_add(1);
      release_cached(true, false);
      {
        std::unique_lock<std::mutex> guard(mutex);
        returned.wait(guard, [this] { return returning == 0; });
      }
      if (given_back.load() != seen && tries < kMostTries) continue;
      out_of_memory.fetch_add(1);
      out_of_memory_error(asked);
    }
  } catch (...) {
    retire_segment_record(segment);
    throw;
  }
  segments.fetch_add(1);
  if (!device.used()) device_changed(device);
}

bool MemoryPool::Impl::obtain(Segment* segment, uint64_t bytes) {
  const uint64_t now = reserved.fetch_add(bytes) + bytes;
  bool ok = false;
  try {
    ok = now <= limit() && (obtain_import(segment, bytes) || obtain_plugin(segment, bytes));
  } catch (...) {
    reserved.fetch_sub(bytes);
    throw;
  }
  if (!ok) {
    reserved.fetch_sub(bytes);
    return false;
  }
  segment->bytes = bytes;
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
    segment->mapping_bytes = round_up(bytes, kGranule);
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

void MemoryPool::Impl::release_cached(bool wait, bool large_only) {
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
      cache->pieces.lock.lock();
      cache->pieces.detach(wait, ~uint32_t(0), ~uint64_t(0), &detached);
      cache->pieces.lock.unlock();
    }
    ++returning;
  }
  give_back(detached);
}

// Ends what ++returning began.
void MemoryPool::Impl::give_back(const std::vector<Segment*>& detached) noexcept {
  for (Segment* segment : detached) give_back(segment);
  std::lock_guard<std::mutex> guard(mutex);
  if (--returning == 0) returned.notify_all();
}

void MemoryPool::Impl::give_back(Segment* segment) noexcept {
  for (uint32_t i = 0; i < segment->carved.load(); ++i) {
    PoolBlock& block = segment->blocks[i];
    for (const BlockUse& use : block.uses.copy()) settle(*use.stream, use.sequence);
    StaleSlots stale;
    stale.take(block);
    delete_slots(stale);
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
  given_back.fetch_add(1);
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

}  // namespace ral
