// The inside of Stream: its ring of work in flight. Shared by async_stream.cpp and event.cpp.
//
// Two locks: `submit` orders launches (held while the plugin enqueues), `ring` guards the bookkeeping (never held
// while the host waits or the plugin enqueues).
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ral/async_stream.h"
#include "ral/trace.h"

namespace ral {

// The moment that an Event with timing marks.
struct EventMark {
  std::atomic<int64_t> time_ns{0};  // 0: not reached
};

struct InFlight {
  uint64_t sequence = 0;
  ral_event event = nullptr;
  ral_kernel kernel = nullptr;
  uint32_t pins = 0;  // waiters that use `event` outside the lock
  bool finished = false;
  bool traced = false;
  ral_status status = RAL_SUCCESS;
  int64_t queued = 0, start = 0, end = 0;  // of the device; 0 where it gave none
  WorkNote note;
  ral_trace_record surroundings;  // made at launch where `traced`
  std::shared_ptr<EventMark> mark;
};

struct Stream::Impl {
  Impl(Stream& stream);

  enum class Mode { Immediate, Queued, Events };  // complete at return; streams without events; streams with events

  InFlight& slot(uint64_t sequence) { return slots[sequence & (slots.size() - 1)]; }
  // Everything below with `ring` held.
  void push(InFlight&& work);
  void collect(uint64_t known);  // all up to `known` are over, whatever a query says
  void finish(InFlight& work, ral_status status);
  void retire(InFlight& work) noexcept;
  void set_poison(ral_status code, const std::string& text);
  // Everything below without `ring`.
  void make_room();
  void settle(uint64_t sequence) noexcept;
  void raise_poison();
  uint64_t submitted_work(ral_event event, ral_kernel kernel, const WorkNote& note,
                          const ral_trace_record* surroundings, std::shared_ptr<EventMark> mark);
  void emit_work(const InFlight& work) noexcept;
  std::string describe(ral_kernel kernel, const WorkNote& note) const;
  // Event::record: the number up to which the event waits.
  uint64_t record(bool timing, std::shared_ptr<EventMark>* mark);

  Stream& owner;
  Device& device;
  const ral_plugin& plugin;
  const int plugin_index;
  Mode mode = Mode::Immediate;
  // Does the plugin give times of its events? Learnt from the first event with timing.
  enum class DeviceTimes { Unknown, Yes, No };
  std::atomic<DeviceTimes> device_times{DeviceTimes::Unknown};
  std::mutex submit, ring;
  std::atomic<uint64_t> submitted{0}, completed{0};
  uint64_t checked = 0, retired = 0;  // up to these: status known, slot free
  std::atomic<uint64_t> flushed{0};
  std::vector<InFlight> slots;
  std::atomic<bool> poisoned{false};
  ral_status poison_code = RAL_SUCCESS;
  std::string poison_text;
};

}  // namespace ral
