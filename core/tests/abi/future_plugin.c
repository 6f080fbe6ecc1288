/* future_plugin.c - the 0.9 plugin as a later header would build it: every table longer, with members that this RAL does
 * not know. FUTURE_ABI is its abi_version. Reading beyond the known members would call `trap`, which ends the process. */
#include <ral/plugin.h>

#define ral_plugin_entry baseline_entry
#include "plugin_0_9/template_plugin.c"
#undef ral_plugin_entry

static ral_status trap(void) { abort(); }

typedef struct {
  ral_device_table known;
  ral_status (*added[3])(void);
} future_device_table;

typedef struct {
  ral_memory_table known;
  ral_status (*added[3])(void);
} future_memory_table;

typedef struct {
  ral_kernel_table known;
  ral_status (*added[3])(void);
} future_kernel_table;

typedef struct {
  ral_plugin known;
  ral_status (*added[3])(void);
} future_plugin;

static future_device_table f_device = {.added = {trap, trap, trap}};
static future_memory_table f_memory = {.added = {trap, trap, trap}};
static future_kernel_table f_kernel = {.added = {trap, trap, trap}};
static future_plugin f_plugin = {.added = {trap, trap, trap}};

RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host* host) {
  const ral_plugin* baseline = baseline_entry(host);
  f_device.known = *baseline->device;
  f_device.known.struct_size = sizeof f_device;
  f_memory.known = *baseline->memory;
  f_memory.known.struct_size = sizeof f_memory;
  f_kernel.known = *baseline->kernel;
  f_kernel.known.struct_size = sizeof f_kernel;
  f_plugin.known = *baseline;
  f_plugin.known.struct_size = sizeof f_plugin;
  f_plugin.known.abi_version = FUTURE_ABI;
  f_plugin.known.device = &f_device.known;
  f_plugin.known.memory = &f_memory.known;
  f_plugin.known.kernel = &f_kernel.known;
  return &f_plugin.known;
}
