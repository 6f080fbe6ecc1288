// plugin.cpp - the plugin's one entry: OpenCL devices for the RAL.
#include "plan.h"
#include "program.h"
#include "stream.h"

namespace ralcl {
namespace {

std::string& entry_error() {
  static auto* text = new std::string;
  return *text;
}

const ral_plugin kPlugin = {
    sizeof(ral_plugin), RAL_ABI_VERSION, "opencl",      "0.9.0",        last_error, &kDeviceTable, &kMemoryTable,
    &kStreamTable,      &kEventTable,    &kKernelTable, &kCompileTable, nullptr,    nullptr,
};

}  // namespace
}  // namespace ralcl

extern "C" RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host* host) {
  try {
    ralcl::g_host = host;
    if (ralcl::open_devices(ralcl::entry_error())) return &ralcl::kPlugin;
    ralcl::log(RAL_LOG_INFO, "opencl: " + ralcl::entry_error());
  } catch (const std::exception& error) {
    ralcl::entry_error() = error.what();
  }
  return nullptr;
}

extern "C" RAL_PLUGIN_EXPORT const char* ral_plugin_error(void) { return ralcl::entry_error().c_str(); }
