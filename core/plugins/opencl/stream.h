// stream.h - in-order queues and events.
#pragma once

#include "device.h"

// The RAL's handles: a stream is one in-order queue, an event one OpenCL event.
struct ral_stream_s {
  ralcl::Device* device;
  cl_command_queue queue;
};
struct ral_event_s {
  ralcl::Device* device;
  cl_event event;
};

namespace ralcl {

// A new in-order queue, with profiling where the driver has it; null where it fails.
cl_command_queue create_queue(Device& device, int32_t priority);

// The queue behind a stream; null means the default one.
inline cl_command_queue queue_of(Device& device, ral_stream stream) { return stream ? stream->queue : device.queue; }

// Hand `event` (owned from now on by *out) to the RAL.
ral_status wrap_event(Device& device, cl_event event, ral_event* out);
// An event after all earlier work of `queue`; nothing where `done` is null.
ral_status record_marker(Device& device, cl_command_queue queue, ral_event* done);

extern const ral_stream_table kStreamTable;
extern const ral_event_table kEventTable;
extern const ral_memory_table kMemoryTable;

}  // namespace ralcl
