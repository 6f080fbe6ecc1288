// The minimal form: four functions named after the vendor.
#include <stdlib.h>
#include <string.h>

#include "ral/plugin.h"

extern "C" {
RAL_PLUGIN_EXPORT int tiny_get_device_info(int device, ral_device_info* out) {
  if (device > 0) return 1;
  strcpy(out->name, "Tiny chip");
  out->kind = RAL_DEVICE_NPU;
  out->total_memory = 64 << 20;
  out->max_allocation = 64 << 20;
  return 0;
}
RAL_PLUGIN_EXPORT void* tiny_malloc(size_t bytes, int) { return malloc(bytes); }
RAL_PLUGIN_EXPORT void tiny_free(void* pointer, int) { free(pointer); }
RAL_PLUGIN_EXPORT const char* tiny_get_kernel_manifest() { return "{\"kernels\": []}"; }
}
