// What is known of a pool: statistics, snapshots, views, uses of blocks, records and gauges of the trace.
#include <algorithm>

#include "devices_internal.h"
#include "pool_impl.h"
#include "pool_internal.h"
#include "ral/trace.h"

namespace ral {

MemoryStats MemoryPool::stats() const {
  MemoryStats out;
  out.allocated = impl_->allocated.load();
  out.allocated_peak = std::max(impl_->peak.load(), out.allocated);
  out.reserved = impl_->reserved.load();
  out.reserved_peak = impl_->reserved_peak.load();
  out.segments = impl_->segments.load();
  out.device_mallocs = impl_->device_mallocs.load();
  out.retries = impl_->retries.load();
  out.out_of_memory = impl_->out_of_memory.load();
  out.live_views = impl_->live_views.load();
  std::lock_guard<std::mutex> guard(impl_->mutex);
  const auto count = [&out](auto& list) {
    list.lock.lock();
    out.allocations += list.allocations;
    out.frees += list.frees;
    out.cache_hits += list.hits;
    list.lock.unlock();
  };
  for (StreamCache* cache : impl_->caches) {
    for (FreeList& list : cache->lists) count(list);
    count(cache->pieces);
  }
  out.active_blocks = out.allocations - out.frees;
  out.allocations -= impl_->allocations_base;
  out.frees -= impl_->frees_base;
  out.cache_hits -= impl_->hits_base;
  return out;
}

void MemoryPool::reset_peak() noexcept {
  raise_to(impl_->lifetime_peak, impl_->peak.load());
  impl_->peak.store(impl_->allocated.load());
  impl_->reserved_peak.store(impl_->reserved.load());
}

void MemoryPool::reset_accumulated() noexcept {
  const MemoryStats now = stats();
  std::lock_guard<std::mutex> guard(impl_->mutex);
  impl_->allocations_base += now.allocations;
  impl_->frees_base += now.frees;
  impl_->hits_base += now.cache_hits;
  impl_->device_mallocs.store(0);
  impl_->retries.store(0);
  impl_->out_of_memory.store(0);
}

namespace {

// What a cached block was before may just be overwritten by who gets it next.
BlockInfo info_of(const PoolBlock& b) {
  if (!b.in_use.load(std::memory_order_acquire)) return {b.address, 0, b.capacity, 0, b.stream->id(), false, 0, 0, {}};
  return {b.address, b.size, b.capacity, b.id, b.stream->id(), true, b.op, b.location, {}};
}

// In address order, free pieces too.
void list_pieces(Segment& segment, SegmentInfo* info) {
  info->blocks.reserve(segment.units());  // nothing is allocated under the lock
  segment.pieces->lock.lock();
  for (uint32_t unit = 0; unit < segment.units();) {
    const PoolBlock& piece = *segment.owners[unit].load(std::memory_order_relaxed);
    info->blocks.push_back(info_of(piece));
    unit += units_for(piece.capacity);
  }
  segment.pieces->lock.unlock();
}

// With the pool's mutex, under which segments are detached: the records stay.
template <typename F>
void for_each_segment(const std::vector<StreamCache*>& caches, F&& use) {
  const auto of_list = [&use](auto& list) {
    list.lock.lock();
    const std::vector<Segment*> segments = list.segments;
    list.lock.unlock();
    for (Segment* segment : segments) use(*segment);
  };
  for (StreamCache* cache : caches) {
    for (FreeList& list : cache->lists) of_list(list);
    of_list(cache->pieces);
  }
}

}  // namespace

std::vector<SegmentInfo> MemoryPool::snapshot() const {
  std::vector<SegmentInfo> out;
  auto views = impl_->views.by_parent();
  std::lock_guard<std::mutex> guard(impl_->mutex);
  for_each_segment(impl_->caches, [&out, &views](Segment& segment) {
    SegmentInfo info{segment.base, segment.bytes, {}};
    if (segment.pieces) {
      list_pieces(segment, &info);
    } else {
      const uint32_t carved = segment.carved.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < carved; ++i) info.blocks.push_back(info_of(segment.blocks[i]));
    }
    for (BlockInfo& block : info.blocks) {
      const auto found = block.in_use ? views.find(block.id) : views.end();
      if (found != views.end()) block.views = std::move(found->second);
    }
    out.push_back(std::move(info));
  });
  return out;
}

