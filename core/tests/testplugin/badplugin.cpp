// Plugins that must be refused; BAD_KIND chooses how.
#include <string.h>

#include "ral/plugin.h"

#define BAD_ABI 1
#define BAD_SIZE 2
#define BAD_NULL 3
#define BAD_MISSING 4
#define BAD_NO_MALLOC 5
#define BAD_OLD_TABLES 6  // not bad: tables as an older header knew them

static ral_status count(int32_t* out) {
  *out = 1;
  return RAL_SUCCESS;
}
static ral_status info(int32_t, ral_device_info* out) {
  const uint32_t size = out->struct_size;
  memset(out, 0, size);
  out->struct_size = size;
  strcpy(out->name, "Old device");
  out->total_memory = 1 << 30;
  out->max_allocation = 1 << 30;
  out->flags = RAL_DEVICE_HOST_VISIBLE;
  out->dtype_mask = 1u << RAL_FLOAT32;
  return RAL_SUCCESS;
}
static ral_status no_malloc(int32_t, uint64_t, ral_memory*) { return RAL_ERROR_OUT_OF_MEMORY; }
static ral_status no_free(int32_t, ral_handle) { return RAL_SUCCESS; }

extern "C" RAL_PLUGIN_EXPORT const char* ral_plugin_error(void) {
  return BAD_KIND == BAD_MISSING ? "missing: libvendor_runtime.so.3 (install the vendor's driver)" : "no usable chip";
}

extern "C" RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host*) {
  static ral_device_table device;
  device.struct_size = 3 * sizeof(void*);
  device.count = count;
  device.info = info;
  // What lies behind an older plugin's table is not ours to read.
  device.free_memory = reinterpret_cast<ral_status (*)(int32_t, uint64_t*)>(1);
  static ral_memory_table memory;
  memory.struct_size = 3 * sizeof(void*);
  memory.malloc = BAD_KIND == BAD_NO_MALLOC ? nullptr : no_malloc;
  memory.free = no_free;
  memory.copy_from_host = reinterpret_cast<decltype(memory.copy_from_host)>(1);
  static ral_plugin plugin;
  plugin.struct_size = BAD_KIND == BAD_SIZE ? 8 : static_cast<uint32_t>(offsetof(ral_plugin, stream));
  plugin.abi_version = BAD_KIND == BAD_ABI ? (9u << 16) | 1 : (RAL_ABI_MAJOR << 16) | (RAL_ABI_MINOR + 7);
  plugin.name = "bad";
  plugin.version = "0.1";
  plugin.device = &device;
  plugin.memory = &memory;
  plugin.stream = reinterpret_cast<const ral_stream_table*>(1);
  return BAD_KIND == BAD_NULL || BAD_KIND == BAD_MISSING ? nullptr : &plugin;
}
