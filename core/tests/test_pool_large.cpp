// Large blocks: pieces of shared segments, cut by best fit and joined when they are freed.
#include <algorithm>
#include <random>
#include <thread>

#include "harness.h"
#include "pieces.h"
#include "segment_table.h"

using namespace ral;
using harness::Fixture;

namespace {

constexpr size_t MiB = size_t(1) << 20;

char* begin_of(const Block* b) { return static_cast<char*>(b->address); }

// The segments of pieces, each checked: its blocks cover it without gap or overlap, no two neighbours are both free
// (`joined`), and find() knows each of them.
std::vector<SegmentInfo> pieces_of(const MemoryPool& pool, bool joined = true) {
  std::vector<SegmentInfo> out;
  for (SegmentInfo& segment : pool.snapshot()) {
    if (segment.size <= kGranule) continue;
    const char* at = static_cast<const char*>(segment.address);
    bool free_before = false;
    for (const BlockInfo& b : segment.blocks) {
      CHECK_EQ(b.address, static_cast<const void*>(at));
      CHECK(b.capacity > 0 && b.capacity % kUnit == 0);
      CHECK(b.size <= b.capacity);
      if (joined) CHECK(b.in_use || !free_before);
      free_before = !b.in_use;
      const Block* known = MemoryPool::find(at);
      CHECK(known && known->address == at && known->capacity == b.capacity);
      at += b.capacity;
    }
    CHECK_EQ(static_cast<const void*>(at),
             static_cast<const void*>(static_cast<const char*>(segment.address) + segment.size));
    out.push_back(std::move(segment));
  }
  return out;
}

int g_deleted = 0;
void count_deleted(void*) { ++g_deleted; }

}  // namespace

TEST(cut_and_joined_again) {
  Fixture f;
  std::vector<Block*> held;
  for (size_t mib : {3, 5, 2, 8}) held.push_back(f.pool->allocate(mib * MiB, *f.stream));
  CHECK_EQ(f.pool->stats().segments, 1u);
  CHECK_EQ(f.pool->stats().reserved, 32 * MiB);
  CHECK_EQ(f.pool->stats().device_mallocs, 1u);
  CHECK_EQ(f.pool->stats().cache_hits, 3u);
  CHECK_EQ(f.pool->stats().active_blocks, 4u);
  for (size_t i = 1; i < held.size(); ++i) CHECK_EQ(begin_of(held[i]), begin_of(held[i - 1]) + held[i - 1]->capacity);
  CHECK_EQ(pieces_of(*f.pool).at(0).blocks.size(), 5u);
  std::vector<int> order = {0, 1, 2, 3};
  do {  // in each order of freeing
    for (int i : order) {
      f.pool->free(held[static_cast<size_t>(i)]);
      pieces_of(*f.pool);
    }
    const std::vector<SegmentInfo> all = pieces_of(*f.pool);
    CHECK_EQ(all.size(), 1u);
    CHECK_EQ(all.at(0).blocks.size(), 1u);
    CHECK_EQ(all.at(0).blocks.at(0).capacity, 32 * MiB);
    held.clear();
    for (size_t mib : {3, 5, 2, 8}) held.push_back(f.pool->allocate(mib * MiB, *f.stream));
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK_EQ(f.pool->stats().device_mallocs, 1u);
  for (Block* b : held) f.pool->free(b);
  CHECK_EQ(f.pool->stats().allocated, 0u);
  CHECK_EQ(f.pool->stats().active_blocks, 0u);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().reserved, 0u);
  CHECK_EQ(f.control->get("frees"), 1);
}

TEST(capacity_is_the_size_in_units) {
  Fixture f;
  for (size_t bytes : {MiB + 1, 3 * MiB - 5, 3 * MiB, 3 * MiB + 1, 40 * MiB, 256 * MiB}) {
    Block* b = f.pool->allocate(bytes, *f.stream);
    CHECK_EQ(b->capacity, (bytes + kUnit - 1) / kUnit * kUnit);
    f.pool->free(b);
    f.pool->empty_cache();
  }
  Block* apart = f.pool->allocate(256 * MiB + 1, *f.stream);
  CHECK_EQ(apart->capacity, 288 * MiB);
  CHECK_EQ(f.pool->stats().reserved, 288 * MiB);
}

