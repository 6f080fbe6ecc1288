// A long random life of a pool, shared by test_soak (the tests' plugin) and test_soak_opencl (a driver): allocations, views,
// uses on other streams and frees, with every block's bytes checked.
#pragma once
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "harness.h"

namespace soak {

using namespace ral;

constexpr int kOperations = 200000;

// Addresses in use, over all threads: an allocation that meets another one is an error.
class Extents {
 public:
  bool add(const Block& block) {
    const auto begin = reinterpret_cast<uintptr_t>(block.address), end = begin + block.size;
    std::lock_guard<std::mutex> guard(mutex_);
    const auto after = ends_.lower_bound(begin + 1);
    const bool free_after = after == ends_.end() || after->first >= end;
    const bool free_before = after == ends_.begin() || std::prev(after)->second <= begin;
    ends_[begin] = end;
    return free_after && free_before;
  }
  void remove(const Block& block) {
    std::lock_guard<std::mutex> guard(mutex_);
    ends_.erase(reinterpret_cast<uintptr_t>(block.address));
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;
};

struct Held {
  Block* block;
  unsigned char mark;
  uint64_t view = 0, view_bytes = 0;
};

constexpr size_t kMiB = size_t(1) << 20;
constexpr size_t kLargeHeld = 64 * kMiB;  // of blocks above 4 MiB, at once and a thread

struct Soak {
  MemoryPool& pool;
  std::vector<Stream*> streams;
  // Device work on a stream, shorter or longer; returns its sequence number.
  std::function<uint64_t(Stream&, unsigned)> work;
  Extents extents;
  std::atomic<int> wrong{0};

  void run(unsigned seed, int operations) {
    std::mt19937 random(seed);
    std::vector<Held> held;
    for (int i = 0; i < operations; ++i) {
      const unsigned dice = random() % 16;
      if (held.empty() || (dice < 7 && held.size() < 60))
        take(random, &held);
      else if (dice < 10)
        toggle_view(&held[random() % held.size()]);
      else if (dice < 12)
        use_elsewhere(random, held[random() % held.size()]);
      else
        drop(random, &held);
    }
    while (!held.empty()) drop(random, &held);
  }

 private:
  // Sizes from a byte to 4 MiB, each order of magnitude as often as the others; now and then up to 64 MiB.
  size_t size(std::mt19937& random, const std::vector<Held>& held) {
    if (random() % 32 == 0) {
      const size_t bytes = 4 * kMiB + 1 + random() % (60 * kMiB);
      size_t large = bytes;
      for (const Held& h : held) large += h.block->size > 4 * kMiB ? h.block->size : 0;
      if (large <= kLargeHeld) return bytes;
    }
    return 1 + random() % (size_t(1) << (random() % 23));
  }
  void take(std::mt19937& random, std::vector<Held>* held) {
    const size_t bytes = size(random, *held);
    Block* block = pool.allocate(bytes, *streams[random() % streams.size()]);
    const auto mark = static_cast<unsigned char>(random());
    if (!extents.add(*block)) ++wrong;
    MemoryPool::wait_idle(*block, "soak");
    write(*block, 0, mark);
    write(*block, bytes - 1, mark);
    const auto* data = static_cast<const char*>(block->address);
    if (MemoryPool::find(data + bytes - 1) != block || MemoryPool::find(data) != block) ++wrong;
    held->push_back({block, mark});
  }
  // A byte of the block, by the host where it sees the memory, else by a copy.
  static void write(Block& block, size_t at, unsigned char mark) {
    char* address = static_cast<char*>(block.address) + at;
    if (block.device->host_visible()) {
      *address = static_cast<char>(mark);
      return;
    }
    const MemoryPlace to = MemoryPool::place(address, *block.device);
    block.stream->wait(block.stream->copy_from_host(to.handle, to.offset, &mark, 1, WorkNote()));
  }
  static unsigned char read(Block& block, size_t at) {
    const char* address = static_cast<const char*>(block.address) + at;
    if (block.device->host_visible()) return static_cast<unsigned char>(*address);
    const MemoryPlace from = MemoryPool::place(address, *block.device);
    unsigned char mark = 0;
    block.stream->wait(block.stream->copy_to_host(&mark, from.handle, from.offset, 1, WorkNote()));
    return mark;
  }
  void toggle_view(Held* h) {
    if (h->view) {
      MemoryPool::end_view(h->block, h->view, h->view_bytes);
      h->view = 0;
    } else {
      h->view_bytes = h->block->size / 2;
      h->view = MemoryPool::begin_view(*h->block, h->view_bytes, h->view_bytes);
    }
  }
  void use_elsewhere(std::mt19937& random, const Held& h) {
    Stream& stream = *streams[random() % streams.size()];
    MemoryPool::note_use(*h.block, stream, work(stream, random() % 50));
  }
  void drop(std::mt19937& random, std::vector<Held>* held) {
    std::swap((*held)[random() % held->size()], held->back());
    Held h = held->back();
    held->pop_back();
    if (read(*h.block, 0) != h.mark || read(*h.block, h.block->size - 1) != h.mark) ++wrong;
    if (h.view) MemoryPool::end_view(h.block, h.view, h.view_bytes);
    extents.remove(*h.block);
    pool.free(h.block);
  }
};

// The whole life on `device`, by `threads`; afterwards the pool is as it was before.
inline void run(Device& device, int threads, std::function<uint64_t(Stream&, unsigned)> work) {
  MemoryPool& pool = device.pool();
  Soak life{pool, {&device.default_stream()}, std::move(work), {}};
  for (int i = 0; i < 3; ++i) life.streams.push_back(&device.new_stream(0));
  const MemoryStats before = pool.stats();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&life, t, threads] { life.run(static_cast<unsigned>(t) + 1, kOperations / threads); });
  for (std::thread& worker : workers) worker.join();
  device.synchronize();
  CHECK_EQ(life.wrong.load(), 0);
  const MemoryStats after = pool.stats();
  CHECK_EQ(after.allocated, before.allocated);
  CHECK_EQ(after.active_blocks, before.active_blocks);
  CHECK_EQ(after.live_views, before.live_views);
  CHECK_EQ(after.allocations - after.frees, before.allocations - before.frees);
  CHECK(after.cache_hits > after.allocations / 2);
  pool.empty_cache();
  CHECK_EQ(pool.stats().reserved, before.reserved);
  CHECK_EQ(pool.stats().segments, before.segments);
}

}  // namespace soak
