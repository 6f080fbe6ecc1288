// In-order queues: launching, copying, waiting, and collecting finished work into the trace.
#include "ral/async_stream.h"

#include <cstring>

#include "devices_internal.h"
#include "pool_internal.h"
#include "ral/device_manager.h"
#include "ral/log.h"
#include "ral/memory_pool.h"
#include "router_internal.h"
#include "stream_impl.h"
#include "trace_internal.h"

namespace ral {

namespace {

constexpr size_t kFirstSlots = 64;
constexpr size_t kMostInFlight = 1024;
constexpr uint64_t kCollectEvery = 32;  // launches between two looks at what has finished

}  // namespace

Stream::Impl::Impl(Stream& stream)
    : owner(stream),
      device(stream.device()),
      plugin(device.plugin()),
      plugin_index(device.plugin_index()),
      slots(kFirstSlots) {
  if (plugin.stream) mode = plugin.event ? Mode::Events : Mode::Queued;
  if (plugin.event && !plugin.event->times) device_times = DeviceTimes::No;
}

// ---- Bookkeeping, with `ring` held ----

void Stream::Impl::push(InFlight&& work) {
  if (work.sequence - retired > slots.size()) {
    std::vector<InFlight> larger(slots.size() * 2);
    for (uint64_t s = retired + 1; s < work.sequence; ++s) larger[s & (larger.size() - 1)] = std::move(slot(s));
    slots.swap(larger);
  }
  const uint64_t sequence = work.sequence;
  slot(sequence) = std::move(work);
  submitted.store(sequence, std::memory_order_release);
}

void Stream::Impl::collect(uint64_t known) {
  const uint64_t last = submitted.load(std::memory_order_relaxed);
  while (checked < last) {
    InFlight& work = slot(checked + 1);
    ral_status status = RAL_SUCCESS;
    if (work.event) {
      status = plugin.event->query(plugin_index, work.event);
      if (status == RAL_ERROR_NOT_READY) {
        if (work.sequence > known) break;
        status = RAL_SUCCESS;
      }
    } else if (work.sequence > known) {
      break;
    }
    finish(work, work.status == RAL_SUCCESS ? status : work.status);
    ++checked;
  }
  if (checked > completed.load(std::memory_order_relaxed)) completed.store(checked, std::memory_order_release);
  while (retired < checked && slot(retired + 1).pins == 0) {
    retire(slot(retired + 1));
    ++retired;
  }
}

void Stream::Impl::finish(InFlight& work, ral_status status) {
  work.finished = true;
  work.status = status;
  if (status != RAL_SUCCESS) {
    const std::string detail = device.last_error();
    if (status == RAL_ERROR_DEVICE_LOST) device_lost_notice(device);
    set_poison(status, describe(work.kernel, work.note) + " failed on " + device_title(device) +
                           (detail.empty() ? "" : ": " + detail));
  }
  if (!work.traced && !work.mark) return;
  if (work.event) {
    const bool given = plugin.event->times && plugin.event->times(plugin_index, work.event, &work.queued, &work.start,
                                                                  &work.end) == RAL_SUCCESS;
    if (!given) work.queued = work.start = work.end = 0;
    if (given || status == RAL_SUCCESS)
      device_times.store(given ? DeviceTimes::Yes : DeviceTimes::No, std::memory_order_relaxed);
  }
  if (work.mark) work.mark->time_ns.store(work.end ? work.end : trace::now(), std::memory_order_release);
}

void Stream::Impl::retire(InFlight& work) noexcept {
  if (work.traced) emit_work(work);
  if (work.event) {
    const ral_status status = plugin.event->release(plugin_index, work.event);
    if (status != RAL_SUCCESS)
      log(RAL_LOG_WARNING, device_title(device) + ": an event could not be released: " + code_name(status));
  }
  work.event = nullptr;
  work.mark.reset();
}

void Stream::Impl::set_poison(ral_status code, const std::string& text) {
  if (poisoned.load(std::memory_order_relaxed)) return;  // the first error is the cause of later ones
  poison_code = code;
  poison_text = text;
  poisoned.store(true, std::memory_order_release);
}

// ---- Without `ring` ----

std::string Stream::Impl::describe(ral_kernel kernel, const WorkNote& note) const {
  const std::string op = kernel_op_name(kernel);
  if (!op.empty()) return "native kernel of " + op;
  const std::string name = trace::text_of(note.name);
  if (note.kind == RAL_TRACE_COPY) return name.empty() ? "copy" : "copy " + name;
  return name.empty() ? "work" : "kernel " + name;
}

void Stream::Impl::emit_work(const InFlight& work) noexcept {
  if (!trace::enabled() || !work.note.kind) return;
  ral_trace_record record = work.surroundings;
  const WorkNote& note = work.note;
  record.kind = note.kind;
  record.tier = note.tier;
  record.name = note.name;
  record.kernel = note.kernel;
  record.reason = note.reason;
  record.shapes = note.shapes;
  record.bytes = note.bytes;
  record.copied = note.copied;
  record.buffer = note.buffer;
  record.aux64 = note.input_buffer;
  record.device = static_cast<int16_t>(device.index());
  record.stream = static_cast<uint32_t>(owner.id());
  record.queued_ns = record.begin_ns;
  if (work.start && work.end) {
    record.begin_ns = work.start;
    record.end_ns = work.end;
    if (work.queued) record.queued_ns = work.queued;
  } else {
    record.flags |= RAL_TRACE_NO_DEVICE_TIME;
  }
  if (work.status != RAL_SUCCESS) record.flags |= RAL_TRACE_FAILED;
  if (ral_trace_gauge* gauge = trace::gauge(device.index())) {
    if (!(record.flags & RAL_TRACE_HOST))
      __atomic_fetch_add(&gauge->busy_ns, static_cast<uint64_t>(record.end_ns - record.begin_ns), __ATOMIC_RELAXED);
    if (note.kind == RAL_TRACE_KERNEL) __atomic_fetch_add(&gauge->kernels, 1, __ATOMIC_RELAXED);
  }
  trace::emit(record);
}

// With `submit` held, after the plugin took the work.
uint64_t Stream::Impl::submitted_work(ral_event event, ral_kernel kernel, const WorkNote& note,
                                      const ral_trace_record* surroundings, std::shared_ptr<EventMark> mark) {
  InFlight work;
  work.sequence = submitted.load(std::memory_order_relaxed) + 1;
  work.kernel = kernel;
  work.note = note;
  work.event = event;
  work.mark = std::move(mark);
  if (surroundings) {
    work.traced = true;
    work.surroundings = *surroundings;
    work.surroundings.thread = trace::thread_id();
    work.surroundings.end_ns = trace::now();
  }
  if (mode == Mode::Immediate) {
    if (work.mark) work.mark->time_ns.store(trace::now(), std::memory_order_release);
    if (work.traced) emit_work(work);
    std::lock_guard<std::mutex> guard(ring);
    checked = retired = work.sequence;
    submitted.store(work.sequence, std::memory_order_release);
    completed.store(work.sequence, std::memory_order_release);
    return work.sequence;
  }
  const uint64_t sequence = work.sequence;
  if (mode == Mode::Events && !work.event) {
    // The plugin gave no event for this work: ask for one behind it.
    ral_event behind = nullptr;
    if (plugin.event->record(plugin_index, owner.native(), &behind) == RAL_SUCCESS && behind) {
      work.event = behind;
    } else {
      work.status = plugin.stream->synchronize(plugin_index, owner.native());
      std::lock_guard<std::mutex> guard(ring);
      push(std::move(work));
      collect(sequence);
      return sequence;
    }
  }
  std::lock_guard<std::mutex> guard(ring);
  push(std::move(work));
  if (sequence % kCollectEvery == 0) collect(0);
  return sequence;
}

void Stream::Impl::make_room() {
  if (device.lost())
    throw Error(RAL_ERROR_DEVICE_LOST, device_title(device) + " is lost; its memory and work are gone");
  if (devices_forked() || devices_closed()) require_devices();
  const auto in_flight = [this] {
    std::lock_guard<std::mutex> guard(ring);
    return submitted.load(std::memory_order_relaxed) - retired;
  };
  if (submitted.load(std::memory_order_relaxed) - completed.load(std::memory_order_relaxed) < kMostInFlight / 2) return;
  while (in_flight() >= kMostInFlight) {
    uint64_t oldest;
    {
      std::lock_guard<std::mutex> guard(ring);
      collect(0);
      oldest = checked + 1;
      if (submitted.load(std::memory_order_relaxed) - retired < kMostInFlight) return;
    }
    settle(oldest);
  }
}

void Stream::Impl::settle(uint64_t sequence) noexcept {
  if (completed.load(std::memory_order_acquire) >= sequence) return;
  if (devices_forked() || devices_closed()) return;
  std::unique_lock<std::mutex> guard(ring);
  sequence = std::min(sequence, submitted.load(std::memory_order_relaxed));
  collect(0);
  if (completed.load(std::memory_order_relaxed) >= sequence) return;
  ++slot(sequence).pins;
  const ral_event event = slot(sequence).event;
  const uint64_t known = event ? sequence : submitted.load(std::memory_order_relaxed);
  guard.unlock();
  const ral_status status =
      event ? plugin.event->synchronize(plugin_index, event) : plugin.stream->synchronize(plugin_index, owner.native());
  guard.lock();
  InFlight& work = slot(sequence);
  --work.pins;
  if (status != RAL_SUCCESS && !work.finished) work.status = status;
  collect(known);
}

void Stream::Impl::raise_poison() {
  if (!poisoned.load(std::memory_order_acquire)) return;
  std::unique_lock<std::mutex> guard(ring);
  if (!poisoned.load(std::memory_order_relaxed)) return;
  const Error error(poison_code, poison_text);
  poisoned.store(false, std::memory_order_release);
  guard.unlock();
  throw error;
}

uint64_t Stream::Impl::record(bool timing, std::shared_ptr<EventMark>* mark) {
  std::lock_guard<std::mutex> order(submit);
  if (!timing) return submitted.load(std::memory_order_acquire);
  make_room();
  *mark = std::make_shared<EventMark>();
  if (mode == Mode::Queued || (mode == Mode::Events && device_times.load() == DeviceTimes::No)) {
    // Only the host has a clock, so it must be there when the work before the event ends.
    const uint64_t last = submitted.load(std::memory_order_acquire);
    settle(last);
    (*mark)->time_ns.store(trace::now(), std::memory_order_release);
    return last;
  }
  const bool was_idle = completed.load() >= submitted.load();
  ral_event event = nullptr;
  if (mode == Mode::Events) device.check(plugin.event->record(plugin_index, owner.native(), &event), "event record");
  const uint64_t sequence = submitted_work(event, nullptr, WorkNote(), nullptr, *mark);
  // Learn at once whether there are times, where that costs next to nothing.
  if (was_idle && mode == Mode::Events && device_times.load() == DeviceTimes::Unknown) settle(sequence);
  return sequence;
}

// ---- Public ----

Stream::Stream(Device& device, int64_t id, ral_stream native)
    : device_(device), id_(id), native_(native), impl_(new Impl(*this)) {}

Stream::~Stream() = default;

uint64_t Stream::launch(ral_kernel kernel, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                        uint32_t out_count, const ral_tensor* workspace, const WorkNote& note) {
  Impl& s = *impl_;
  std::lock_guard<std::mutex> order(s.submit);
  s.make_room();
  ral_trace_record surroundings;
  const bool traced = trace::enabled();
  if (traced) surroundings = trace::make(note.kind);
  static const ral_tensor kNoWorkspace = {};
  ral_event done = nullptr;
  const ral_status status =
      s.plugin.kernel->launch(s.plugin_index, kernel, native_, args, arg_count, outs, out_count,
                              workspace ? workspace : &kNoWorkspace, s.mode == Impl::Mode::Events ? &done : nullptr);
  if (__builtin_expect(status != RAL_SUCCESS, 0)) {
    if (status == RAL_ERROR_DEVICE_LOST) device_lost_notice(device_);
    const std::string op = kernel_op_name(kernel);
    device_.check(status, op.empty() ? "kernel launch" : op.c_str());
  }
  return s.submitted_work(done, kernel, note, traced ? &surroundings : nullptr, nullptr);
}

// The three copies differ in the plugin's call and in what memcpy would do instead.
template <typename PluginCopy, typename HostCopy>
static uint64_t copy_work(Stream::Impl& s, const WorkNote& note, const char* what, bool offered, PluginCopy plugin_copy,
                          HostCopy host_copy) {
  std::lock_guard<std::mutex> order(s.submit);
  s.make_room();
  ral_trace_record surroundings;
  const bool traced = trace::enabled();
  if (traced) surroundings = trace::make(note.kind);
  ral_event done = nullptr;
  if (offered) {
    const ral_status status = plugin_copy(s.mode == Stream::Impl::Mode::Events ? &done : nullptr);
    if (status == RAL_ERROR_DEVICE_LOST) device_lost_notice(s.device);
    s.device.check(status, what);
    return s.submitted_work(done, nullptr, note, traced ? &surroundings : nullptr, nullptr);
  }
  // Host-visible memory without a copy function: in order means after everything before it.
  s.settle(s.submitted.load(std::memory_order_acquire));
  host_copy();
  if (traced) surroundings.flags |= RAL_TRACE_HOST;
  return s.submitted_work(nullptr, nullptr, note, traced ? &surroundings : nullptr, nullptr);
}

uint64_t Stream::copy_from_host(ral_handle dst, uint64_t dst_offset, const void* src, uint64_t bytes,
                                const WorkNote& note) {
  Impl& s = *impl_;
  const auto call = s.plugin.memory->copy_from_host;
  return copy_work(
      s, note, "copy from the host", call != nullptr,
      [&](ral_event* done) { return call(s.plugin_index, native_, dst, dst_offset, src, bytes, done); },
      [&] { std::memcpy(static_cast<char*>(device_.pool().host_address(dst)) + dst_offset, src, bytes); });
}

uint64_t Stream::copy_to_host(void* dst, ral_handle src, uint64_t src_offset, uint64_t bytes, const WorkNote& note) {
  Impl& s = *impl_;
  const auto call = s.plugin.memory->copy_to_host;
  return copy_work(
      s, note, "copy to the host", call != nullptr,
      [&](ral_event* done) { return call(s.plugin_index, native_, dst, src, src_offset, bytes, done); },
      [&] { std::memcpy(dst, static_cast<char*>(device_.pool().host_address(src)) + src_offset, bytes); });
}

uint64_t Stream::copy_on_device(ral_handle dst, uint64_t dst_offset, ral_handle src, uint64_t src_offset,
                                uint64_t bytes, const WorkNote& note) {
  Impl& s = *impl_;
  const auto call = s.plugin.memory->copy_on_device;
  return copy_work(
      s, note, "copy on the device", call != nullptr,
      [&](ral_event* done) { return call(s.plugin_index, native_, dst, dst_offset, src, src_offset, bytes, done); },
      [&] {
        std::memmove(static_cast<char*>(device_.pool().host_address(dst)) + dst_offset,
                     static_cast<char*>(device_.pool().host_address(src)) + src_offset, bytes);
      });
}

uint64_t Stream::submitted() const noexcept { return impl_->submitted.load(std::memory_order_acquire); }

bool Stream::complete(uint64_t sequence) noexcept {
  Impl& s = *impl_;
  if (s.completed.load(std::memory_order_acquire) >= sequence) return true;
  if (devices_forked() || devices_closed()) return true;  // nothing can be asked any more
  if (s.mode == Impl::Mode::Queued) {
    s.settle(sequence);  // without events the only question is to wait
    return true;
  }
  {
    std::lock_guard<std::mutex> guard(s.ring);
    s.collect(0);
  }
  if (s.completed.load(std::memory_order_acquire) >= sequence) return true;
  // Whoever polls wants it to run: queued work is submitted once.
  const uint64_t last = submitted();
  if (s.plugin.stream->flush && s.flushed.exchange(last) < last) s.plugin.stream->flush(s.plugin_index, native_);
  return false;
}

void Stream::wait(uint64_t sequence) {
  if (__builtin_expect(devices_forked() || devices_closed(), 0)) require_devices();
  impl_->settle(sequence);
  impl_->raise_poison();
}

void Stream::synchronize() {
  const uint64_t last = submitted();
  if (complete(last)) {
    require_devices();
    return impl_->raise_poison();
  }
  ral_trace_record record = trace::make(RAL_TRACE_SYNC);
  impl_->settle(last);
  record.end_ns = trace::now();
  emit_sync(record, device_, *this, "synchronize");
  impl_->raise_poison();
}

void Stream::reap() noexcept {
  Impl& s = *impl_;
  if (s.mode != Impl::Mode::Events || devices_forked() || devices_closed()) return;
  std::lock_guard<std::mutex> guard(s.ring);
  s.collect(0);
}

void Stream::poison(const Error& error) noexcept {
  std::lock_guard<std::mutex> guard(impl_->ring);
  const std::string text = error.what();
  const std::string prefix = std::string(code_name(error.code())) + ": ";
  impl_->set_poison(error.code(), text.compare(0, prefix.size(), prefix) == 0 ? text.substr(prefix.size()) : text);
}

std::atomic<void*>& pool_cache_slot(Stream& stream) noexcept { return stream.pool_cache_; }

void settle(Stream& stream, uint64_t sequence) noexcept { stream.impl_->settle(sequence); }

}  // namespace ral
