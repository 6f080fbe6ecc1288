// device.cpp - device discovery and information, see device.h.
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cl_loader.h"
#include "stream.h"

namespace ralcl {

const ral_host* g_host = nullptr;

namespace {

std::vector<std::unique_ptr<Device>>& devices() {
  static auto* list = new std::vector<std::unique_ptr<Device>>;  // never destroyed: drivers outlive us
  return *list;
}

thread_local char t_error[4096] = "";

std::string device_text(const Device& device, cl_uint what) {
  size_t size = 0;
  if (device.cl->GetDeviceInfo(device.id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (device.cl->GetDeviceInfo(device.id, what, size, &text[0], nullptr) != CL_SUCCESS) return "";
  text.resize(std::strlen(text.c_str()));
  size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

// 0 where the driver does not know the parameter.
template <class T>
T device_value(const Device& device, cl_uint what) {
  T value{};
  if (device.cl->GetDeviceInfo(device.id, what, sizeof value, &value, nullptr) != CL_SUCCESS) return T{};
  return value;
}

template <size_t N>
void copy_text(char (&target)[N], const std::string& text) {
  std::snprintf(target, N, "%s", text.c_str());
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Who makes the driver, by the platform's name.
std::string driver_maker(const std::string& platform, const std::string& vendor) {
  if (contains(platform, "Portable Computing Language")) return "PoCL";
  if (contains(platform, "Intel")) return "Intel";
  if (contains(platform, "rusticl") || contains(platform, "Clover")) return "Mesa";
  if (contains(platform, "NVIDIA")) return "NVIDIA";
  if (contains(platform, "AMD")) return "AMD";
  return vendor.empty() ? platform : vendor;
}

ral_device_kind kind_of(cl_bitfield type) {
  if (type & CL_DEVICE_TYPE_GPU) return RAL_DEVICE_GPU;
  if (type & CL_DEVICE_TYPE_CPU) return RAL_DEVICE_CPU;
  return RAL_DEVICE_OTHER;
}

std::string hex_uuid(const Device& device) {
  unsigned char bytes[16];
  if (device.cl->GetDeviceInfo(device.id, CL_DEVICE_UUID_KHR, sizeof bytes, bytes, nullptr) != CL_SUCCESS) return "";
  std::string text;
  char pair[3];
  for (unsigned char byte : bytes) {
    std::snprintf(pair, sizeof pair, "%02x", byte);
    text += pair;
  }
  return text;
}

bool svm_allowed() {
  const char* value = std::getenv("RAL_OPENCL_SVM");
  return !(value && std::strcmp(value, "0") == 0);
}

void describe(Device& device, const std::string& platform, const std::string& platform_vendor) {
  ral_device_info& info = device.info;
  info.struct_size = sizeof info;
  const std::string extensions = device_text(device, CL_DEVICE_EXTENSIONS);
  const std::string maker = driver_maker(platform, platform_vendor);
  const std::string version = device_text(device, CL_DRIVER_VERSION);
  info.kind = kind_of(device_value<cl_bitfield>(device, CL_DEVICE_TYPE));
  copy_text(info.name, device_text(device, CL_DEVICE_NAME));
  copy_text(info.vendor, maker);
  copy_text(info.driver, maker + " " + version);
  info.total_memory = device_value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  info.max_allocation = device_value<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  info.compute_units = device_value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  info.dtype_mask = (1u << RAL_DTYPE_COUNT) - 1;  // bytes are bytes
  info.alignment = 64;
  info.max_rank = 8;
  if (contains(extensions, "cl_khr_device_uuid")) copy_text(info.uuid, hex_uuid(device));

  const auto svm = device_value<cl_bitfield>(device, CL_DEVICE_SVM_CAPABILITIES);
  const bool has_calls = device.cl->SVMAlloc && device.cl->SetKernelArgSVMPointer && device.cl->EnqueueSVMMemcpy;
  device.svm = svm_allowed() && has_calls && (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER);
  device.svm_system = device.svm && (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM);
  device.fp64 = contains(extensions, "cl_khr_fp64");
  device.priorities = contains(extensions, "cl_khr_priority_hints");
  device.cpu = info.kind == RAL_DEVICE_CPU;
  if (!device_value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE))
    device.no_compiler = "this OpenCL driver has no compiler";
  if (maker == "PoCL" && !ensure_linker())
    device.no_compiler =
        "PoCL builds kernels with the linker ld, which is not installed (Debian and Ubuntu: apt install binutils)";
  device.correct_divide =
      device_value<cl_bitfield>(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  // PoCL before 3.1 brings an LLVM whose 64-byte vectors take minutes to build, or end the process.
  const bool wide = device_value<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) >= 16;
  device.vector_bytes = wide && !(maker == "PoCL" && std::atof(version.c_str()) < 3.1) ? 64 : 32;
  device.max_group = std::max<size_t>(1, device_value<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  device.group = std::min<size_t>(device.max_group, device.cpu ? 1024 : 256);
  info.flags = (device.svm ? RAL_DEVICE_HOST_VISIBLE : 0) | (device.fp64 ? RAL_DEVICE_FP64 : 0) |
               (contains(extensions, "cl_khr_fp16") ? RAL_DEVICE_FP16 : 0);
  device.identity =
      std::string(info.name) + "|" + platform + "|" + device_text(device, CL_DEVICE_VERSION) + "|" + version;
}

// Context and default queue. False, with a warning logged, where the driver refuses.
bool open(Device& device) {
  cl_int code = CL_SUCCESS;
  device.context = device.cl->CreateContext(nullptr, 1, &device.id, nullptr, nullptr, &code);
  if (code != CL_SUCCESS) {
    log(RAL_LOG_WARNING, std::string("opencl: device ") + device.info.name + " left out: clCreateContext failed with " +
                             std::to_string(code));
    return false;
  }
  if (!device.no_compiler.empty())
    log(RAL_LOG_WARNING, std::string("opencl: no native kernels on ") + device.info.name + ": " + device.no_compiler);
  device.queue = create_queue(device, 0);
  if (!device.queue) {
    log(RAL_LOG_WARNING, std::string("opencl: device ") + device.info.name + " left out: no command queue");
    return false;
  }
  return true;
}

// $RAL_OPENCL_SUBDEVICES: into how many devices of equal size each CPU device is split; 1 where it is not set.
cl_uint parts_wanted() {
  const char* text = std::getenv("RAL_OPENCL_SUBDEVICES");
  if (!text || !*text) return 1;
  char* end = nullptr;
  const long parts = std::strtol(text, &end, 10);
  if (!*end && parts >= 1 && parts <= 64) return static_cast<cl_uint>(parts);
  log(RAL_LOG_WARNING, std::string("opencl: RAL_OPENCL_SUBDEVICES=") + text + " is no number from 1 to 64; ignored");
  return 1;
}

// The parts of a CPU device, else the device itself. Parts that the driver cannot make are said and not made.
std::vector<cl_device_id> parts_of(const Device& whole, cl_uint wanted) {
  const std::vector<cl_device_id> unsplit = {whole.id};
  if (wanted <= 1 || kind_of(device_value<cl_bitfield>(whole, CL_DEVICE_TYPE)) != RAL_DEVICE_CPU) return unsplit;
  const cl_uint units = device_value<cl_uint>(whole, CL_DEVICE_MAX_COMPUTE_UNITS);
  std::vector<cl_device_id> parts(wanted);
  cl_int code = CL_INVALID_VALUE;
  if (units >= wanted) {
    const intptr_t how[] = {CL_DEVICE_PARTITION_EQUALLY, static_cast<intptr_t>(units / wanted), 0};
    cl_uint made = 0;
    code = whole.cl->CreateSubDevices(whole.id, how, wanted, parts.data(), &made);
    // As many as fit are reported; a driver that makes more than asked for fails.
    if (code == CL_SUCCESS && made == wanted) return parts;
  }
  log(RAL_LOG_WARNING, "opencl: " + device_text(whole, CL_DEVICE_NAME) + " with " + std::to_string(units) +
                           " compute units is not split into " + std::to_string(wanted) + " (OpenCL error " +
                           std::to_string(code) + ")");
  return unsplit;
}

// What the parts of one device share is divided between them.
void describe_part(Device& device, size_t number, size_t count) {
  ral_device_info& info = device.info;
  copy_text(info.name, std::string(info.name).substr(0, 100) + " [part " + std::to_string(number + 1) + " of " +
                           std::to_string(count) + "]");
  info.total_memory /= count;
  info.max_allocation = std::min(info.max_allocation, info.total_memory);
  if (info.uuid[0]) copy_text(info.uuid, std::string(info.uuid) + "-" + std::to_string(number));
}

std::string platform_text(const Platform& platform, cl_uint what) {
  char text[256] = "";
  if (platform.api->GetPlatformInfo(platform.id, what, sizeof text - 1, text, nullptr) != CL_SUCCESS) return "";
  return text;
}

ral_status table_count(int32_t* out) {
  *out = device_count();
  return RAL_SUCCESS;
}

ral_status table_info(int32_t index, ral_device_info* out) {
  Device* device = find_device(index);
  if (!device) return RAL_ERROR_INVALID_ARGUMENT;
  const uint32_t size = std::min<uint32_t>(out->struct_size, sizeof device->info);
  std::memcpy(out, &device->info, size);
  out->struct_size = size;
  return RAL_SUCCESS;
}

ral_status table_synchronize(int32_t index) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device) return RAL_ERROR_INVALID_ARGUMENT;
    // The lock keeps streams alive meanwhile; a thread that destroys one waits as long as it would anyway.
    std::lock_guard<std::mutex> lock(device->queues_mutex);
    cl_int code = device->cl->Finish(device->queue);
    for (cl_command_queue queue : device->queues) {
      cl_int one = device->cl->Finish(queue);
      if (code == CL_SUCCESS) code = one;
    }
    return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clFinish");
  });
}

}  // namespace

const ral_device_table kDeviceTable = {sizeof(ral_device_table), table_count, table_info, nullptr, table_synchronize};

bool open_devices(std::string& error) {
  const int budget = g_host && g_host->thread_budget ? g_host->thread_budget() : 0;
  LoadResult loaded = load_platforms(budget);
  if (!loaded.warning.empty()) log(RAL_LOG_WARNING, "opencl: Intel's driver is not used: " + loaded.warning);
  if (loaded.platforms.empty()) {
    error = loaded.error;
    return false;
  }
  for (const Platform& platform : loaded.platforms) {
    cl_uint count = 0;
    cl_int code = platform.api->GetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    if (code != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> ids(count);
    if (platform.api->GetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id id : ids) {
      Device whole;
      whole.cl = platform.api;
      whole.id = id;
      if (!device_value<cl_bool>(whole, CL_DEVICE_AVAILABLE)) continue;
      const std::vector<cl_device_id> parts = parts_of(whole, parts_wanted());
      for (size_t i = 0; i < parts.size(); ++i) {
        auto device = std::make_unique<Device>();
        device->cl = platform.api;
        device->id = parts[i];
        describe(*device, platform_text(platform, CL_PLATFORM_NAME), platform_text(platform, CL_PLATFORM_VENDOR));
        if (parts.size() > 1) describe_part(*device, i, parts.size());
        if (open(*device)) devices().push_back(std::move(device));
      }
    }
  }
  if (!devices().empty()) return true;
  error = "the OpenCL drivers found here offer no usable device";
  return false;
}

int32_t device_count() { return static_cast<int32_t>(devices().size()); }

Device* find_device(int32_t index) {
  if (index >= 0 && index < device_count()) return devices()[static_cast<size_t>(index)].get();
  fail(RAL_ERROR_INVALID_ARGUMENT,
       "no OpenCL device " + std::to_string(index) + " (there are " + std::to_string(device_count()) + ")");
  return nullptr;
}

ral_status fail(ral_status status, const std::string& text) {
  std::snprintf(t_error, sizeof t_error, "%s", text.c_str());
  return status;
}

ral_status fail_cl(cl_int code, const char* call, ral_status otherwise) {
  std::snprintf(t_error, sizeof t_error, "%s failed with OpenCL error %d", call, static_cast<int>(code));
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return RAL_ERROR_OUT_OF_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE: return RAL_ERROR_DEVICE_LOST;
    case CL_INVALID_MEM_OBJECT: return RAL_ERROR_INVALID_POINTER;
    default: return otherwise;
  }
}

ral_status last_error(char* buffer, uint64_t n) {
  if (!buffer || n == 0) return RAL_ERROR_INVALID_ARGUMENT;
  std::snprintf(buffer, n, "%s", t_error);
  return RAL_SUCCESS;
}

void log(ral_log_level level, const std::string& text) {
  if (g_host && g_host->log) g_host->log(level, text.c_str());
}

}  // namespace ralcl
