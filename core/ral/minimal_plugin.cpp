// One set of plain C functions a plugin slot, each calling the vendor's four.
#include "minimal_plugin.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <utility>

#include "host_services.h"

namespace ral {

namespace {

struct Vendor {
  std::string name;
  int (*info)(int, ral_device_info*) = nullptr;
  void* (*malloc)(size_t, int) = nullptr;
  void (*free)(void*, int) = nullptr;
  const char* (*manifest)() = nullptr;
  ral_device_table device{};
  ral_memory_table memory{};
  ral_plugin plugin{};
};
Vendor& vendor_of(int slot) {
  static auto* const all = new std::array<Vendor, kMaxPlugins>;
  return (*all)[static_cast<size_t>(slot)];
}

constexpr int kMostDevices = 64;

ral_status describe(Vendor& vendor, int32_t device, ral_device_info* out) {
  const uint32_t size = out->struct_size;
  if (vendor.info(device, out) != 0) return RAL_ERROR_INVALID_ARGUMENT;
  out->struct_size = size;
  out->flags |= RAL_DEVICE_HOST_VISIBLE;  // what the minimal form promises
  if (out->dtype_mask == 0) out->dtype_mask = (1u << RAL_DTYPE_COUNT) - 1;
  if (!out->vendor[0]) std::strncpy(out->vendor, vendor.name.c_str(), sizeof out->vendor - 1);
  return RAL_SUCCESS;
}

template <int I>
struct Calls {
  static ral_status count(int32_t* out) {
    ral_device_info info;
    for (*out = 0; *out < kMostDevices; ++*out) {
      std::memset(&info, 0, sizeof info);
      info.struct_size = sizeof info;
      if (describe(vendor_of(I), *out, &info) != RAL_SUCCESS) break;
    }
    return RAL_SUCCESS;
  }
  static ral_status info(int32_t device, ral_device_info* out) { return describe(vendor_of(I), device, out); }
  static ral_status malloc(int32_t device, uint64_t bytes, ral_memory* out) {
    void* pointer = vendor_of(I).malloc(bytes, device);
    *out = {pointer, pointer};
    return pointer ? RAL_SUCCESS : RAL_ERROR_OUT_OF_MEMORY;
  }
  static ral_status free(int32_t device, ral_handle handle) {
    vendor_of(I).free(handle, device);
    return RAL_SUCCESS;
  }
  static ral_status manifest(const char** json) {
    *json = vendor_of(I).manifest();
    return *json ? RAL_SUCCESS : RAL_ERROR_UNSUPPORTED;
  }

  static void fill(Vendor* vendor) {
    vendor->device.struct_size = sizeof(ral_device_table);
    vendor->device.count = count;
    vendor->device.info = info;
    vendor->memory.struct_size = sizeof(ral_memory_table);
    vendor->memory.malloc = malloc;
    vendor->memory.free = free;
    vendor->plugin.struct_size = sizeof(ral_plugin);
    vendor->plugin.abi_version = RAL_ABI_VERSION;
    vendor->plugin.name = vendor->name.c_str();
    vendor->plugin.version = "minimal form";
    vendor->plugin.device = &vendor->device;
    vendor->plugin.memory = &vendor->memory;
    vendor->plugin.manifest = manifest;
  }
};

template <size_t... I>
constexpr std::array<void (*)(Vendor*), kMaxPlugins> fillers(std::index_sequence<I...>) {
  return {{Calls<static_cast<int>(I)>::fill...}};
}

template <typename F>
bool find(void* library, const std::string& symbol, F* out, std::string* problem) {
  *out = reinterpret_cast<F>(dlsym(library, symbol.c_str()));
  if (*out) return true;
  *problem += (problem->empty() ? "" : ", ") + symbol;
  return false;
}

}  // namespace

const ral_plugin* minimal_plugin(int slot, void* library, const std::string& name, std::string* problem) {
  static constexpr auto kFillers = fillers(std::make_index_sequence<kMaxPlugins>());
  Vendor& vendor = vendor_of(slot);
  vendor.name = name;
  std::string missing;
  find(library, name + "_get_device_info", &vendor.info, &missing);
  find(library, name + "_malloc", &vendor.malloc, &missing);
  find(library, name + "_free", &vendor.free, &missing);
  find(library, name + "_get_kernel_manifest", &vendor.manifest, &missing);
  if (!missing.empty()) {
    *problem = "it exports neither ral_plugin_entry nor the minimal form (no " + missing + ")";
    return nullptr;
  }
  kFillers[static_cast<size_t>(slot)](&vendor);
  return &vendor.plugin;
}

}  // namespace ral
