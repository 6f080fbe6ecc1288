// The writer side of the trace: switches, strings, surroundings and records.
#include "ral/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "devices_internal.h"
#include "housekeeping.h"
#include "ral/log.h"
#include "ral/memory_pool.h"
#include "trace_internal.h"

namespace ral::trace {

std::atomic<uint32_t> g_enabled{0};
std::atomic<uint64_t> g_main_location{0};

namespace {

constexpr size_t kLongestString = 16384;
constexpr size_t kCacheSize = 256;  // a power of two; 16 KiB a thread

// One cache line for all that a string seen before needs: between two operators little of this is still in the cache.
struct alignas(64) CacheEntry {
  static constexpr size_t kLongest = 50;
  uint64_t hash = 0;
  uint32_t id = 0;
  uint16_t size = 0;
  char text[kLongest] = {};

  bool holds(uint64_t wanted, std::string_view string) const noexcept {
    return id != 0 && hash == wanted && size == string.size() && std::memcmp(text, string.data(), size) == 0;
  }
  void keep(uint64_t wanted, std::string_view string, uint32_t number) noexcept {
    if (string.size() > kLongest) return;
    hash = wanted;
    id = number;
    size = static_cast<uint16_t>(string.size());
    std::memcpy(text, string.data(), size);
  }
};
static_assert(sizeof(CacheEntry) == 64);

// All strings, in order of their ids. They live here from the first intern() on, so that ids made before the file
// exists stay right; the file gets a copy.
struct Strings {
  std::mutex mutex;
  std::deque<std::string> texts;
  std::unordered_map<std::string_view, uint32_t> ids;
  uint64_t bytes = 0;
};

struct Switch {
  std::mutex mutex;  // of everything below; never taken while recording
  bool tried = false;
  int holders = 0;
  bool leased = false;
  std::string kernel_id;
  std::string status;
};

// Never destroyed: records are written until the very end of the process.
Strings& strings() {
  static Strings* const all = new Strings;
  return *all;
}
Switch& control() {
  static Switch* const one = new Switch;
  return *one;
}
std::atomic<File*> g_file{nullptr};
std::atomic<bool> g_forked{false};

thread_local Writer t_writer;
thread_local CacheEntry* t_cache = nullptr;
thread_local Context t_context;
thread_local uint64_t t_id_next = 0, t_id_end = 0;

// Gives segment and cache back when the thread ends.
struct ThreadEnd {
  bool armed = false;
  ~ThreadEnd() {
    if (File* ring = file()) ring->detach(&t_writer);
    t_writer = Writer();
    delete[] t_cache;
    t_cache = nullptr;
  }
};
thread_local ThreadEnd t_end;

uint64_t hash_of(std::string_view text) noexcept {
  uint64_t hash = 0x9e3779b97f4a7c15ull ^ text.size();
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  uint64_t word = 0;
  std::memcpy(&word, at, left);
  hash = (hash ^ word) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 29;
}

std::string thread_name() {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::to_string(syscall(SYS_gettid)) + " " + name;
}

bool attach() noexcept {
  File* ring = file();
  if (!ring) return false;
  t_end.armed = true;
  if (!t_writer.thread) t_writer.thread = intern(thread_name());
  const uint32_t thread = t_writer.thread;
  if (ring->attach(&t_writer)) return true;
  t_writer.thread = thread;
  ring->count_drop();
  return false;
}

// Called with control().mutex held.
void apply(Switch& state) {
  File* ring = file();
  const bool wanted = ring && (state.holders > 0 || state.leased);
  if (wanted == (g_enabled.load() != 0)) return;
  if (!wanted) reap_all();
  g_enabled.store(wanted);
  if (ring) __atomic_store_n(&ring->header()->enabled, wanted ? 1u : 0u, __ATOMIC_RELEASE);
  if (wanted) MemoryPool::trace_snapshot();
}

void make_file(Switch& state) {
  state.tried = true;
  if (g_forked.load()) return;
  std::string problem;
  File* ring = File::create(state.kernel_id, &problem);
  if (!ring) {
    log(RAL_LOG_WARNING, "no recording: " + problem);
    return;
  }
  {
    Strings& all = strings();
    std::lock_guard<std::mutex> guard(all.mutex);
    for (const std::string& text : all.texts) ring->add_string(text);
    g_file.store(ring, std::memory_order_release);
  }
  if (!state.status.empty()) ring->set_status(state.status);
  watch_forks();
  start_housekeeping();
}

}  // namespace

File* file() noexcept { return g_file.load(std::memory_order_acquire); }
bool forked() noexcept { return g_forked.load(std::memory_order_relaxed); }

int64_t now() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

uint64_t next_id() noexcept {
  static std::atomic<uint64_t> next{1};
  constexpr uint64_t kShare = 256;  // ids are taken in shares, so that threads do not meet at one counter
  if (t_id_next == t_id_end) {
    t_id_next = next.fetch_add(kShare, std::memory_order_relaxed);
    t_id_end = t_id_next + kShare;
  }
  return t_id_next++;
}

uint32_t intern(std::string_view text) {
  if (text.size() > kLongestString) text = text.substr(0, kLongestString);
  const uint64_t hash = hash_of(text);
  if (!t_cache) {
    t_cache = new CacheEntry[kCacheSize];
    t_end.armed = true;
  }
  CacheEntry& cached = t_cache[hash & (kCacheSize - 1)];
  if (cached.holds(hash, text)) return cached.id;

  Strings& all = strings();
  std::lock_guard<std::mutex> guard(all.mutex);
  auto found = all.ids.find(text);
  if (found == all.ids.end()) {
    const uint64_t bytes = sizeof(uint32_t) + (text.size() + 3) / 4 * 4;
    File* ring = file();
    if (all.bytes + bytes > RAL_TRACE_STRING_BYTES) {
      if (ring) __atomic_fetch_add(&ring->header()->strings_dropped, 1, __ATOMIC_RELAXED);
      return 0;
    }
    all.bytes += bytes;
    all.texts.emplace_back(text);
    if (ring) ring->add_string(text);
    found = all.ids.emplace(all.texts.back(), static_cast<uint32_t>(all.texts.size())).first;
  }
  cached.keep(hash, text, found->second);
  return found->second;
}

std::string text_of(uint32_t id) {
  Strings& all = strings();
  std::lock_guard<std::mutex> guard(all.mutex);
  return id >= 1 && id <= all.texts.size() ? all.texts[id - 1] : "";
}

uint32_t thread_id() noexcept {
  if (t_writer.thread) return t_writer.thread;
  if (!file()) return 0;
  t_end.armed = true;
  t_writer.thread = intern(thread_name());
  return t_writer.thread;
}

Context& context() noexcept { return t_context; }

uint32_t line() noexcept {
  const Context& around = t_context;
  if (around.inner_location) return around.inner_location;
  if (around.location) return around.location;
  const uint64_t main = g_main_location.load(std::memory_order_relaxed);
  const auto inner = static_cast<uint32_t>(main >> 32);
  return inner ? inner : static_cast<uint32_t>(main);
}

ral_trace_record make(uint8_t kind) noexcept { return make(kind, now()); }

ral_trace_record make(uint8_t kind, int64_t at) noexcept {
  ral_trace_record record;
  std::memset(&record, 0, sizeof record);
  const Context& around = t_context;
  record.begin_ns = record.end_ns = at;
  record.kind = kind;
  record.device = -1;
  record.name = around.op;
  record.correlation = around.correlation;
  record.sequence_number = around.sequence_number;
  record.location = around.location;
  record.inner_location = around.inner_location;
  record.forward_location = around.forward_location;
  if (around.backward) record.flags |= RAL_TRACE_BACKWARD;
  if (!record.location) {
    const uint64_t line = g_main_location.load(std::memory_order_relaxed);
    record.location = static_cast<uint32_t>(line);
    if (!record.inner_location) record.inner_location = static_cast<uint32_t>(line >> 32);
  }
  return record;
}

void emit(const ral_trace_record& record) noexcept {
  if (!enabled()) return;
  if (!t_writer.records && !attach()) return;
  t_writer.put(record, record.thread ? record.thread : t_writer.thread);
}

void mark(std::string_view text) {
  if (!enabled()) return;
  ral_trace_record record = make(RAL_TRACE_MARK);
  record.name = intern(text);
  emit(record);
}

std::string path() {
  if (File* ring = file()) return ring->path();
  bool made = false;
  {
    Switch& state = control();
    std::lock_guard<std::mutex> guard(state.mutex);
    if (!state.tried) {
      make_file(state);
      made = true;
    }
  }
  if (made) refresh_gauges();  // takes the same mutex to write the status
  File* ring = file();
  return ring ? ring->path() : "";
}

void acquire() {
  if (g_forked.load()) return;
  path();
  Switch& state = control();
  std::lock_guard<std::mutex> guard(state.mutex);
  ++state.holders;
  apply(state);
}

void release() {
  if (g_forked.load()) return;
  Switch& state = control();
  std::lock_guard<std::mutex> guard(state.mutex);
  if (state.holders == 0) throw Error(RAL_ERROR_INVALID_ARGUMENT, "trace::release without acquire");
  --state.holders;
  apply(state);
}

void set_leased(bool leased) {
  Switch& state = control();
  std::lock_guard<std::mutex> guard(state.mutex);
  state.leased = leased;
  apply(state);
}

void flush(bool wait) {
  if (g_forked.load()) return;
  if (wait) drain_all();
  reap_all();
  refresh_gauges();
}

void set_kernel_id(const std::string& id) {
  Switch& state = control();
  std::lock_guard<std::mutex> guard(state.mutex);
  state.kernel_id = id;
  if (File* ring = file()) ring->set_kernel_id(id);
}

void set_status(const std::string& json) {
  if (g_forked.load()) return;
  if (json.size() > RAL_TRACE_STATUS_BYTES)
    throw Error(RAL_ERROR_INVALID_ARGUMENT,
                "status text of " + std::to_string(json.size()) + " bytes; at most 65536 fit");
  Switch& state = control();
  std::lock_guard<std::mutex> guard(state.mutex);
  state.status = json;
  if (File* ring = file()) ring->set_status(json);
}

ral_trace_gauge* gauge(int device) noexcept {
  File* ring = file();
  return ring && device >= 0 && device < static_cast<int>(RAL_TRACE_MAX_DEVICES) ? ring->gauges() + device : nullptr;
}

void after_fork_child() noexcept {
  if (!file()) return;  // nothing of the parent's to lose: the child may record for itself
  g_forked.store(true);
  g_enabled.store(0);
  g_file.store(nullptr);
  t_writer = Writer();
}

}  // namespace ral::trace
