// MemoryPool: reuse, look-up, streams, running out of memory, and giving memory back.
#include <sys/mman.h>

#include <set>
#include <thread>

#include "harness.h"

using namespace ral;
using harness::Fixture;

TEST(freed_block_is_reused) {
  Fixture f;
  Block* a = f.pool->allocate(1000, *f.stream);
  CHECK_EQ(a->size, 1000u);
  CHECK_EQ(a->capacity, 1024u);
  CHECK_EQ(reinterpret_cast<uintptr_t>(a->address) % 64, 0u);
  CHECK(a->in_use && a->device == f.device && a->stream == f.stream);
  void* address = a->address;
  const uint64_t id = a->id;
  f.pool->free(a);
  Block* b = f.pool->allocate(900, *f.stream);
  CHECK_EQ(b->address, address);
  CHECK(b->id != id);
  Block* c = f.pool->allocate(900, *f.stream);
  CHECK(c->address != address);
  CHECK_EQ(f.pool->stats().device_mallocs, 1u);
  CHECK_EQ(f.pool->stats().cache_hits, 1u);
  CHECK_EQ(f.control->get("mallocs"), 1);
  CHECK(f.device->used());
}

TEST(blocks_do_not_overlap) {
  Fixture f;
  std::set<std::pair<uintptr_t, uintptr_t>> ranges;
  std::vector<size_t> sizes = {0,     1,      255,           256,     257,           4000,
                               70000, 300000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20};
  for (int round = 0; round < 40; ++round) {
    for (size_t bytes : sizes) {
      Block* b = f.pool->allocate(bytes, *f.stream);
      CHECK(b->capacity >= bytes);
      if (bytes < 300000) memset(b->address, round, bytes);
      const uintptr_t begin = reinterpret_cast<uintptr_t>(b->address);
      ranges.insert({begin, begin + b->capacity});
    }
  }
  CHECK_EQ(ranges.size(), 40 * sizes.size());
  uintptr_t end = 0;
  for (const auto& range : ranges) {
    CHECK(range.first >= end);
    end = range.second;
  }
}

TEST(find_and_place) {
  Fixture f;
  Block* small = f.pool->allocate(300, *f.stream);
  Block* large = f.pool->allocate(3 << 20, *f.stream);
  for (Block* b : {small, large}) {
    char* at = static_cast<char*>(b->address);
    for (size_t offset : {size_t(0), size_t(1), b->capacity - 1}) {
      CHECK_EQ(MemoryPool::find(at + offset), b);
      const MemoryPlace place = MemoryPool::place(at + offset, *f.device);
      CHECK_EQ(static_cast<void*>(static_cast<char*>(place.handle) + place.offset), static_cast<void*>(at + offset));
    }
  }
  CHECK(MemoryPool::find(static_cast<char*>(small->address) + 320) != small);
  int local = 0;
  CHECK(MemoryPool::find(&local) == nullptr);
  CHECK(MemoryPool::find(nullptr) == nullptr);
  CHECK(MemoryPool::find(reinterpret_cast<void*>(~uintptr_t(0))) == nullptr);
  CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"buffer 0x1000 not mapped to device 0"}),
               MemoryPool::place(reinterpret_cast<void*>(0x1000), *f.device));
  f.pool->free(small);
  CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"not mapped to device 0", "freed"}),
               MemoryPool::place(small->address, *f.device));
}

TEST(pointers_past_the_end_are_unknown) {
  Fixture f;
  Block* block = f.pool->allocate(64 << 20, *f.stream);
  char* end = static_cast<char*>(block->address) + block->capacity;
  CHECK_EQ(MemoryPool::find(end - 1), block);
  CHECK(MemoryPool::find(end) != block);
  for (char* outside : {end, end + (uint64_t(1) << 40), static_cast<char*>(block->address) - 1})
    CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"RAL_ERROR_INVALID_POINTER: buffer 0x", "not mapped to device 0"}),
                 MemoryPool::place(outside, *f.device));
}

TEST(a_kept_pointer_knows_its_generation) {
  Fixture f;
  for (size_t bytes : {size_t(300), size_t(3) << 20}) {
    Block* block = f.pool->allocate(bytes, *f.stream);
    char* inside = static_cast<char*>(block->address) + 100;
    const Pointer kept = MemoryPool::pointer(inside, bytes - 100, *f.device);
    CHECK_EQ(kept.generation, block->id);
    const MemoryPlace place = MemoryPool::place(kept, *f.device);
    CHECK_EQ(static_cast<void*>(static_cast<char*>(place.handle) + place.offset), static_cast<void*>(inside));
    CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"reach past the end", "block of " + std::to_string(bytes) + " bytes"}),
                 MemoryPool::pointer(inside, bytes - 99, *f.device));
    CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"reach past the end"}),
                 MemoryPool::place(Pointer{inside, ~uint64_t(0), kept.generation}, *f.device));
    f.pool->free(block);
    CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"not mapped to device 0", "freed"}), MemoryPool::place(kept, *f.device));
    Block* again = f.pool->allocate(bytes, *f.stream);
    CHECK_EQ(again->address, static_cast<void*>(inside - 100));
    CHECK_THROWS(RAL_ERROR_INVALID_POINTER,
                 ({"generation " + std::to_string(kept.generation) + " not mapped to device 0",
                   "generation " + std::to_string(again->id) + "'s now"}),
                 MemoryPool::place(kept, *f.device));
    MemoryPool::place(MemoryPool::pointer(inside, bytes - 100, *f.device), *f.device);
    f.pool->free(again);
  }
}

