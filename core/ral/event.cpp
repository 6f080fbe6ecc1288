// Events: a sequence number of a stream and, with timing, the moment at which it was reached.
#include <cstdio>

#include "devices_internal.h"
#include "pool_internal.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "stream_impl.h"

namespace ral {

struct Event::Impl {
  bool timing = true;
  Stream* stream = nullptr;
  uint64_t sequence = 0;
  std::shared_ptr<EventMark> mark;
};

Event::Event(bool timing) : impl_(new Impl) { impl_->timing = timing; }

Event::~Event() = default;

void Event::record(Stream& stream) {
  std::shared_ptr<EventMark> mark;
  impl_->sequence = stream.impl_->record(impl_->timing, &mark);
  impl_->mark = std::move(mark);
  impl_->stream = &stream;
}

bool Event::recorded() const noexcept { return impl_->stream != nullptr; }

bool Event::query() const noexcept { return !impl_->stream || impl_->stream->complete(impl_->sequence); }

void Event::synchronize() const {
  if (!impl_->stream) return;
  Stream& stream = *impl_->stream;
  if (stream.complete(impl_->sequence)) return stream.wait(impl_->sequence);
  ral_trace_record record = trace::make(RAL_TRACE_SYNC);
  settle(stream, impl_->sequence);
  record.end_ns = trace::now();
  emit_sync(record, stream.device(), stream, "event");
  stream.wait(impl_->sequence);
}

double Event::elapsed_since(const Event& start) const {
  const auto moment = [](const Event& event, const char* which) {
    const auto fail = [which](const char* what) {
      throw Error(RAL_ERROR_INVALID_ARGUMENT, std::string("elapsed time: the ") + which + " event " + what);
    };
    if (!event.recorded()) fail("was never recorded");
    if (!event.impl_->mark) fail("was made without timing (enable_timing=True)");
    if (!event.query() || !event.impl_->mark->time_ns.load(std::memory_order_acquire))
      fail("is not finished; synchronize() it first");
    return event.impl_->mark->time_ns.load(std::memory_order_acquire);
  };
  const int64_t begin = moment(start, "start");
  return static_cast<double>(moment(*this, "end") - begin) * 1e-6;
}

Stream* Event::stream() const noexcept { return impl_->stream; }

void Stream::wait_event(const Event& event) {
  Stream* other = event.stream();
  if (!other || other == this || other->complete(event.impl_->sequence)) return;
  Impl& theirs = *other->impl_;
  Impl& ours = *impl_;
  const uint64_t sequence = event.impl_->sequence;
  if (&theirs.plugin == &ours.plugin && ours.mode == Impl::Mode::Events && ours.plugin.stream->wait_event) {
    ral_event native = nullptr;
    {
      std::lock_guard<std::mutex> guard(theirs.ring);
      if (theirs.checked >= sequence) return;
      native = theirs.slot(sequence).event;
      ++theirs.slot(sequence).pins;
    }
    ral_status status = RAL_ERROR_UNSUPPORTED;
    if (native) {
      if (theirs.plugin.stream->flush) theirs.plugin.stream->flush(theirs.plugin_index, other->native());
      std::lock_guard<std::mutex> order(ours.submit);
      status = ours.plugin.stream->wait_event(ours.plugin_index, native_, native);
    }
    {
      std::lock_guard<std::mutex> guard(theirs.ring);
      --theirs.slot(sequence).pins;
      theirs.collect(0);
    }
    if (status == RAL_SUCCESS) return;
    if (status != RAL_ERROR_UNSUPPORTED) device_.check(status, "wait for an event");
  }
  // Other plugins, or devices that cannot wait for each other: the host does. An error stays with the other stream.
  settle(*other, sequence);
}

}  // namespace ral