TEST(best_fit) {
  Fixture f;
  // 6, 3 and 4 MiB free, kept apart by blocks in use.
  std::vector<Block*> held;
  for (size_t mib : {6, 2, 3, 2, 4, 2}) held.push_back(f.pool->allocate(mib * MiB, *f.stream));
  Block* rest = f.pool->allocate(8 * MiB, *f.stream);
  char* const six = begin_of(held[0]);
  char* const three = begin_of(held[2]);
  char* const four = begin_of(held[4]);
  for (size_t i : {0, 2, 4}) f.pool->free(held[i]);
  CHECK_EQ(begin_of(f.pool->allocate(4 * MiB - kUnit, *f.stream)), four);  // 256 KiB stay
  CHECK_EQ(begin_of(f.pool->allocate(3 * MiB, *f.stream)), three);         // exactly
  CHECK_EQ(begin_of(f.pool->allocate(2 * MiB, *f.stream)), six + 6 * MiB + 2 * MiB + 3 * MiB + 2 * MiB + 4 * MiB +
                                                               2 * MiB + 8 * MiB);  // the 5 MiB at the end, not the 6
  CHECK_EQ(begin_of(f.pool->allocate(5 * MiB, *f.stream)), six);
  CHECK(rest->in_use.load());
  CHECK_EQ(f.pool->stats().device_mallocs, 1u);
  pieces_of(*f.pool);
}

TEST(exact_size_keeps_its_alias) {
  Fixture f;
  MemoryPool::set_slot_deleter(&count_deleted);
  Block* a = f.pool->allocate(64 * MiB, *f.stream);
  char* const begin = begin_of(a);
  a->slot.store(&g_deleted);
  f.pool->free(a);
  Block* b = f.pool->allocate(64 * MiB, *f.stream);
  CHECK_EQ(a, b);
  CHECK_EQ(b->slot.load(), static_cast<void*>(&g_deleted));
  CHECK_EQ(g_deleted, 0);
  CHECK_EQ(f.pool->stats().cache_hits, 1u);
  f.pool->free(b);
  Block* c = f.pool->allocate(63 * MiB, *f.stream);  // cut: what the slot says is not true any more
  CHECK_EQ(begin_of(c), begin);
  CHECK(c->slot.load() == nullptr);
  CHECK_EQ(g_deleted, 1);
  c->slot.store(&g_deleted);
  f.pool->free(c);  // joined
  CHECK_EQ(g_deleted, 2);
  Block* d = f.pool->allocate(64 * MiB, *f.stream);
  CHECK(d->slot.load() == nullptr);
  CHECK_EQ(d->capacity, 64 * MiB);
  CHECK_EQ(f.pool->stats().segments, 1u);
}

TEST(uses_elsewhere_are_not_joined_over) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  Block* low = f.pool->allocate(4 * MiB, *f.stream);
  Block* middle = f.pool->allocate(4 * MiB, *f.stream);
  Block* high = f.pool->allocate(4 * MiB, *f.stream);
  char* const begin = begin_of(low);
  char* const used = begin_of(middle);
  const uint64_t sequence = f.slow(other, 400000);
  MemoryPool::note_use(*middle, other, sequence);
  f.pool->free(middle);
  f.pool->free(low);
  f.pool->free(high);
  const std::vector<BlockInfo> blocks = pieces_of(*f.pool, false).at(0).blocks;
  CHECK_EQ(blocks.size(), 3u);
  CHECK_EQ(blocks.at(0).capacity, 4 * MiB);
  CHECK_EQ(blocks.at(2).capacity, 24 * MiB);
  for (size_t mib : {8, 4, 4}) {  // neither the held back piece nor anything over it
    Block* b = f.pool->allocate(mib * MiB, *f.stream);
    CHECK(begin_of(b) + b->capacity <= used || begin_of(b) >= used + 4 * MiB);
  }
  CHECK(!other.complete(sequence));
  f.pool->free(MemoryPool::find(begin));
  other.wait(sequence);
  Block* both = f.pool->allocate(7 * MiB, *f.stream);  // 4 + 4, joined when they are looked at again
  CHECK_EQ(begin_of(both), begin);
  CHECK_EQ(both->pending.load(), 0u);
  CHECK_EQ(f.pool->stats().device_mallocs, 1u);
  pieces_of(*f.pool);
}