uint64_t MemoryPool::begin_view(Block& block, uint64_t byte_offset, uint64_t bytes) {
  const uint64_t id = trace::next_id();
  Impl& impl = *block.device->pool().impl_;
  impl.views.add({id, block.id, byte_offset, bytes});
  const uint64_t now = impl.live_views.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ral_trace_gauge* gauge = trace::gauge(block.device->index())) set_gauge(gauge->live_views, now);
  if (trace::enabled()) emit_view(block, id, byte_offset, bytes);
  return id;
}

void MemoryPool::end_view(Block* block, uint64_t id, uint64_t bytes) noexcept {
  if (!block || devices_forked() || devices_closed()) return;
  Impl& impl = *block->device->pool().impl_;
  impl.views.remove(id);
  const uint64_t now = impl.live_views.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (ral_trace_gauge* gauge = trace::gauge(block->device->index())) set_gauge(gauge->live_views, now);
  if (trace::enabled()) emit_view_end(*block, id, bytes);
}

void MemoryPool::note_use(Block& block, Stream& stream, uint64_t sequence) {
  pool_block(block).uses.note(block.pending, stream, sequence);
}

bool MemoryPool::idle(Block& block) noexcept {
  if (block.pending.load(std::memory_order_acquire) == 0) return true;
  PoolBlock& pooled = pool_block(block);
  for (const BlockUse& use : pooled.uses.copy())
    if (use.stream->complete(use.sequence)) pooled.uses.drop(block.pending, use);
  return block.pending.load(std::memory_order_acquire) == 0;
}

int64_t MemoryPool::wait_idle(Block& block, const char* why) {
  if (block.pending.load(std::memory_order_acquire) == 0) return 0;
  require_devices();
  PoolBlock& pooled = pool_block(block);
  ral_trace_record record = trace::make(RAL_TRACE_SYNC);
  bool waited = false;
  const auto finish = [&]() -> int64_t {
    if (!waited) return 0;
    record.end_ns = trace::now();
    emit_sync(record, *block.device, *block.stream, why);
    return record.end_ns - record.begin_ns;
  };
  for (const BlockUse& use : pooled.uses.copy()) {
    waited = waited || !use.stream->complete(use.sequence);
    try {
      use.stream->wait(use.sequence);
    } catch (...) {
      pooled.uses.drop(block.pending, use);
      finish();
      throw;
    }
    pooled.uses.drop(block.pending, use);
  }
  return finish();
}

void MemoryPool::emit_live_blocks() const {
  std::lock_guard<std::mutex> guard(impl_->mutex);
  for_each_segment(impl_->caches, [](Segment& segment) {
    const uint32_t carved = segment.carved.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < carved; ++i)
      if (segment.blocks[i].in_use.load(std::memory_order_acquire))
        emit_buffer(RAL_TRACE_ALLOC, segment.blocks[i], RAL_TRACE_SNAPSHOT);
  });
}

void MemoryPool::trace_snapshot() {
  if (!DeviceManager::get().discovered() || devices_forked()) return;
  for (int i = 0; i < kMaxDevices; ++i)
    if (Device* device = DeviceManager::get().try_device(i)) device->pool().emit_live_blocks();
}

void MemoryPool::refresh_gauge() const noexcept {
  ral_trace_gauge* gauge = trace::gauge(impl_->device.index());
  if (!gauge) return;
  set_gauge(gauge->allocated, impl_->allocated.load());
  set_gauge(gauge->reserved, impl_->reserved.load());
  set_gauge(gauge->peak, std::max(impl_->lifetime_peak.load(), impl_->peak.load()));
  set_gauge(gauge->live_views, impl_->live_views.load());
  set_gauge(gauge->total, impl_->device.info().total_memory);
}

}  // namespace ral
