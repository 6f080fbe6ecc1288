// Allocation: PyTorch's allocator over the RAL's pool, the CPU shim that lets CPU kernels write their
// results straight into pool memory, and pinned memory.
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "adapter.h"
#include "python_line.h"

namespace torch_fl {
namespace {

std::atomic<int64_t> g_foreign{0};
thread_local ral::Device* tls_pool_device = nullptr;

std::atomic<bool> g_history{false};

ral::Block* take(ral::Device& device, size_t bytes) {
  auto* block = guarded([&] { return device.pool().allocate(bytes, current_stream(device)); });
  if (C10_UNLIKELY(g_history.load(std::memory_order_relaxed)))
    if (const auto line = python_line()) block->location = line;
  return block;
}

void give_back(ral::Block* block) noexcept { block->device->pool().free(block); }

// Deleter of CPU tensors whose memory is the pool's and was not adopted.
void free_foreign(void* address) {
  if (auto* block = ral::MemoryPool::find(address)) {
    g_foreign.fetch_sub(1, std::memory_order_relaxed);
    give_back(block);
  } else {
    c10::free_cpu(address);
  }
}

c10::CachingDeviceAllocator::Stat stat(uint64_t current, uint64_t peak) {
  c10::CachingDeviceAllocator::Stat s;
  s.current = static_cast<int64_t>(current);
  s.peak = static_cast<int64_t>(peak);
  return s;
}

struct Allocator final : public c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    ensure_cpu_shim();
    auto& device = device_at(-1);
    if (bytes == 0) {
      return c10::DataPtr(nullptr, nullptr, &c10::detail::deleteNothing,
                          c10::Device(kRal, static_cast<c10::DeviceIndex>(device.index())));
    }
    return data_ptr_of(take(device, bytes));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dst, const void* src, size_t bytes) const override {
    auto* to = ral::MemoryPool::find(dst);
    auto* from = ral::MemoryPool::find(src);
    TORCH_CHECK(to && from, "ral: copy_data between addresses that are not this device's memory");
    ral::MemoryPool::wait_idle(*from, "copy");
    ral::MemoryPool::wait_idle(*to, "copy");
    if (to->device->host_visible() && from->device->host_visible()) {
      std::memcpy(dst, src, bytes);
      return;
    }
    guarded([&] {
      auto& stream = current_stream(*to->device);
      const auto a = ral::MemoryPool::place(dst, *to->device), b = ral::MemoryPool::place(src, *from->device);
      stream.wait(stream.copy_on_device(a.handle, a.offset, b.handle, b.offset, bytes, {}));
    });
  }
  bool initialized() override { return ral::DeviceManager::get().discovered(); }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    auto& manager = ral::DeviceManager::get();
    if (!manager.discovered()) return;
    for (int i = 0; i < manager.count(); ++i) guarded([&] { manager.device(i).pool().empty_cache(); });
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (auto* block = ral::MemoryPool::find(data.get())) {
      auto& target = to_ral(stream);
      ral::MemoryPool::note_use(*block, target, target.submitted());
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const auto s = device_at(index).pool().stats();
    c10::CachingDeviceAllocator::DeviceStats out;
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    out.allocated_bytes[all] = stat(s.allocated, s.allocated_peak);
    out.reserved_bytes[all] = stat(s.reserved, s.reserved_peak);
    out.active_bytes[all] = stat(s.allocated, s.allocated_peak);
    out.requested_bytes[all] = stat(s.allocated, s.allocated_peak);
    out.allocation[all] = stat(s.active_blocks, s.active_blocks);
    out.segment[all] = stat(s.segments, s.segments);
    out.num_alloc_retries = static_cast<int64_t>(s.retries);
    out.num_ooms = static_cast<int64_t>(s.out_of_memory);
    out.num_device_alloc = static_cast<int64_t>(s.device_mallocs);
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { device_at(index).pool().reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex index) override { device_at(index).pool().reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    auto& device = device_at(index);
    return {device.pool().free_memory(), device.info().total_memory};
  }
};

Allocator g_allocator;
REGISTER_ALLOCATOR(kRal, &g_allocator);

// CPU allocator in front of PyTorch's own: pool memory inside a PoolScope, else PyTorch's.
struct CpuShim final : public c10::Allocator {
  c10::Allocator* base = nullptr;
  c10::DataPtr allocate(size_t bytes) override {
    if (C10_LIKELY(tls_pool_device == nullptr) || bytes == 0) return base->allocate(bytes);
    auto* block = take(*tls_pool_device, bytes);
    ral::MemoryPool::wait_idle(*block, "reuse");
    g_foreign.fetch_add(1, std::memory_order_relaxed);
    return c10::DataPtr(block->address, block->address, &free_foreign, c10::Device(c10::kCPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_foreign; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }
};
CpuShim g_shim;
std::once_flag g_shim_once;
std::atomic<bool> g_shim_ready{false};

// Pinned memory of devices that are not host-visible: plain host memory, remembered so that it is known as pinned.
// (Plugins have no call for page-locked memory; their copies take any.)
class PinnedRanges {
 public:
  c10::DataPtr allocate(size_t bytes) {
    void* address = c10::alloc_cpu(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    ranges_[reinterpret_cast<uintptr_t>(address)] = bytes;
    return c10::DataPtr(address, address, &free_pinned, c10::Device(c10::kCPU));
  }
  bool contains(const void* data) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    std::lock_guard<std::mutex> lock(mutex_);
    const auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return address < begin + bytes;
  }

 private:
  static void free_pinned(void* address);
  std::mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;
};
PinnedRanges& pinned_ranges() {
  static auto& all = *new PinnedRanges;
  return all;
}
void PinnedRanges::free_pinned(void* address) {
  auto& all = pinned_ranges();
  {
    std::lock_guard<std::mutex> lock(all.mutex_);
    all.ranges_.erase(reinterpret_cast<uintptr_t>(address));
  }
  c10::free_cpu(address);
}

struct PinnedAllocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto& device = device_at(-1);
    if (bytes == 0) return c10::GetCPUAllocator()->allocate(bytes);
    if (!device.host_visible()) return pinned_ranges().allocate(bytes);
    ensure_cpu_shim();
    auto* block = take(device, bytes);
    ral::MemoryPool::wait_idle(*block, "reuse");
    return c10::DataPtr(block->address, block->address, &free_block, c10::Device(c10::kCPU));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }
};
PinnedAllocator g_pinned;

}  // namespace