TEST(own_stream_uses_go_with_the_memory) {
  Fixture f;
  Block* low = f.pool->allocate(4 * MiB, *f.stream);
  Block* high = f.pool->allocate(12 * MiB, *f.stream);
  Block* rest = f.pool->allocate(16 * MiB, *f.stream);
  const uint64_t first = f.slow(*f.stream, 1000), last = f.slow(*f.stream, 200000);
  MemoryPool::note_use(*low, *f.stream, last);
  MemoryPool::note_use(*high, *f.stream, first);
  f.pool->free(low);
  f.pool->free(high);  // joined, still in use by the stream
  Block* a = f.pool->allocate(2 * MiB, *f.stream);
  Block* b = f.pool->allocate(14 * MiB, *f.stream);
  CHECK_EQ(begin_of(b) + b->capacity, begin_of(rest));
  CHECK(!MemoryPool::idle(*a));
  CHECK(!MemoryPool::idle(*b));
  MemoryPool::wait_idle(*b, "host op");
  CHECK(f.stream->complete(last));
  CHECK(MemoryPool::idle(*a));
}

TEST(look_up_at_each_boundary) {
  Fixture f;
  std::vector<Block*> held;
  for (size_t mib : {2, 5, 3, 7, 2}) held.push_back(f.pool->allocate(mib * MiB + 1, *f.stream));
  f.pool->free(held[1]);
  f.pool->free(held[2]);
  held[1] = f.pool->allocate(2 * MiB, *f.stream);
  held[2] = f.pool->allocate(5 * MiB, *f.stream);
  const MemoryPlace base = MemoryPool::place(begin_of(held[0]), *f.device);
  for (Block* b : held) {
    for (size_t at : {size_t(0), size_t(1), kUnit - 1, kUnit, b->capacity - kUnit, b->capacity - 1}) {
      CHECK_EQ(MemoryPool::find(begin_of(b) + at), b);
      const MemoryPlace place = MemoryPool::place(begin_of(b) + at, *f.device);
      CHECK_EQ(place.handle, base.handle);
      CHECK_EQ(place.offset - base.offset, static_cast<uint64_t>(begin_of(b) + at - begin_of(held[0])));
    }
    CHECK(MemoryPool::find(begin_of(b) + b->capacity) != b);
    CHECK(MemoryPool::find(begin_of(b) - 1) != b);
  }
  const SegmentInfo segment = pieces_of(*f.pool).at(0);
  CHECK(MemoryPool::find(static_cast<const char*>(segment.address) + segment.size) == nullptr);
  CHECK(MemoryPool::find(static_cast<const char*>(segment.address) - 1) == nullptr);
  const BlockInfo& last = segment.blocks.back();
  CHECK(!last.in_use);
  CHECK_THROWS(RAL_ERROR_INVALID_POINTER, ({"not mapped to device 0", "freed"}),
               MemoryPool::place(last.address, *f.device));
  for (Block* b : held) f.pool->free(b);
  f.pool->empty_cache();
  CHECK(MemoryPool::find(segment.address) == nullptr);
}

TEST(pieces_that_are_not_host_visible) {
  Fixture f({{"VISIBLE", "0"}});
  Block* first = f.pool->allocate(3 * MiB, *f.stream);
  Block* second = f.pool->allocate(4 * MiB, *f.stream);
  CHECK_EQ(begin_of(second), begin_of(first) + 3 * MiB);
  const MemoryPlace a = MemoryPool::place(begin_of(first) + 3 * MiB - 8, *f.device);
  const MemoryPlace b = MemoryPool::place(begin_of(second), *f.device);
  CHECK_EQ(a.handle, b.handle);
  CHECK_EQ(b.offset, 3 * MiB);
  const char before[8] = "before.", after[8] = "after..";
  f.stream->copy_from_host(a.handle, a.offset, before, 8, WorkNote());
  f.stream->copy_from_host(b.handle, b.offset, after, 8, WorkNote());
  char back[16] = {};
  f.stream->wait(f.stream->copy_to_host(back, a.handle, a.offset, 16, WorkNote()));
  CHECK_EQ(std::string(back), "before.");
  CHECK_EQ(std::string(back + 8), "after..");
}