TEST(place_on_another_device) {
  Fixture f({{"DEVICES", "2"}});
  Device& second = DeviceManager::get().device(1);
  Block* b = f.pool->allocate(64, *f.stream);
  CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"not mapped to device 1", "belongs to device 0"}),
               MemoryPool::place(b->address, second));
}

TEST(memory_that_is_not_host_visible) {
  Fixture f({{"VISIBLE", "0"}});
  Block* b = f.pool->allocate(4096, *f.stream);
  const char text[] = "hidden";
  char back[sizeof text] = {};
  const MemoryPlace place = MemoryPool::place(static_cast<char*>(b->address) + 100, *f.device);
  f.stream->copy_from_host(place.handle, place.offset, text, sizeof text, WorkNote());
  f.stream->wait(f.stream->copy_to_host(back, place.handle, place.offset, sizeof text, WorkNote()));
  CHECK_EQ(std::string(back), text);
  unsigned char resident = 0;  // the address names memory that cannot be read
  CHECK_EQ(
      mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(b->address) & ~uintptr_t(4095)), 4096, &resident), 0);
  int pipe_ends[2];
  CHECK_EQ(pipe(pipe_ends), 0);
  CHECK_EQ(::write(pipe_ends[1], b->address, 1), -1);
}

TEST(import_of_own_memory) {
  Fixture f({{"IMPORT", "1"}});
  Block* b = f.pool->allocate(3 << 20, *f.stream);
  memset(b->address, 7, 3 << 20);
  CHECK_EQ(f.control->get("imports"), 1);
  CHECK_EQ(f.control->get("mallocs"), 0);
  f.pool->free(b);
  f.pool->empty_cache();
  CHECK_EQ(f.control->get("released_imports"), 1);
  CHECK_EQ(f.pool->stats().reserved, 0u);
}

TEST(own_stream_gets_a_pending_block_at_once) {
  Fixture f;
  Block* a = f.pool->allocate(4096, *f.stream);
  MemoryPool::note_use(*a, *f.stream, f.slow(*f.stream, 200000));
  CHECK(!MemoryPool::idle(*a));
  f.pool->free(a);
  Block* b = f.pool->allocate(4096, *f.stream);
  CHECK_EQ(a, b);
  CHECK(b->pending.load() != 0);
  CHECK(MemoryPool::wait_idle(*b, "host op") > 50000000);
  CHECK(MemoryPool::idle(*b));
  CHECK_EQ(b->pending.load(), 0u);
  CHECK_EQ(MemoryPool::wait_idle(*b, "host op"), 0);
}

TEST(block_used_on_another_stream_is_held_back) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  Block* a = f.pool->allocate(4096, *f.stream);
  const uint64_t sequence = f.slow(other, 200000);
  MemoryPool::note_use(*a, other, sequence);
  f.pool->free(a);
  Block* b = f.pool->allocate(4096, *f.stream);
  CHECK(b != a);
  other.wait(sequence);
  Block* c = f.pool->allocate(4096, *f.stream);
  CHECK_EQ(c, a);
  CHECK_EQ(c->pending.load(), 0u);
}

TEST(uses_on_many_streams) {
  Fixture f;
  Block* a = f.pool->allocate(4096, *f.stream);
  std::vector<Stream*> streams;
  for (int i = 0; i < 9; ++i) streams.push_back(&f.device->new_stream(0));
  for (int round = 0; round < 3; ++round)
    for (Stream* s : streams) MemoryPool::note_use(*a, *s, f.slow(*s, 1000));
  CHECK_EQ(a->pending.load(), 9u);  // one entry a stream, its last use
  MemoryPool::wait_idle(*a, "host op");
  CHECK_EQ(a->pending.load(), 0u);
  for (Stream* s : streams) CHECK(s->query());
}

