// Prints what the hot paths cost in nanoseconds, and a live view in bytes. Nothing is asserted: numbers depend on the machine.
#include <algorithm>

#include "harness.h"

using namespace ral;

template <typename F>
static void measure(const char* what, int runs, F f) {
  std::vector<double> rounds;
  for (int round = 0; round < 11; ++round) {
    const int64_t begin = trace::now();
    for (int i = 0; i < runs; ++i) f(i);
    rounds.push_back(static_cast<double>(trace::now() - begin) / runs);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 5, rounds.end());
  std::printf("%-52s %8.1f ns\n", what, rounds[5]);
}

// Pages of this process in memory, in bytes.
static uint64_t resident() {
  uint64_t total = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> total >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

static void live_views(harness::Fixture& f) {
  constexpr size_t kViews = 1000000;
  Block* block = f.pool->allocate(kViews, *f.stream);
  std::vector<uint64_t> ids(kViews, 1);
  const uint64_t before = resident();
  for (size_t i = 0; i < kViews; ++i) ids[i] = MemoryPool::begin_view(*block, i, 1);
  std::printf("%-52s %8.1f bytes\n", "a live view, of a million",
              static_cast<double>(resident() - before) / static_cast<double>(kViews));
  for (const uint64_t id : ids) MemoryPool::end_view(block, id, 1);
  f.pool->free(block);
}

int main() {
  harness::Fixture f;
  volatile uintptr_t sink = 0;
  f.pool->free(f.pool->allocate(64, *f.stream));
  measure("allocate + free, hit, 64 bytes", 200000, [&](int) { f.pool->free(f.pool->allocate(64, *f.stream)); });
  f.pool->free(f.pool->allocate(64 << 20, *f.stream));
  measure("allocate + free, hit, 64 MiB", 200000, [&](int) { f.pool->free(f.pool->allocate(64 << 20, *f.stream)); });
  std::vector<Block*> blocks;
  for (int i = 0; i < 256; ++i) blocks.push_back(f.pool->allocate(1000, *f.stream));
  live_views(f);
  measure("find", 1000000, [&](int i) {
    sink = sink + reinterpret_cast<uintptr_t>(MemoryPool::find(blocks[static_cast<size_t>(i & 255)]->address));
  });
  measure("place", 1000000, [&](int i) {
    sink = sink + MemoryPool::place(blocks[static_cast<size_t>(i & 255)]->address, *f.device).offset;
  });
  measure("idle, nothing pending", 1000000,
          [&](int i) { sink = sink + MemoryPool::idle(*blocks[static_cast<size_t>(i & 255)]); });
  measure("note_use, same stream", 1000000,
          [&](int i) { MemoryPool::note_use(*blocks[0], *f.stream, static_cast<uint64_t>(i)); });
  measure("intern, known string of 40 characters", 1000000,
          [&](int) { sink = sink + trace::intern("aten::some_operator_with_a_rather_long_n"); });
  measure("emit, off", 1000000, [&](int) {
    if (trace::enabled()) trace::mark("x");
  });
  ral_trace_record record = trace::make(RAL_TRACE_OP);
  trace::acquire();
  measure("emit, on", 1000000, [&](int) { trace::emit(record); });
  measure("make + emit, on", 1000000, [&](int) { trace::emit(trace::make(RAL_TRACE_OP)); });
  measure("allocate + free, hit, 64 bytes, recording", 200000,
          [&](int) { f.pool->free(f.pool->allocate(64, *f.stream)); });
  trace::release();
  return 0;
}
