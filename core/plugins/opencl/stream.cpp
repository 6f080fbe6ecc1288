// stream.cpp - streams, events and their times, see stream.h.
#include "stream.h"

#include <time.h>

#include <algorithm>
#include <new>

namespace ralcl {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int kCalibrations = 9;
// How far two clocks of one machine may drift apart in the time since a calibration: 500 ppm is the most
// that NTP slews CLOCK_MONOTONIC by.
constexpr int64_t kDriftDivisor = 2000;

int64_t monotonic_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * kSecond + t.tv_nsec;
}

// One reading of the device's clock, made somewhere between `before` and `after` of CLOCK_MONOTONIC.
bool read_device_clock(Device& device, int64_t& before, int64_t& value, int64_t& after) {
  cl_ulong device_time = 0, host_time = 0;
  if (device.cl->GetDeviceAndHostTimer) {
    before = monotonic_now();
    const cl_int code = device.cl->GetDeviceAndHostTimer(device.id, &device_time, &host_time);
    after = monotonic_now();
    value = static_cast<int64_t>(device_time);
    if (code == CL_SUCCESS) return true;
  }
  // No such timer: a marker's QUEUED time is taken inside the call that enqueues it.
  Clock& clock = device.clock;
  if (!clock.queue) clock.queue = create_queue(device, 0);
  if (!clock.queue) return false;
  cl_event event = nullptr;
  before = monotonic_now();
  const cl_int code = device.cl->EnqueueMarkerWithWaitList(clock.queue, 0, nullptr, &event);
  after = monotonic_now();
  if (code != CL_SUCCESS) return false;
  cl_int got = device.cl->WaitForEvents(1, &event);
  if (got == CL_SUCCESS)
    got =
        device.cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, sizeof device_time, &device_time, nullptr);
  device.cl->ReleaseEvent(event);
  value = static_cast<int64_t>(device_time);
  return got == CL_SUCCESS && device_time != 0;
}

// Offset and uncertainty, renewed where they are older than a second. False: the driver has no times.
bool calibrated(Device& device, int64_t& offset, int64_t& uncertainty) {
  Clock& clock = device.clock;
  std::lock_guard<std::mutex> lock(clock.mutex);
  if (!device.profiling || !clock.usable) return false;
  const int64_t now = monotonic_now();
  if (clock.calibrated_at == 0 || now - clock.calibrated_at > kSecond) {
    int64_t best = INT64_MAX, best_offset = 0;
    for (int i = 0; i < kCalibrations; ++i) {
      int64_t before = 0, value = 0, after = 0;
      if (!read_device_clock(device, before, value, after)) continue;
      if (after - before >= best) continue;
      best = after - before;
      best_offset = before + best / 2 - value;
    }
    if (best == INT64_MAX) {
      clock.usable = clock.calibrated_at != 0;  // a device that never gave a time never will
      if (!clock.usable) return false;
    } else {
      clock.offset = best_offset;
      clock.uncertainty = best / 2 + 1;
      clock.calibrated_at = now;
    }
  }
  offset = clock.offset;
  uncertainty = clock.uncertainty + (now - clock.calibrated_at) / kDriftDivisor;
  return true;
}

ral_status create(int32_t index, int32_t priority, ral_stream* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !out) return RAL_ERROR_INVALID_ARGUMENT;
    cl_command_queue queue = create_queue(*device, priority);
    if (!queue) return fail(RAL_ERROR_RUNTIME, "clCreateCommandQueue failed");
    auto stream = std::make_unique<ral_stream_s>(ral_stream_s{device, queue});
    std::lock_guard<std::mutex> lock(device->queues_mutex);
    device->queues.push_back(queue);
    *out = stream.release();
    return RAL_SUCCESS;
  });
}

ral_status destroy(int32_t index, ral_stream stream) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !stream) return RAL_ERROR_INVALID_ARGUMENT;
    const cl_int code = device->cl->Finish(stream->queue);
    {
      std::lock_guard<std::mutex> lock(device->queues_mutex);
      auto& queues = device->queues;
      queues.erase(std::remove(queues.begin(), queues.end(), stream->queue), queues.end());
    }
    device->cl->ReleaseCommandQueue(stream->queue);
    delete stream;
    return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clFinish");
  });
}

ral_status synchronize(int32_t index, ral_stream stream) {
  Device* device = find_device(index);
  if (!device) return RAL_ERROR_INVALID_ARGUMENT;
  const cl_int code = device->cl->Finish(queue_of(*device, stream));
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clFinish");
}

struct Relay {
  const Api* cl;
  cl_event user;
};

void relay_done(cl_event, cl_int status, void* data) {
  auto relay = static_cast<Relay*>(data);
  relay->cl->SetUserEventStatus(relay->user, status < 0 ? status : CL_COMPLETE);
  relay->cl->ReleaseEvent(relay->user);
  delete relay;
}

// An event of `device`'s context that completes when `event`, of another context, does.
ral_status relay_event(Device& device, ral_event event, cl_event* out) {
  cl_int code = CL_SUCCESS;
  cl_event user = device.cl->CreateUserEvent(device.context, &code);
  if (!user) return fail_cl(code, "clCreateUserEvent");
  device.cl->RetainEvent(user);  // one reference for the callback
  auto relay = std::make_unique<Relay>(Relay{device.cl, user});
  code = event->device->cl->SetEventCallback(event->event, CL_COMPLETE, relay_done, relay.get());
  if (code != CL_SUCCESS) {
    device.cl->ReleaseEvent(user);
    device.cl->ReleaseEvent(user);
    return fail_cl(code, "clSetEventCallback");
  }
  relay.release();  // relay_done deletes it
  *out = user;
  return RAL_SUCCESS;
}