TEST(streams_do_not_share_pieces) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  Block* a = f.pool->allocate(4 * MiB, *f.stream);
  Block* b = f.pool->allocate(4 * MiB, other);
  CHECK_EQ(f.pool->stats().segments, 2u);
  f.pool->free(a);
  f.pool->free(b);
  CHECK_EQ(f.pool->allocate(30 * MiB, other)->stream, &other);
  CHECK_EQ(f.pool->allocate(30 * MiB, *f.stream)->stream, f.stream);
  CHECK_EQ(f.pool->stats().device_mallocs, 2u);
  for (const SegmentInfo& segment : pieces_of(*f.pool))
    for (const BlockInfo& block : segment.blocks) CHECK_EQ(block.stream, segment.blocks[0].stream);
}

TEST(a_small_block_does_not_open_a_large_segment) {
  Fixture f;
  f.pool->free(f.pool->allocate(200 * MiB, *f.stream));
  Block* small = f.pool->allocate(2 * MiB, *f.stream);
  CHECK_EQ(f.pool->stats().reserved, 232 * MiB);
  Block* eighth = f.pool->allocate(25 * MiB, *f.stream);  // goes where the small one is
  Block* large = f.pool->allocate(30 * MiB, *f.stream);   // opens it
  CHECK_EQ(f.pool->stats().reserved, 232 * MiB);
  f.pool->allocate(10 * MiB, *f.stream);  // opened: its rest is as good as any
  CHECK_EQ(f.pool->stats().reserved, 232 * MiB);
  f.pool->free(large);
  f.pool->free(eighth);
  f.pool->free(small);
  pieces_of(*f.pool);
}

// One step after another with larger activations: eight live at once, freed in random order.
TEST(growing_activations_do_not_pile_up) {
  Fixture f({{"MEMORY", "17179869184"}});
  std::mt19937 random(7);
  for (size_t mib = 3; mib <= 60; ++mib) {
    std::vector<Block*> held;
    for (size_t i = 0; i < 8; ++i) held.push_back(f.pool->allocate((mib - i % 2) * MiB + i * 4096, *f.stream));
    std::shuffle(held.begin(), held.end(), random);
    for (Block* b : held) f.pool->free(b);
  }
  const MemoryStats s = f.pool->stats();
  CHECK_EQ(s.allocated, 0u);
  // One segment a class, as it was before, comes to some 8 x (3 + .. + 60) MiB here.
  if (s.reserved_peak > s.allocated_peak * 13 / 10)
    check::fail(__FILE__, __LINE__,
                std::to_string(s.reserved_peak) + " reserved for " + std::to_string(s.allocated_peak));
  pieces_of(*f.pool);
}

// Different sizes all the time, as in a training step: forward takes them, backward frees them from the end.
TEST(mixed_sizes_reach_a_steady_state) {
  Fixture f({{"MEMORY", "17179869184"}});
  std::mt19937 random(3);
  std::vector<size_t> sizes;
  for (int i = 0; i < 40; ++i) sizes.push_back(3 * MiB + random() % (57 * MiB));
  const auto step = [&] {
    std::vector<Block*> held;
    for (size_t bytes : sizes) held.push_back(f.pool->allocate(bytes, *f.stream));
    for (; !held.empty(); held.pop_back()) f.pool->free(held.back());
  };
  for (int i = 0; i < 3; ++i) step();
  const MemoryStats before = f.pool->stats();
  for (int i = 0; i < 10; ++i) step();
  const MemoryStats after = f.pool->stats();
  CHECK_EQ(after.device_mallocs, before.device_mallocs);
  CHECK_EQ(after.cache_hits - before.cache_hits, 400u);
  CHECK(after.reserved_peak <= after.allocated_peak * 13 / 10);
}

