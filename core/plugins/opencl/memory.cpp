// memory.cpp - allocations and copies. On devices with fine-grain SVM a handle is the address itself; on
// others it is the cl_mem.
#include <cstring>

#include "device.h"
#include "stream.h"

namespace ralcl {
namespace {

ral_status remember(Device& device, void* handle, const Allocation& allocation) {
  std::lock_guard<std::mutex> lock(device.memory_mutex);
  device.allocations[handle] = allocation;
  return RAL_SUCCESS;
}

// Forget a handle; false where the device does not know it.
bool forget(Device& device, void* handle, bool imported, Allocation& out) {
  std::lock_guard<std::mutex> lock(device.memory_mutex);
  auto found = device.allocations.find(handle);
  if (found == device.allocations.end() || found->second.imported != imported) return false;
  out = found->second;
  device.allocations.erase(found);
  return true;
}

// Check that bytes [offset, offset + bytes) lie in the allocation of `handle`.
ral_status check_range(Device& device, void* handle, uint64_t offset, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(device.memory_mutex);
  auto found = device.allocations.find(handle);
  if (found == device.allocations.end())
    return fail(RAL_ERROR_INVALID_POINTER, "copy: a handle that this device does not know");
  if (offset > found->second.bytes || bytes > found->second.bytes - offset)
    return fail(RAL_ERROR_INVALID_ARGUMENT, "copy: " + std::to_string(bytes) + " bytes at offset " +
                                                std::to_string(offset) + " leave an allocation of " +
                                                std::to_string(found->second.bytes));
  return RAL_SUCCESS;
}

cl_mem as_buffer(void* handle) { return static_cast<cl_mem>(handle); }
char* at(void* address, uint64_t offset) { return static_cast<char*>(address) + offset; }

ral_status allocate(int32_t index, uint64_t bytes, ral_memory* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !out || bytes == 0) return RAL_ERROR_INVALID_ARGUMENT;
    if (bytes > device->info.max_allocation)
      return fail(RAL_ERROR_OUT_OF_MEMORY, std::to_string(bytes) +
                                               " bytes are more than the device's largest allocation of " +
                                               std::to_string(device->info.max_allocation));
    if (device->svm) {
      void* address = device->cl->SVMAlloc(device->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, 0);
      if (!address) return fail(RAL_ERROR_OUT_OF_MEMORY, "clSVMAlloc of " + std::to_string(bytes) + " bytes failed");
      *out = {address, address};
      return remember(*device, address, {bytes, nullptr, false});
    }
    cl_int code = CL_SUCCESS;
    cl_mem buffer = device->cl->CreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
    if (!buffer) return fail_cl(code, "clCreateBuffer", RAL_ERROR_OUT_OF_MEMORY);
    *out = {buffer, nullptr};
    return remember(*device, buffer, {bytes, buffer, false});
  });
}

ral_status release(int32_t index, ral_handle handle) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device) return RAL_ERROR_INVALID_ARGUMENT;
    Allocation allocation{};
    if (!forget(*device, handle, false, allocation))
      return fail(RAL_ERROR_INVALID_POINTER, "free: a handle that this device does not know");
    if (allocation.buffer) {
      cl_int code = device->cl->ReleaseMemObject(allocation.buffer);
      return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clReleaseMemObject");
    }
    device->cl->SVMFree(device->context, handle);
    return RAL_SUCCESS;
  });
}

// Common to the three copies: check, enqueue by `enqueue(queue, blocking, event*)`, wrap the event.
// Host memory must outlive the copy, so that a copy from or to the host without `done` is waited for.
template <class Enqueue>
ral_status copy(int32_t index, ral_stream stream, bool touches_host, uint64_t bytes, ral_event* done, const char* call,
                Enqueue&& enqueue) {
  Device* device = find_device(index);
  if (!device) return RAL_ERROR_INVALID_ARGUMENT;
  cl_command_queue queue = queue_of(*device, stream);
  if (bytes == 0) return record_marker(*device, queue, done);
  cl_event event = nullptr;
  const bool blocking = touches_host && !done;
  cl_int code = CL_SUCCESS;
  ral_status status = enqueue(*device, queue, blocking ? CL_TRUE : CL_FALSE, done ? &event : nullptr, code);
  if (status != RAL_SUCCESS) return status;
  if (code != CL_SUCCESS) return fail_cl(code, call);
  if (!blocking) device->cl->Flush(queue);
  return done ? wrap_event(*device, event, done) : RAL_SUCCESS;
}