TEST(out_of_memory_names_the_sizes) {
  Fixture f({{"MEMORY", "104857600"}});  // 100 MiB
  Block* a = f.pool->allocate(40 << 20, *f.stream);
  f.pool->free(f.pool->allocate(20 << 20, *f.stream));
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY,
               ({"RAL_ERROR_OUT_OF_MEMORY", "asked for 80.00 MiB (83886080 bytes)", "ral:0 (Test device 0)",
                 "40.00 MiB in use", "free of 100.00 MiB"}),
               f.pool->allocate(80 << 20, *f.stream));
  CHECK_EQ(f.pool->stats().out_of_memory, 1u);
  CHECK_EQ(f.pool->stats().allocated, uint64_t(40) << 20);
  f.pool->free(a);
  Block* b = f.pool->allocate(80 << 20, *f.stream);  // the caches go back first
  CHECK(b != nullptr);
  CHECK(f.pool->stats().retries >= 1);
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY, ({"asked for"}), f.pool->allocate(~size_t(0), *f.stream));
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY, ({"largest single allocation"}), f.pool->allocate(size_t(1) << 46, *f.stream));
}

TEST(retry_waits_for_pending_uses) {
  Fixture f({{"MEMORY", "104857600"}});
  Block* a = f.pool->allocate(60 << 20, *f.stream);
  const uint64_t sequence = f.slow(*f.stream, 100000);
  MemoryPool::note_use(*a, *f.stream, sequence);
  f.pool->free(a);
  Block* b = f.pool->allocate(80 << 20, *f.stream);
  CHECK(b != nullptr);
  CHECK(f.stream->complete(sequence));
}

TEST(fraction_limits_the_pool) {
  Fixture f({{"MEMORY", "104857600"}});
  f.pool->set_fraction(0.5);
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY, ({"of 50.00 MiB"}), f.pool->allocate(60 << 20, *f.stream));
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"fraction"}), f.pool->set_fraction(0));
  CHECK(f.pool->allocate(30 << 20, *f.stream) != nullptr);
}

static uint64_t free_memory_with(const char* fraction, uint64_t* total) {
  harness::Sandbox box;
  setenv("RAL_MEMORY_FRACTION", fraction, 1);
  box.install_alpha();
  Device& device = DeviceManager::get().device(0);
  *total = device.info().total_memory;
  return device.pool().free_memory();
}

TEST(fraction_from_the_environment) {
  uint64_t total = 0;
  const uint64_t left = free_memory_with("0.25", &total);
  CHECK_EQ(left, total / 4);
}

TEST(bad_fraction_in_the_environment_is_ignored) {
  uint64_t total = 0;
  const uint64_t left = free_memory_with("two", &total);
  CHECK_EQ(left, total);
}

TEST(empty_cache_returns_what_is_unused) {
  Fixture f;
  Block* keep = f.pool->allocate(1000, *f.stream);
  Block* gone = f.pool->allocate(1000, *f.stream);
  Block* other_class = f.pool->allocate(5000, *f.stream);
  Block* large = f.pool->allocate(9 << 20, *f.stream);
  int deleted = 0;
  static int* counter;
  counter = &deleted;
  MemoryPool::set_slot_deleter([](void* slot) { *counter += slot == counter; });
  large->slot.store(counter);
  keep->slot.store(counter);
  void* old_address = large->address;
  f.pool->free(gone);
  f.pool->free(other_class);
  f.pool->free(large);
  CHECK_EQ(f.pool->stats().segments, 3u);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().segments, 1u);
  CHECK_EQ(f.pool->stats().reserved, uint64_t(2) << 20);
  CHECK_EQ(f.control->get("frees"), 2);
  CHECK_EQ(deleted, 1);
  CHECK(MemoryPool::find(old_address) == nullptr);
  CHECK_EQ(MemoryPool::find(keep->address), keep);
  CHECK(f.pool->allocate(1000, *f.stream) != nullptr);
  CHECK(f.pool->allocate(9 << 20, *f.stream) != nullptr);
}

TEST(statistics_and_peaks) {
  Fixture f;
  Block* a = f.pool->allocate(1000, *f.stream);
  Block* b = f.pool->allocate(2000, *f.stream);
  f.pool->free(a);
  MemoryStats s = f.pool->stats();
  CHECK_EQ(s.allocated, 2000u);
  CHECK_EQ(s.allocated_peak, 3000u);
  CHECK_EQ(s.active_blocks, 1u);
  CHECK_EQ(s.allocations, 2u);
  CHECK_EQ(s.frees, 1u);
  CHECK_EQ(s.reserved, uint64_t(4) << 20);
  f.pool->reset_peak();
  f.pool->reset_accumulated();
  s = f.pool->stats();
  CHECK_EQ(s.allocated_peak, 2000u);
  CHECK_EQ(s.allocations, 0u);
  CHECK_EQ(s.active_blocks, 1u);
  f.pool->free(b);
  CHECK_EQ(f.pool->stats().frees, 1u);
  const uint64_t view = MemoryPool::begin_view(*b, 0, 10);
  CHECK_EQ(f.pool->stats().live_views, 1u);
  MemoryPool::end_view(b, view, 10);
  CHECK_EQ(f.pool->stats().live_views, 0u);
}

