// Loading the one plugin that lies in a folder of any name.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "ral/device_manager.h"

namespace ral_verify {

struct LoadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Loaded {
  ral::PluginReport report;
  std::vector<ral::Device*> devices;
};

// Loads the plugin and no other of the user's. Once a process. Throws LoadError, which says what was asked, what is and
// what to do.
Loaded load_folder(const std::string& path);

}  // namespace ral_verify
