// A plugin for tests: host memory, worker threads as streams, a few kernels, and failures on demand.
//
// $TESTPLUGIN_<KEY> sets the start values of the switches below; tests change them, and read the counters, through
// testplugin_set and testplugin_get.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ral/plugin.h"

#ifndef TESTPLUGIN_NAME
#define TESTPLUGIN_NAME "alpha"
#endif

namespace {

const ral_host* g_host = nullptr;
thread_local std::string t_error;

ral_status fail(ral_status code, const std::string& text) {
  t_error = text;
  return code;
}

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// Switches and counters by name.
struct Numbers {
  std::mutex mutex;
  std::map<std::string, int64_t> values;
  int64_t get(const std::string& key) {
    std::lock_guard<std::mutex> guard(mutex);
    return values[key];
  }
  void set(const std::string& key, int64_t value) {
    std::lock_guard<std::mutex> guard(mutex);
    values[key] = value;
  }
  void add(const std::string& key, int64_t value) {
    std::lock_guard<std::mutex> guard(mutex);
    values[key] += value;
  }
};
Numbers& numbers() {
  static Numbers* const all = new Numbers;
  return *all;
}

void from_environment(const char* key, int64_t fallback) {
  const char* text = getenv((std::string("TESTPLUGIN_") + key).c_str());
  numbers().set(key, text ? strtoll(text, nullptr, 10) : fallback);
}

// ---- Memory. Host-visible: the handle is the address. Else: a pointer to a record. ----

struct Hidden {
  char* data;
};
struct Memory {
  std::mutex mutex;
  std::map<void*, uint64_t> live;
  uint64_t bytes = 0;
};
Memory& memory() {
  static Memory* const all = new Memory;
  return *all;
}
bool visible() { return numbers().get("VISIBLE") != 0; }
char* bytes_of(ral_handle handle) {
  return visible() ? static_cast<char*>(handle) : static_cast<Hidden*>(handle)->data;
}

ral_status memory_malloc(int32_t, uint64_t bytes, ral_memory* out) {
  Memory& m = memory();
  std::lock_guard<std::mutex> guard(m.mutex);
  if (m.bytes + bytes > static_cast<uint64_t>(numbers().get("MEMORY")))
    return fail(RAL_ERROR_OUT_OF_MEMORY, "test device is full");
  char* data = static_cast<char*>(malloc(bytes));
  if (!data) return fail(RAL_ERROR_OUT_OF_MEMORY, "host is full");
  void* handle = data;
  if (!visible()) handle = new Hidden{data};
  m.live[handle] = bytes;
  m.bytes += bytes;
  numbers().add("mallocs", 1);
  *out = {handle, visible() ? data : nullptr};
  return RAL_SUCCESS;
}

ral_status memory_free(int32_t, ral_handle handle) {
  Memory& m = memory();
  std::lock_guard<std::mutex> guard(m.mutex);
  const auto found = m.live.find(handle);
  if (found == m.live.end()) return fail(RAL_ERROR_INVALID_POINTER, "unknown handle");
  m.bytes -= found->second;
  m.live.erase(found);
  free(bytes_of(handle));
  if (!visible()) delete static_cast<Hidden*>(handle);
  numbers().add("frees", 1);
  return RAL_SUCCESS;
}

ral_status import_host(int32_t, void* address, uint64_t, ral_memory* out) {
  numbers().add("imports", 1);
  *out = {address, address};
  return RAL_SUCCESS;
}
ral_status release_import(int32_t, ral_handle) {
  numbers().add("released_imports", 1);
  return RAL_SUCCESS;
}

}  // namespace

// ---- Streams: a worker thread each ----

struct ral_event_s {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> references{1};
  bool done = false;
  ral_status status = RAL_SUCCESS;
  int64_t queued = now(), start = 0, end = 0;
  void finish(ral_status s, int64_t begin) {
    std::lock_guard<std::mutex> guard(mutex);
    status = s;
    start = begin;
    end = now();
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> guard(mutex);
    changed.wait(guard, [this] { return done; });
  }
  void drop() {
    if (references.fetch_sub(1) == 1) delete this;
  }
};