ral_status copy_from_host(int32_t index, ral_stream stream, ral_handle dst, uint64_t offset, const void* src,
                          uint64_t bytes, ral_event* done) {
  return guarded([&] {
    return copy(index, stream, true, bytes, done, "copy from host",
                [&](Device& device, cl_command_queue queue, cl_bool blocking, cl_event* event, cl_int& code) {
                  ral_status status = check_range(device, dst, offset, bytes);
                  if (status != RAL_SUCCESS) return status;
                  code = device.svm ? device.cl->EnqueueSVMMemcpy(queue, blocking, at(dst, offset), src, bytes, 0,
                                                                  nullptr, event)
                                    : device.cl->EnqueueWriteBuffer(queue, as_buffer(dst), blocking, offset, bytes, src,
                                                                    0, nullptr, event);
                  return RAL_SUCCESS + 0;
                });
  });
}

ral_status copy_to_host(int32_t index, ral_stream stream, void* dst, ral_handle src, uint64_t offset, uint64_t bytes,
                        ral_event* done) {
  return guarded([&] {
    return copy(index, stream, true, bytes, done, "copy to host",
                [&](Device& device, cl_command_queue queue, cl_bool blocking, cl_event* event, cl_int& code) {
                  ral_status status = check_range(device, src, offset, bytes);
                  if (status != RAL_SUCCESS) return status;
                  code = device.svm ? device.cl->EnqueueSVMMemcpy(queue, blocking, dst, at(src, offset), bytes, 0,
                                                                  nullptr, event)
                                    : device.cl->EnqueueReadBuffer(queue, as_buffer(src), blocking, offset, bytes, dst,
                                                                   0, nullptr, event);
                  return RAL_SUCCESS + 0;
                });
  });
}

ral_status copy_on_device(int32_t index, ral_stream stream, ral_handle dst, uint64_t dst_offset, ral_handle src,
                          uint64_t src_offset, uint64_t bytes, ral_event* done) {
  return guarded([&] {
    return copy(index, stream, false, bytes, done, "copy on device",
                [&](Device& device, cl_command_queue queue, cl_bool, cl_event* event, cl_int& code) {
                  ral_status status = check_range(device, dst, dst_offset, bytes);
                  if (status == RAL_SUCCESS) status = check_range(device, src, src_offset, bytes);
                  if (status != RAL_SUCCESS) return status;
                  code = device.svm ? device.cl->EnqueueSVMMemcpy(queue, CL_FALSE, at(dst, dst_offset),
                                                                  at(src, src_offset), bytes, 0, nullptr, event)
                                    : device.cl->EnqueueCopyBuffer(queue, as_buffer(src), as_buffer(dst), src_offset,
                                                                   dst_offset, bytes, 0, nullptr, event);
                  return RAL_SUCCESS + 0;
                });
  });
}

// Host memory as a device allocation: any address where the device shares the whole address space, a
// buffer over it where handles are buffers. Devices with buffer SVM only take no foreign addresses.
ral_status import_host(int32_t index, void* address, uint64_t bytes, ral_memory* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !address || !out || bytes == 0) return RAL_ERROR_INVALID_ARGUMENT;
    if (device->svm_system) {
      *out = {address, address};
      return remember(*device, address, {bytes, nullptr, true});
    }
    if (device->svm) return fail(RAL_ERROR_UNSUPPORTED, "import: this device shares only memory that it allocated");
    cl_int code = CL_SUCCESS;
    cl_mem buffer =
        device->cl->CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, address, &code);
    if (!buffer) return fail_cl(code, "clCreateBuffer", RAL_ERROR_OUT_OF_MEMORY);
    *out = {buffer, nullptr};
    return remember(*device, buffer, {bytes, buffer, true});
  });
}

ral_status release_import(int32_t index, ral_handle handle) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device) return RAL_ERROR_INVALID_ARGUMENT;
    Allocation allocation{};
    if (!forget(*device, handle, true, allocation))
      return fail(RAL_ERROR_INVALID_POINTER, "release_import: not an imported handle");
    if (!allocation.buffer) return RAL_SUCCESS;
    cl_int code = device->cl->ReleaseMemObject(allocation.buffer);
    return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clReleaseMemObject");
  });
}

}  // namespace

const ral_memory_table kMemoryTable = {
    sizeof(ral_memory_table), allocate,    release,       copy_from_host, copy_to_host,
    copy_on_device,           import_host, release_import};

}  // namespace ralcl
