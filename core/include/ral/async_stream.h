// Stream and Event: in-order queues of a device, whatever its plugin offers.
//
// Work gets a sequence number, growing by one a launch; the stream knows which are finished. A device
// whose plugin has no streams completes every call at once. An error found after a launch poisons the
// stream: it is raised once, by the next call that waits, with device and op, and the stream works again.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "ral/plugin.h"
#include "ral/status.h"

namespace ral {

class Device;
class Event;
struct Block;

// What the trace says of a launch; ids are interned strings (ral/trace.h).
struct WorkNote {
  uint8_t kind = 0;  // RAL_TRACE_KERNEL or RAL_TRACE_COPY
  uint8_t tier = 0;
  uint32_t name = 0, kernel = 0, reason = 0, shapes = 0;
  uint64_t bytes = 0, copied = 0;
  uint64_t buffer = 0, input_buffer = 0;
};

// An in-order queue of one device. Any thread may use it.
class RAL_API Stream {
 public:
  // Made by Device::new_stream; `native` is the plugin's queue, nullptr for its default one.
  Stream(Device& device, int64_t id, ral_stream native);
  ~Stream();
  Device& device() const noexcept { return device_; }     // whose queue it is
  int64_t id() const noexcept { return id_; }             // 0 is the device's default stream
  ral_stream native() const noexcept { return native_; }  // the plugin's queue

  // Enqueue a native kernel. Returns its sequence number. On failure nothing was written and the plugin's status
  // comes back as Error (code UNSUPPORTED: try the next tier).
  uint64_t launch(ral_kernel kernel, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                  uint32_t out_count, const ral_tensor* workspace, const WorkNote& note);
  // Enqueue a copy from host memory, which must stay as it is until the sequence number returned is complete.
  uint64_t copy_from_host(ral_handle dst, uint64_t dst_offset, const void* src, uint64_t bytes, const WorkNote& note);
  // Enqueue a copy to host memory, which is not to be touched until the sequence number returned is complete.
  uint64_t copy_to_host(void* dst, ral_handle src, uint64_t src_offset, uint64_t bytes, const WorkNote& note);
  // Enqueue a copy between two places of this device. Returns its sequence number.
  uint64_t copy_on_device(ral_handle dst, uint64_t dst_offset, ral_handle src, uint64_t src_offset, uint64_t bytes,
                          const WorkNote& note);

  uint64_t submitted() const noexcept;        // last sequence number given
  bool complete(uint64_t sequence) noexcept;  // polls the device when needed
  // Waits (no SYNC record). Throws the stream's poison.
  void wait(uint64_t sequence);
  bool query() noexcept { return complete(submitted()); }  // true when all work submitted so far is complete
  // Waits for all work submitted so far; emits SYNC "synchronize" if it waited. Throws the stream's poison.
  void synchronize();
  void wait_event(const Event& event);  // later work waits for it; across devices the host waits
  // Collect finished work into the trace; cheap when there is none.
  void reap() noexcept;
  // The next call that waits throws this error.
  void poison(const Error& error) noexcept;

  struct Impl;  // stream_impl.h

 private:
  friend class Event;
  friend std::atomic<void*>& pool_cache_slot(Stream& stream) noexcept;
  friend void settle(Stream& stream, uint64_t sequence) noexcept;
  Device& device_;
  int64_t id_;
  ral_stream native_;
  std::atomic<void*> pool_cache_{nullptr};  // the pool's free lists of this stream
  std::unique_ptr<Impl> impl_;
};

// A point in a stream that host and streams can wait for. It may be recorded anew.
class RAL_API Event {
 public:
  // Without `timing` elapsed_since refuses it.
  explicit Event(bool timing = true);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream& stream);     // after all work submitted to the stream so far, host-run ops included
  bool recorded() const noexcept;  // has record() been called?
  bool query() const noexcept;     // has the work before it finished? true when never recorded
  void synchronize() const;        // waits for the work before it; emits SYNC "event" if it waited
  // Milliseconds from `start` to this one. Throws INVALID_ARGUMENT when one is not recorded, has no timing, or is unfinished.
  double elapsed_since(const Event& start) const;
  Stream* stream() const noexcept;  // where it was recorded last; nullptr when never

 private:
  friend class Stream;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ral