c10::Allocator* allocator() { return &g_allocator; }
c10::Allocator* pinned_allocator() { return &g_pinned; }
bool is_pinned(const void* data) { return ral::MemoryPool::find(data) != nullptr || pinned_ranges().contains(data); }

void free_block(void* address) {
  if (auto* block = ral::MemoryPool::find(address)) give_back(block);
}

c10::DataPtr data_ptr_of(ral::Block* block) {
  return c10::DataPtr(block->address, block->address, &free_block,
                      c10::Device(kRal, static_cast<c10::DeviceIndex>(block->device->index())));
}

// At the first ral allocation, not at import: until then nobody's CPU allocations pass through us.
void ensure_cpu_shim() {
  if (C10_LIKELY(g_shim_ready.load(std::memory_order_acquire))) return;
  std::call_once(g_shim_once, [] {
    g_shim.base = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&g_shim, 100);
    g_shim_ready.store(true, std::memory_order_release);
  });
}

void record_memory_history(bool on) noexcept { g_history.store(on); }

PoolScope::PoolScope(ral::Device* device) noexcept : previous_(tls_pool_device) { tls_pool_device = device; }
PoolScope::~PoolScope() { tls_pool_device = previous_; }

int64_t foreign_cpu_blocks() noexcept { return g_foreign.load(std::memory_order_relaxed); }
void note_adopted() noexcept { g_foreign.fetch_sub(1, std::memory_order_relaxed); }
bool is_foreign_deleter(c10::DeleterFnPtr deleter) noexcept { return deleter == &free_foreign; }

ral::Block* block_of(const at::Tensor& t) noexcept {
  if (!t.defined() || !t.has_storage()) return nullptr;
  return ral::MemoryPool::find(t.storage().data());
}

}  // namespace torch_fl