ral_status wait_event(int32_t index, ral_stream stream, ral_event event) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !event) return RAL_ERROR_INVALID_ARGUMENT;
    cl_event waited = event->event;
    const bool foreign = event->device->context != device->context;
    if (foreign) {
      ral_status status = relay_event(*device, event, &waited);
      if (status != RAL_SUCCESS) return status;
    }
    cl_command_queue queue = queue_of(*device, stream);
    const cl_int code = device->cl->EnqueueBarrierWithWaitList(queue, 1, &waited, nullptr);
    if (foreign) device->cl->ReleaseEvent(waited);
    if (code != CL_SUCCESS) return fail_cl(code, "clEnqueueBarrierWithWaitList");
    device->cl->Flush(queue);
    return RAL_SUCCESS;
  });
}

ral_status flush(int32_t index, ral_stream stream) {
  Device* device = find_device(index);
  if (!device) return RAL_ERROR_INVALID_ARGUMENT;
  const cl_int code = device->cl->Flush(queue_of(*device, stream));
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clFlush");
}

ral_status event_record(int32_t index, ral_stream stream, ral_event* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !out) return RAL_ERROR_INVALID_ARGUMENT;
    return record_marker(*device, queue_of(*device, stream), out);
  });
}

ral_status event_query(int32_t, ral_event event) {
  if (!event) return RAL_ERROR_INVALID_ARGUMENT;
  cl_int state = 0;
  const cl_int code =
      event->device->cl->GetEventInfo(event->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
  if (code != CL_SUCCESS) return fail_cl(code, "clGetEventInfo");
  if (state < 0) return fail_cl(state, "the enqueued work");
  return state == CL_COMPLETE ? RAL_SUCCESS : RAL_ERROR_NOT_READY;
}

ral_status event_synchronize(int32_t, ral_event event) {
  if (!event) return RAL_ERROR_INVALID_ARGUMENT;
  const cl_int code = event->device->cl->WaitForEvents(1, &event->event);
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clWaitForEvents");
}

ral_status event_times(int32_t, ral_event event, int64_t* queued, int64_t* start, int64_t* end) {
  return guarded([&]() -> ral_status {
    if (!event || !queued || !start || !end) return RAL_ERROR_INVALID_ARGUMENT;
    Device& device = *event->device;
    int64_t offset = 0, uncertainty = 0;
    if (!calibrated(device, offset, uncertainty))
      return fail(RAL_ERROR_UNSUPPORTED, "this driver gives no event times");
    const cl_uint names[3] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    int64_t* targets[3] = {queued, start, end};
    for (int i = 0; i < 3; ++i) {
      cl_ulong value = 0;
      const cl_int code = device.cl->GetEventProfilingInfo(event->event, names[i], sizeof value, &value, nullptr);
      if (code != CL_SUCCESS) {
        fail_cl(code, "clGetEventProfilingInfo");
        return event_query(0, event) == RAL_ERROR_NOT_READY ? RAL_ERROR_NOT_READY : RAL_ERROR_UNSUPPORTED;
      }
      *targets[i] = static_cast<int64_t>(value) + offset;
    }
    return RAL_SUCCESS;
  });
}

ral_status event_release(int32_t, ral_event event) {
  if (!event) return RAL_ERROR_INVALID_ARGUMENT;
  const cl_int code = event->device->cl->ReleaseEvent(event->event);
  delete event;
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clReleaseEvent");
}

ral_status clock_uncertainty(int32_t index, int64_t* ns) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !ns) return RAL_ERROR_INVALID_ARGUMENT;
    int64_t offset = 0;
    return calibrated(*device, offset, *ns) ? RAL_SUCCESS
                                            : fail(RAL_ERROR_UNSUPPORTED, "this driver gives no event times");
  });
}

}  // namespace

const ral_stream_table kStreamTable = {sizeof(ral_stream_table), create, destroy, synchronize, wait_event, flush};
const ral_event_table kEventTable = {sizeof(ral_event_table), event_record, event_query,
                                     event_synchronize,       event_times,  event_release,
                                     clock_uncertainty};

cl_command_queue create_queue(Device& device, int32_t priority) {
  cl_int code = CL_SUCCESS;
  if (device.cl->CreateCommandQueueWithProperties) {
    cl_ulong properties[5] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0, 0, 0};
    if (priority != 0 && device.priorities) {
      properties[2] = CL_QUEUE_PRIORITY_KHR;
      properties[3] = priority < 0 ? CL_QUEUE_PRIORITY_HIGH_KHR : CL_QUEUE_PRIORITY_LOW_KHR;
    }
    cl_command_queue queue = device.cl->CreateCommandQueueWithProperties(device.context, device.id, properties, &code);
    if (queue) return queue;
  }
  cl_command_queue queue = device.cl->CreateCommandQueue(device.context, device.id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (queue) return queue;
  device.profiling = false;
  return device.cl->CreateCommandQueue(device.context, device.id, 0, &code);
}

ral_status wrap_event(Device& device, cl_event event, ral_event* out) {
  *out = new (std::nothrow) ral_event_s{&device, event};
  if (*out) return RAL_SUCCESS;
  device.cl->ReleaseEvent(event);
  return RAL_ERROR_OUT_OF_MEMORY;
}

ral_status record_marker(Device& device, cl_command_queue queue, ral_event* done) {
  if (!done) return RAL_SUCCESS;
  cl_event event = nullptr;
  const cl_int code = device.cl->EnqueueMarkerWithWaitList(queue, 0, nullptr, &event);
  if (code != CL_SUCCESS) return fail_cl(code, "clEnqueueMarkerWithWaitList");
  device.cl->Flush(queue);
  return wrap_event(device, event, done);
}

}  // namespace ralcl