struct ral_stream_s {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool busy = false;

  ral_stream_s() {
    std::thread([this] { run(); }).detach();
  }
  void push(std::function<void()> task) {
    std::lock_guard<std::mutex> guard(mutex);
    work.push_back(std::move(task));
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> guard(mutex);
    changed.wait(guard, [this] { return work.empty() && !busy; });
  }
  void run() {
    std::unique_lock<std::mutex> guard(mutex);
    while (true) {
      changed.wait(guard, [this] { return !work.empty(); });
      const std::function<void()> task = std::move(work.front());
      work.pop_front();
      busy = true;
      guard.unlock();
      task();
      guard.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

struct ral_kernel_s {
  std::string op;
};

namespace {

ral_stream queue(int32_t device, ral_stream stream) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const defaults = new std::map<int32_t, ral_stream>;
  if (stream) return stream;
  std::lock_guard<std::mutex> guard(*mutex);
  ral_stream& place = (*defaults)[device];
  if (!place) place = new ral_stream_s;
  return place;
}

void pause_us(int64_t us) {
  if (us <= 0) return;
  const timespec span = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&span, nullptr);
}

ral_event new_event() {
  numbers().add("events", 1);
  return new ral_event_s;
}

// Runs `body` in the stream, or at once where the plugin has none.
ral_status enqueue(int32_t device, ral_stream stream, ral_event* done, std::function<ral_status()> body) {
  if (!numbers().get("STREAMS")) return body();
  ral_event event = nullptr;
  if (done) {
    event = *done = new_event();
    event->references.fetch_add(1);
  }
  queue(device, stream)->push([event, body = std::move(body)] {
    const int64_t begin = now();
    pause_us(numbers().get("DELAY_US"));
    const ral_status status = body();
    if (!event) return;
    event->finish(status, begin);
    event->drop();
  });
  return RAL_SUCCESS;
}

ral_status stream_create(int32_t, int32_t priority, ral_stream* out) {
  numbers().set("last_priority", priority);
  *out = new ral_stream_s;
  return RAL_SUCCESS;
}
ral_status stream_destroy(int32_t, ral_stream) { return RAL_SUCCESS; }
ral_status stream_synchronize(int32_t device, ral_stream stream) {
  queue(device, stream)->wait();
  return RAL_SUCCESS;
}
ral_status stream_wait_event(int32_t device, ral_stream stream, ral_event event) {
  numbers().add("wait_events", 1);
  event->references.fetch_add(1);
  queue(device, stream)->push([event] {
    event->wait();
    event->drop();
  });
  return RAL_SUCCESS;
}
ral_status stream_flush(int32_t, ral_stream) {
  numbers().add("flushes", 1);
  return RAL_SUCCESS;
}

ral_status event_record(int32_t device, ral_stream stream, ral_event* out) {
  return enqueue(device, stream, out, [] { return RAL_SUCCESS; });
}
ral_status event_answer(ral_event event) {
  return event->status == RAL_SUCCESS ? RAL_SUCCESS : fail(event->status, "the test kernel failed while it ran");
}
ral_status event_query(int32_t, ral_event event) {
  std::lock_guard<std::mutex> guard(event->mutex);
  return event->done ? event_answer(event) : RAL_ERROR_NOT_READY;
}
ral_status event_synchronize(int32_t, ral_event event) {
  event->wait();
  return event_answer(event);
}
ral_status event_times(int32_t, ral_event event, int64_t* queued, int64_t* start, int64_t* end) {
  if (!numbers().get("TIMES")) return RAL_ERROR_UNSUPPORTED;
  *queued = event->queued;
  *start = event->start;
  *end = event->end;
  return RAL_SUCCESS;
}
ral_status event_release(int32_t, ral_event event) {
  numbers().add("events_released", 1);
  event->drop();
  return RAL_SUCCESS;
}

// ---- Copies ----

ral_status copy_from_host(int32_t device, ral_stream stream, ral_handle dst, uint64_t offset, const void* src,
                          uint64_t bytes, ral_event* done) {
  return enqueue(device, stream, done, [=] {
    memcpy(bytes_of(dst) + offset, src, bytes);
    return RAL_SUCCESS;
  });
}
ral_status copy_to_host(int32_t device, ral_stream stream, void* dst, ral_handle src, uint64_t offset, uint64_t bytes,
                        ral_event* done) {
  return enqueue(device, stream, done, [=] {
    memcpy(dst, bytes_of(src) + offset, bytes);
    return RAL_SUCCESS;
  });
}
ral_status copy_on_device(int32_t device, ral_stream stream, ral_handle dst, uint64_t dst_offset, ral_handle src,
                          uint64_t src_offset, uint64_t bytes, ral_event* done) {
  return enqueue(device, stream, done, [=] {
    memmove(bytes_of(dst) + dst_offset, bytes_of(src) + src_offset, bytes);
    return RAL_SUCCESS;
  });
}

// ---- Kernels ----

ral_status resolve(int32_t, const char* op, const char*, const char* symbol, const char*, ral_kernel* out) {
  if (strcmp(symbol, "absent") == 0) return fail(RAL_ERROR_COMPILE, "no symbol absent");
  static std::mutex* const mutex = new std::mutex;
  static auto* const known = new std::map<std::string, ral_kernel>;
  std::lock_guard<std::mutex> guard(*mutex);
  ral_kernel& kernel = (*known)[op];
  if (!kernel) kernel = new ral_kernel_s{op};
  *out = kernel;
  return RAL_SUCCESS;
}

float* floats(const ral_value& value) {
  return reinterpret_cast<float*>(bytes_of(value.u.tensor->data) + value.u.tensor->byte_offset);
}
int64_t elements(const ral_value& value) {
  int64_t n = 1;
  for (int32_t i = 0; i < value.u.tensor->ndim; ++i) n *= value.u.tensor->shape[i];
  return n;
}

ral_status launch(int32_t device, ral_kernel kernel, ral_stream stream, const ral_value* args, uint32_t arg_count,
                  const ral_value* outs, uint32_t out_count, const ral_tensor*, ral_event* done) {
  const std::string& op = kernel->op;
  numbers().add("launches", 1);
  if (numbers().get("NO_LAUNCH_EVENT")) done = nullptr;
  if (op == "test::unsupported") return fail(RAL_ERROR_UNSUPPORTED, "not for these strides");
  if (op == "test::fail_launch") return fail(RAL_ERROR_LAUNCH, "too many work-items");
  if (op == "test::lost") return fail(RAL_ERROR_DEVICE_LOST, "fell off the bus");
  if (op == "test::fail_run") return enqueue(device, stream, done, [] { return RAL_ERROR_RUNTIME; });
  if (op == "test::slow") {
    const int64_t us = arg_count ? args[0].u.i : 0;
    return enqueue(device, stream, done, [us] {
      pause_us(us);
      return RAL_SUCCESS;
    });
  }
  if (out_count != 1) return fail(RAL_ERROR_INVALID_ARGUMENT, "one output expected");
  float* out = floats(outs[0]);
  const int64_t n = elements(outs[0]);
  if (op == "aten::fill.Scalar") {
    const float value = static_cast<float>(args[1].u.d);
    return enqueue(device, stream, done, [=] {
      for (int64_t i = 0; i < n; ++i) out[i] = value;
      return RAL_SUCCESS;
    });
  }
  if (op == "aten::add.Tensor") {
    const float *a = floats(args[0]), *b = floats(args[1]);
    const float alpha = static_cast<float>(args[2].u.d);
    return enqueue(device, stream, done, [=] {
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] + alpha * b[i];
      return RAL_SUCCESS;
    });
  }
  if (op == "aten::relu") {
    const float* a = floats(args[0]);
    return enqueue(device, stream, done, [=] {
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] > 0 ? a[i] : 0;
      return RAL_SUCCESS;
    });
  }
  return fail(RAL_ERROR_UNSUPPORTED, "unknown op " + op);
}