TEST(snapshot_lists_blocks) {
  Fixture f;
  Block* a = f.pool->allocate(1000, *f.stream);
  f.pool->free(f.pool->allocate(1000, *f.stream));
  Block* large = f.pool->allocate(5 << 20, *f.stream);
  const std::vector<SegmentInfo> all = f.pool->snapshot();
  CHECK_EQ(all.size(), 2u);
  size_t in_use = 0, blocks = 0;
  for (const SegmentInfo& segment : all) {
    for (const BlockInfo& b : segment.blocks) {
      ++blocks;
      in_use += b.in_use;
      if (b.address == a->address) CHECK_EQ(b.id, a->id);
      if (b.address == large->address) CHECK_EQ(b.size, uint64_t(5) << 20);
    }
  }
  CHECK_EQ(blocks, 4u);  // and what is left of the large one's segment
  CHECK_EQ(in_use, 2u);
}

TEST(snapshot_lists_live_views) {
  Fixture f;
  Block* small = f.pool->allocate(1000, *f.stream);
  Block* large = f.pool->allocate(5 << 20, *f.stream);
  const uint64_t a = MemoryPool::begin_view(*small, 16, 100), b = MemoryPool::begin_view(*large, 4 << 20, 1 << 20);
  const uint64_t c = MemoryPool::begin_view(*small, 0, 1000);
  const auto views_of = [&f](const Block* block) {
    std::string text;
    for (const SegmentInfo& segment : f.pool->snapshot())
      for (const BlockInfo& info : segment.blocks)
        for (const ViewInfo& view : info.views)
          if (info.address == block->address)
            text += std::to_string(view.id) + " in " + std::to_string(view.parent) + " at " +
                    std::to_string(view.offset) + ": " + std::to_string(view.bytes) + "\n";
    return text;
  };
  const std::string in = " in " + std::to_string(small->id) + " at ";
  CHECK_EQ(views_of(small), std::to_string(a) + in + "16: 100\n" + std::to_string(c) + in + "0: 1000\n");
  CHECK_EQ(views_of(large), std::to_string(b) + " in " + std::to_string(large->id) + " at 4194304: 1048576\n");
  MemoryPool::end_view(small, a, 100);
  CHECK_EQ(views_of(small), std::to_string(c) + in + "0: 1000\n");
  MemoryPool::end_view(small, c, 1000);
  MemoryPool::end_view(large, b, 1 << 20);
  CHECK_EQ(views_of(small) + views_of(large), "");
}

TEST(double_free_is_ignored) {
  Fixture f;
  Block* a = f.pool->allocate(1000, *f.stream);
  f.pool->free(a);
  f.pool->free(a);
  f.pool->free(nullptr);
  CHECK(f.pool->allocate(1000, *f.stream) != f.pool->allocate(1000, *f.stream));
  CHECK_EQ(f.pool->stats().frees, 1u);
}

TEST(threads_share_the_pool) {
  Fixture f;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      unsigned state = static_cast<unsigned>(t) + 1;
      std::vector<std::pair<Block*, unsigned char>> held;
      for (int i = 0; i < 20000; ++i) {
        state = state * 1664525 + 1013904223;
        if (held.size() < 20 && (state >> 16) % 3) {
          Block* b = f.pool->allocate(1 + (state >> 8) % 3000, *f.stream);
          const unsigned char mark = static_cast<unsigned char>(state >> 24);
          memset(b->address, mark, b->size);
          held.emplace_back(b, mark);
          if (MemoryPool::find(static_cast<char*>(b->address) + b->size - 1) != b) ++wrong;
        } else if (!held.empty()) {
          const auto [b, mark] = held.back();
          held.pop_back();
          const unsigned char* bytes = static_cast<unsigned char*>(b->address);
          if (bytes[0] != mark || bytes[b->size - 1] != mark) ++wrong;
          f.pool->free(b);
        }
        if (i % 5000 == 0) f.pool->empty_cache();
      }
      for (const auto& item : held) f.pool->free(item.first);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(f.pool->stats().allocated, 0u);
  CHECK_EQ(f.pool->stats().active_blocks, 0u);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().reserved, 0u);
  CHECK_EQ(f.control->get("mallocs"), f.control->get("frees"));
}

TEST(cache_does_not_pile_up) {
  Fixture f;  // a device of 1 GiB: sizes of many classes, one after the other
  for (size_t mib = 10; mib < 200; mib += 5) f.pool->free(f.pool->allocate(mib << 20, *f.stream));
  CHECK(f.pool->stats().reserved <= uint64_t(480) << 20);
}

int main(int argc, char** argv) { return check::main(argc, argv); }
