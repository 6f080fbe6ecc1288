// A plugin whose runtime library is not found.
#include "ral/plugin.h"

extern "C" int testvendor_runtime();
extern "C" RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host*) {
  return testvendor_runtime() ? nullptr : nullptr;
}