// ---- Devices ----

ral_status device_count(int32_t* out) {
  *out = static_cast<int32_t>(numbers().get("DEVICES"));
  return RAL_SUCCESS;
}

ral_status device_info(int32_t device, ral_device_info* out) {
  ral_device_info info;
  memset(&info, 0, sizeof info);
  info.kind = RAL_DEVICE_CPU;
  snprintf(info.name, sizeof info.name, "Test device %d", device);
  snprintf(info.vendor, sizeof info.vendor, "%s works", TESTPLUGIN_NAME);
  snprintf(info.driver, sizeof info.driver, "testplugin 1.0");
  info.total_memory = static_cast<uint64_t>(numbers().get("MEMORY"));
  info.max_allocation = info.total_memory;
  info.flags = RAL_DEVICE_FP64 | (visible() ? RAL_DEVICE_HOST_VISIBLE : 0u);
  info.compute_units = 2;
  info.dtype_mask = (1u << RAL_FLOAT32) | (1u << RAL_FLOAT64) | (1u << RAL_INT64) | (1u << RAL_BOOL);
  if (numbers().get("BAD_INFO")) info.total_memory = uint64_t(1) << 60;
  const uint32_t size = out->struct_size < sizeof info ? out->struct_size : static_cast<uint32_t>(sizeof info);
  info.struct_size = size;
  memcpy(out, &info, size);
  return RAL_SUCCESS;
}