TEST(flush_before_running_out) {
  Fixture f({{"MEMORY", "104857600"}});  // 100 MiB
  std::vector<Block*> held;
  for (int i = 0; i < 3; ++i) held.push_back(f.pool->allocate(24 * MiB, *f.stream));
  Block* odd = f.pool->allocate(3 * MiB, *f.stream);  // 28 MiB are left: no room for a shared segment
  CHECK_EQ(odd->capacity, 3 * MiB);
  CHECK_EQ(f.pool->stats().retries, 0u);
  for (Block* b : held) f.pool->free(b);
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY, ({"asked for 98.00 MiB", "3.00 MiB in use"}),
               f.pool->allocate(98 * MiB, *f.stream));
  CHECK_EQ(f.pool->stats().segments, 1u);  // what was free went back all the same
  Block* large = f.pool->allocate(90 * MiB, *f.stream);
  CHECK(large != nullptr);
  f.pool->free(odd);
  f.pool->free(large);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().reserved, 0u);
  CHECK_EQ(f.control->get("mallocs"), f.control->get("frees"));
}

TEST(a_used_piece_keeps_its_segment) {
  Fixture f;
  Block* kept = f.pool->allocate(3 * MiB, *f.stream);
  Block* gone = f.pool->allocate(3 * MiB, *f.stream);
  Block* alone = f.pool->allocate(50 * MiB, *f.stream);
  f.pool->free(gone);
  f.pool->free(alone);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().reserved, 32 * MiB);
  CHECK_EQ(MemoryPool::find(kept->address), kept);
  CHECK_EQ(pieces_of(*f.pool).size(), 1u);
  Block* again = f.pool->allocate(29 * MiB, *f.stream);
  CHECK_EQ(begin_of(again), begin_of(kept) + 3 * MiB);
  CHECK_EQ(f.pool->stats().reserved, 32 * MiB);
}

TEST(held_back_pieces_go_with_their_segment) {
  Fixture f;
  Stream& other = f.device->new_stream(0);
  Block* a = f.pool->allocate(20 * MiB, *f.stream);
  const uint64_t sequence = f.slow(other, 100000);
  MemoryPool::note_use(*a, other, sequence);
  f.pool->free(a);
  f.pool->empty_cache();  // waits
  CHECK(other.complete(sequence));
  CHECK_EQ(f.pool->stats().reserved, 0u);
  Block* b = f.pool->allocate(20 * MiB, *f.stream);
  CHECK_EQ(b->pending.load(), 0u);
  CHECK_EQ(f.pool->stats().reserved, 20 * MiB);
}

TEST(threads_share_pieces) {
  Fixture f;
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<Block*, unsigned char>> held;
      for (int i = 0; i < 6000; ++i) {
        if (held.size() < 8 && random() % 2) {
          Block* b = f.pool->allocate(MiB + 1 + random() % (12 * MiB), *f.stream);
          const auto mark = static_cast<unsigned char>(random());
          begin_of(b)[0] = begin_of(b)[b->size - 1] = static_cast<char>(mark);
          held.emplace_back(b, mark);
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          const auto [b, mark] = held.back();
          held.pop_back();
          if (static_cast<unsigned char>(begin_of(b)[0]) != mark) ++wrong;
          if (static_cast<unsigned char>(begin_of(b)[b->size - 1]) != mark) ++wrong;
          if (MemoryPool::find(begin_of(b) + random() % b->capacity) != b) ++wrong;
          f.pool->free(b);
        }
        if (i % 1000 == 0) f.pool->empty_cache();
      }
      for (const auto& item : held) f.pool->free(item.first);
    });
  }
  std::thread reader([&] {  // segments are covered at every moment
    while (!done.load()) {
      for (const SegmentInfo& segment : f.pool->snapshot()) {
        uint64_t covered = 0;
        for (const BlockInfo& b : segment.blocks) covered += b.capacity;
        if (segment.size > kGranule && covered != segment.size) ++wrong;
      }
    }
  });
  for (std::thread& t : threads) t.join();
  done.store(true);
  reader.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(f.pool->stats().allocated, 0u);
  CHECK_EQ(f.pool->stats().active_blocks, 0u);
  for (const SegmentInfo& segment : pieces_of(*f.pool)) CHECK_EQ(segment.blocks.size(), 1u);
  f.pool->empty_cache();
  CHECK_EQ(f.pool->stats().reserved, 0u);
  CHECK_EQ(f.control->get("mallocs"), f.control->get("frees"));
}

int main(int argc, char** argv) { return check::main(argc, argv); }
