// device.h - the plugin's devices: what they are, their OpenCL objects, and how errors are reported.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cl_api.h"
#include "ral/plugin.h"

namespace ralcl {

// One allocation that malloc or import_host gave out.
struct Allocation {
  uint64_t bytes;
  cl_mem buffer;  // null for SVM
  bool imported;
};

// Maps a device's clock to CLOCK_MONOTONIC: monotonic = device + offset.
struct Clock {
  std::mutex mutex;
  bool usable = true;
  int64_t calibrated_at = 0;  // CLOCK_MONOTONIC, ns; 0: never
  int64_t offset = 0;         // ns
  int64_t uncertainty = 0;    // ns, at the moment of calibration
  cl_command_queue queue = nullptr;
};

struct Device {
  const Api* cl = nullptr;
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;  // the default stream
  ral_device_info info{};
  bool svm = false;         // malloc gives fine-grain SVM: handle == address
  bool svm_system = false;  // any host address is valid in kernels
  bool profiling = true;
  bool correct_divide = false;
  bool fp64 = false;
  std::string no_compiler;  // why kernels cannot be built; "" where they can
  bool priorities = false;
  bool cpu = false;
  uint32_t vector_bytes = 32;  // width of the vectors that kernels are written with
  size_t max_group = 256;
  size_t group = 256;    // work-items in a group of data-parallel kernels
  std::string identity;  // device, driver and version: part of a binary's cache key
  std::mutex memory_mutex;
  std::unordered_map<void*, Allocation> allocations;
  std::mutex queues_mutex;
  cl_command_queue side_queue = nullptr;  // for completing builds; made on first need
  std::vector<cl_command_queue> queues;   // created by streams, live
  Clock clock;
};

// The RAL's services; set once by ral_plugin_entry.
extern const ral_host* g_host;

// Find and open all devices. False: `error` says why there are none. Called once.
bool open_devices(std::string& error);
int32_t device_count();
// Null for an index outside 0 .. count-1, with last_error set.
Device* find_device(int32_t index);

// Record the text of a failure for last_error() on this thread and give back `status`.
ral_status fail(ral_status status, const std::string& text);
// The same for an OpenCL error code; picks the status that fits it, or `otherwise`.
ral_status fail_cl(cl_int code, const char* call, ral_status otherwise = RAL_ERROR_RUNTIME);
ral_status last_error(char* buffer, uint64_t n);
void log(ral_log_level level, const std::string& text);

extern const ral_device_table kDeviceTable;

// Run `body` so that no exception leaves the plugin.
template <class Body>
ral_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return RAL_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return fail(RAL_ERROR_INTERNAL, error.what());
  }
}

}  // namespace ralcl