ral_status last_error(char* buffer, uint64_t n) {
  snprintf(buffer, n, "%s", t_error.c_str());
  return RAL_SUCCESS;
}

void shut_down() {
  if (numbers().get("ANNOUNCE_SHUTDOWN")) fprintf(stderr, "testplugin shutdown\n");
}

}  // namespace

extern "C" RAL_PLUGIN_EXPORT void testplugin_set(const char* key, int64_t value) { numbers().set(key, value); }
extern "C" RAL_PLUGIN_EXPORT int64_t testplugin_get(const char* key) { return numbers().get(key); }
extern "C" RAL_PLUGIN_EXPORT const ral_host* testplugin_host() { return g_host; }

extern "C" RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host* host) {
  g_host = host;
  from_environment("VISIBLE", 1);
  from_environment("STREAMS", 1);
  from_environment("EVENTS", 1);
  from_environment("TIMES", 1);
  from_environment("COPIES", 1);
  from_environment("IMPORT", 0);
  from_environment("KERNELS", 1);
  from_environment("DEVICES", 1);
  from_environment("DELAY_US", 0);
  from_environment("MEMORY", 1 << 30);
  from_environment("BAD_INFO", 0);
  from_environment("NO_LAUNCH_EVENT", 0);
  from_environment("ANNOUNCE_SHUTDOWN", 0);
  static const ral_device_table device = {sizeof(ral_device_table), device_count, device_info, nullptr, nullptr};
  static ral_memory_table mem = {sizeof(ral_memory_table), memory_malloc, memory_free, copy_from_host, copy_to_host,
                                 copy_on_device,           nullptr,       nullptr};
  if (!numbers().get("COPIES")) mem.copy_from_host = nullptr, mem.copy_to_host = nullptr, mem.copy_on_device = nullptr;
  if (numbers().get("IMPORT")) mem.import_host = import_host, mem.release_import = release_import;
  static const ral_stream_table stream = {sizeof(ral_stream_table), stream_create,     stream_destroy,
                                          stream_synchronize,       stream_wait_event, stream_flush};
  static const ral_event_table event = {
      sizeof(ral_event_table), event_record, event_query, event_synchronize, event_times, event_release, nullptr};
  static const ral_kernel_table kernel = {sizeof(ral_kernel_table), resolve, nullptr, nullptr, launch};
  static ral_plugin plugin = {sizeof(ral_plugin),
                              RAL_ABI_VERSION,
                              TESTPLUGIN_NAME,
                              "1.2.3",
                              last_error,
                              &device,
                              &mem,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              nullptr,
                              shut_down};
  if (numbers().get("STREAMS")) plugin.stream = &stream;
  if (numbers().get("EVENTS")) plugin.event = &event;
  if (numbers().get("KERNELS")) plugin.kernel = &kernel;
  return &plugin;
}
