// One device: its streams, its errors and what the neighbours ask of it.
#include <algorithm>
#include <exception>
#include <mutex>

#include "device_state.h"
#include "devices_internal.h"
#include "pool_internal.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/log.h"
#include "ral/memory_pool.h"
#include "ral/trace.h"
#include "router_internal.h"

namespace ral {

Stream& Device::new_stream(int priority) {
  require_devices();
  ral_stream native = nullptr;
  if (plugin_->stream) check(plugin_->stream->create(plugin_index_, priority, &native), "stream creation");
  Streams& all = *streams_;
  std::lock_guard<std::mutex> guard(all.mutex);
  const int64_t id = all.count.load();
  if (id >= kMaxStreams) {
    if (plugin_->stream) plugin_->stream->destroy(plugin_index_, native);
    throw Error(RAL_ERROR_INVALID_ARGUMENT,
                device_title(*this) + " already has " + std::to_string(kMaxStreams) + " streams");
  }
  Stream* stream = new Stream(*this, id, native);
  all.table[id].store(stream, std::memory_order_release);
  all.count.store(id + 1, std::memory_order_release);
  return *stream;
}

Stream* Device::try_stream(int64_t id) noexcept {
  return id >= 0 && id < kMaxStreams ? streams_->table[id].load(std::memory_order_acquire) : nullptr;
}

Stream& Device::stream(int64_t id) {
  if (Stream* found = try_stream(id)) return *found;
  throw Error(RAL_ERROR_INVALID_ARGUMENT, "stream " + std::to_string(id) + " of " + device_title(*this) +
                                              " does not exist; it has streams 0 to " +
                                              std::to_string(streams_->count.load() - 1));
}

void Device::synchronize() {
  require_devices();
  std::exception_ptr first;
  for (int64_t id = 0; id < streams_->count.load(std::memory_order_acquire); ++id) {
    try {
      streams_->table[id].load(std::memory_order_acquire)->synchronize();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::string Device::last_error() const {
  if (!plugin_->last_error) return "";
  char text[4096] = "";
  if (plugin_->last_error(text, sizeof text) != RAL_SUCCESS) return "";
  text[sizeof text - 1] = '\0';
  return text;
}

void Device::check(ral_status code, const char* what) const {
  if (__builtin_expect(code == RAL_SUCCESS, 1)) return;
  const std::string detail = last_error();
  throw Error(code, std::string(what) + " on " + device_title(*this) + (detail.empty() ? "" : ": " + detail));
}

std::string device_title(const Device& device) {
  return "ral:" + std::to_string(device.index()) + " (" + device.info().name + ")";
}

bool needs_host_copies(const Device& device) noexcept {
  const ral_memory_table& table = *device.plugin().memory;
  return !(table.copy_from_host && table.copy_to_host && table.copy_on_device);
}

// ---- Records of the pool ----

void emit_buffer(uint8_t kind, const Block& block, uint32_t flags) noexcept {
  ral_trace_record record = trace::make(kind);
  if (flags & RAL_TRACE_SNAPSHOT) {
    record.name = record.location = record.inner_location = 0;  // not what this thread is doing now
    record.correlation = 0;
  }
  record.device = static_cast<int16_t>(block.device->index());
  record.stream = static_cast<uint32_t>(block.stream->id());
  record.bytes = block.size;
  record.buffer = block.id;
  record.flags |= flags;
  trace::emit(record);
}

void emit_view(const Block& block, uint64_t id, uint64_t byte_offset, uint64_t bytes) noexcept {
  ral_trace_record record = trace::make(RAL_TRACE_VIEW);
  record.device = static_cast<int16_t>(block.device->index());
  record.stream = static_cast<uint32_t>(block.stream->id());
  record.bytes = bytes;
  record.buffer = id;
  record.aux64 = block.id;
  record.copied = byte_offset;
  trace::emit(record);
}

void emit_view_end(const Block& block, uint64_t id, uint64_t bytes) noexcept {
  ral_trace_record record = trace::make(RAL_TRACE_FREE);
  record.device = static_cast<int16_t>(block.device->index());
  record.stream = static_cast<uint32_t>(block.stream->id());
  record.bytes = bytes;
  record.buffer = id;
  record.aux64 = block.id;
  trace::emit(record);
}

void emit_sync(ral_trace_record& record, const Device& device, const Stream& stream, const char* why) noexcept {
  if (!trace::enabled()) return;
  record.name = trace::intern(why);
  record.device = static_cast<int16_t>(device.index());
  record.stream = static_cast<uint32_t>(stream.id());
  trace::emit(record);
}

}  // namespace ral
