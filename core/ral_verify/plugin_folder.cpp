// A search path of one folder, which holds a link to the plugin under its vendor's name.
#include "plugin_folder.h"

#include <cstdlib>
#include <filesystem>

namespace ral_verify {

namespace {

namespace fs = std::filesystem;

// "mychip" of libmychip_plugin.so, the only such file.
std::string vendor_in(const std::string& path) {
  const std::string asked = "ral-verify was asked for the plugin folder " + path;
  std::error_code error;
  if (!fs::is_directory(path, error))
    throw LoadError(asked + ", which is " + (fs::exists(path, error) ? "no folder" : "not there") +
                    "; name the folder that holds lib<vendor>_plugin.so and kernel_manifest.json");
  std::vector<std::string> vendors;
  const std::string before = "lib", after = "_plugin.so";
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > before.size() + after.size() && name.compare(0, before.size(), before) == 0 &&
        name.compare(name.size() - after.size(), after.size(), after) == 0)
      vendors.push_back(name.substr(before.size(), name.size() - before.size() - after.size()));
  }
  if (vendors.empty())
    throw LoadError(asked +
                    ", which holds no lib<vendor>_plugin.so; build the plugin, or name the folder that it is in");
  if (vendors.size() > 1)
    throw LoadError(asked + ", which holds " + std::to_string(vendors.size()) + " plugins (" + vendors[0] + ", " +
                    vendors[1] + ", ...); put each into a folder of its own");
  return vendors[0];
}

// A folder for this process, gone when it ends.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "ral-verify-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw LoadError("no temporary folder can be made in " + fs::temp_directory_path().string());
    path_ = name;
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The variable has another value as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      had_ = true;
      old_ = old;
    }
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

// Does the device belong to a plugin of the system's folder? A plugin may call itself otherwise than its folder.
bool of_another(const ral::Device& device, const std::string& vendor) {
  const char* name = device.plugin().name;
  for (const ral::PluginReport& report : ral::DeviceManager::get().plugins())
    if (name && report.name != vendor && report.name == name) return true;
  return false;
}

}  // namespace

Loaded load_folder(const std::string& path) {
  const std::string vendor = vendor_in(path);
  static const Scratch scratch;  // libral watches the manifest's folder until the process ends
  fs::create_directory_symlink(fs::canonical(path), scratch.path() / vendor);
  {
    // The user's own plugins are left alone: libral looks for them below HOME. Caches stay where they are.
    const char* home = std::getenv("HOME");
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const Variable search("RAL_PLUGIN_PATH", scratch.path().string());
    const Variable caches("XDG_CACHE_HOME", cache && *cache ? cache : std::string(home ? home : "") + "/.cache");
    const Variable nobody("HOME", scratch.path().string());
    ral::DeviceManager::get().count();
  }
  Loaded loaded;
  for (const ral::PluginReport& report : ral::DeviceManager::get().plugins())
    if (report.name == vendor) loaded.report = report;
  loaded.report.path = fs::canonical(path).string();
  const ral::PluginStatus status = loaded.report.status;
  if (status != ral::PluginStatus::Ready && status != ral::PluginStatus::Loaded)
    throw LoadError("ral-verify was asked for the plugin " + vendor + " in " + path + ", which is " +
                    ral::plugin_status_name(status) + ": " +
                    (loaded.report.reason.empty() ? "no reason was given" : loaded.report.reason) +
                    "; mend that and run again");
  for (int i = 0; i < ral::DeviceManager::get().slots(); ++i) {
    ral::Device* device = ral::DeviceManager::get().try_device(i);
    if (device && !of_another(*device, vendor)) loaded.devices.push_back(device);
  }
  if (loaded.devices.empty())
    throw LoadError("ral-verify was asked for the plugin " + vendor + " in " + path +
                    ", which loads but has no device here; check its driver, and RAL_VISIBLE_DEVICES");
  return loaded;
}

}  // namespace ral_verify
