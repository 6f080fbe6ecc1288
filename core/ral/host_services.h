// ral_host: what the RAL offers to each plugin. Its callbacks carry no user pointer, so each plugin has a set of its own.
#pragma once
#include <string>

#include "ral/plugin.h"

namespace ral {

constexpr int kMaxPlugins = 32;

// The table for plugin slot `slot` (0 .. kMaxPlugins-1), whose vendor folder is `name`. Valid until the process ends.
const ral_host* host_table(int slot, const std::string& name);
void set_host_thread_budget(int threads) noexcept;

// Told to the device manager.
void plugin_device_lost(int slot, int plugin_device, const char* reason);
void plugin_device_arrived(int slot);
// The ral index of a plugin's device; -1 when it has none.
int ral_index_of(int slot, int plugin_device) noexcept;

}  // namespace ral
