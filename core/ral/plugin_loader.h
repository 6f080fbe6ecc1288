// Finding plugins on the search path and bringing one into the process, or saying why not.
#pragma once
#include <string>
#include <vector>

#include "ral/device_manager.h"
#include "ral/plugin.h"

namespace ral {

struct PluginFile {
  std::string vendor, path;
  std::vector<std::string> duplicates;  // the same vendor in later folders, not used
};

// A plugin in use: its tables copied to this side's full size, so that absent members are NULL. Lives until the end.
struct LoadedPlugin {
  int slot = -1;
  PluginReport report;
  ral_plugin plugin{};
  ral_device_table device{};
  ral_memory_table memory{};
  ral_stream_table stream{};
  ral_event_table event{};
  ral_kernel_table kernel{};
  ral_compile_table compile{};
  std::string folder;    // of the library and its manifest
  std::string manifest;  // text; "" when there is none
  std::vector<std::string> notes;
  std::vector<std::pair<int, ral_device_info>> devices;  // plugin's index, descriptor
};

// In the order of `folders`; the first of each vendor name wins.
std::vector<PluginFile> find_plugins(const std::vector<std::string>& folders);

// Never throws: `report` says what came of it. nullptr when it cannot be used.
LoadedPlugin* load_plugin(int slot, const PluginFile& file, PluginReport* report);

// The text of a plugin's manifest file as it is now. Throws Error when it cannot be trusted or read.
std::string read_manifest_file(const std::string& folder);

// Asks for devices that `plugin.devices` does not hold yet and appends them (at load, and after a device-arrived notice).
void find_devices(LoadedPlugin& plugin);

}  // namespace ral
