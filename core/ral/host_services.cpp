// The callbacks behind ral_host.
#include "host_services.h"

#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "ral/log.h"
#include "ral/secure_context.h"
#include "ral/trace.h"

namespace ral {

namespace {

struct Slot {
  std::string name;
  std::string cache_folder;
  std::once_flag folder_once;
  ral_host table;
};
Slot& slot_of(int slot) {
  static auto* const all = new std::array<Slot, kMaxPlugins>;
  return (*all)[static_cast<size_t>(slot)];
}

struct Builds {
  std::mutex mutex;
  std::map<uint64_t, ral_trace_record> open;
  uint64_t next = 1;
};
Builds& builds() {
  static Builds* const all = new Builds;
  return *all;
}

std::atomic<int> g_thread_budget{0};

std::string home() {
  if (const char* set = std::getenv("HOME"))
    if (*set) return set;
  char text[4096];
  passwd entry, *found = nullptr;
  return getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found ? found->pw_dir : "";
}

std::string make_cache_folder(const std::string& name) {
  const char* set = std::getenv("XDG_CACHE_HOME");
  const std::string base = set && *set == '/' ? set : home().empty() ? "" : home() + "/.cache";
  if (base.empty()) return "";
  try {
    return SecureContext::private_folder(SecureContext::private_folder(base + "/ral") + "/" + name);
  } catch (const Error& error) {
    log(RAL_LOG_WARNING, "plugin " + name + " has no cache folder: " + error.what());
    return "";
  }
}

uint64_t compile_begin(int slot, int32_t device, const char* what) {
  ral_trace_record record = trace::make(RAL_TRACE_COMPILE);
  record.name = record.kernel = trace::intern(what ? what : "kernel");
  record.device = static_cast<int16_t>(ral_index_of(slot, device));
  record.end_ns = 0;
  Builds& all = builds();
  uint64_t id;
  {
    std::lock_guard<std::mutex> guard(all.mutex);
    id = all.next++;
    all.open.emplace(id, record);
  }
  trace::emit(record);
  return id;
}

void compile_end(uint64_t id, ral_status status) {
  Builds& all = builds();
  ral_trace_record record;
  {
    std::lock_guard<std::mutex> guard(all.mutex);
    const auto found = all.open.find(id);
    if (found == all.open.end()) return;
    record = found->second;
    all.open.erase(found);
  }
  record.end_ns = trace::now();
  if (status != RAL_SUCCESS) record.flags |= RAL_TRACE_FAILED;
  trace::emit(record);
}

int32_t thread_budget() {
  const int set = g_thread_budget.load(std::memory_order_relaxed);
  if (set > 0) return set;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int32_t>(online) : 1;
}

const char* cache_folder(int slot) {
  Slot& s = slot_of(slot);
  std::call_once(s.folder_once, [&s] { s.cache_folder = make_cache_folder(s.name); });
  return s.cache_folder.c_str();
}

// Plain C callbacks that know their slot.
template <int I>
struct Callbacks {
  static void log(ral_log_level level, const char* text) {
    ral::log(level, slot_of(I).name + ": " + (text ? text : ""));
  }
  static uint64_t compile_begin(int32_t device, const char* what) { return ral::compile_begin(I, device, what); }
  static void device_lost(int32_t device, const char* reason) { plugin_device_lost(I, device, reason); }
  static void device_arrived() { plugin_device_arrived(I); }
  static const char* cache_folder() { return ral::cache_folder(I); }

  static void fill(ral_host* table) {
    table->struct_size = sizeof(ral_host);
    table->abi_version = RAL_ABI_VERSION;
    table->log = log;
    table->compile_begin = compile_begin;
    table->compile_end = ral::compile_end;
    table->device_lost = device_lost;
    table->device_arrived = device_arrived;
    table->cache_folder = cache_folder;
    table->thread_budget = ral::thread_budget;
  }
};

template <size_t... I>
constexpr std::array<void (*)(ral_host*), kMaxPlugins> fillers(std::index_sequence<I...>) {
  return {{Callbacks<static_cast<int>(I)>::fill...}};
}

}  // namespace

const ral_host* host_table(int slot, const std::string& name) {
  static constexpr auto kFillers = fillers(std::make_index_sequence<kMaxPlugins>());
  Slot& s = slot_of(slot);
  s.name = name;
  kFillers[static_cast<size_t>(slot)](&s.table);
  return &s.table;
}

void set_host_thread_budget(int threads) noexcept { g_thread_budget.store(threads, std::memory_order_relaxed); }

}  // namespace ral
