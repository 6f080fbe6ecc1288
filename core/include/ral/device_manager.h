// DeviceManager: finds plugins, loads them, and numbers the devices of all of them as ral:0, ral:1, ...
//
// Nothing is searched or opened before the first call of a function that needs devices (count, device,
// plugins). A plugin that cannot be used never disturbs the others: it is listed with its reason.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ral/status.h"

namespace ral {

class MemoryPool;
class Stream;

// Device slots are fixed (PyTorch sizes its queues once) and never reused.
constexpr int kMaxDevices = 16;

// Why a plugin is or is not in use. Words as shown to users.
enum class PluginStatus { Loaded, Ready, MissingDeps, Refused };
RAL_API const char* plugin_status_name(PluginStatus status) noexcept;  // "LOADED", "READY", "MISSING_DEPS", "REFUSED"

// What became of a plugin that was found.
struct PluginReport {
  std::string name;     // vendor folder
  std::string version;  // "" when it could not be asked
  std::string path;     // of the library, resolved
  PluginStatus status = PluginStatus::Refused;
  std::string reason;                // why MISSING_DEPS or REFUSED; or manifest entries left out
  std::vector<std::string> missing;  // names of libraries
  int device_count = 0;
};

// One device of one plugin, with its pool and streams. Devices live until the process ends; any thread may use them.
class RAL_API Device {
 public:
  int index() const noexcept { return index_; }                   // its number in ral:<index>
  int plugin_index() const noexcept { return plugin_index_; }     // the plugin's own number
  const ral_plugin& plugin() const noexcept { return *plugin_; }  // tables of the plugin that drives it
  const ral_device_info& info() const noexcept { return info_; }  // as the plugin described it at load
  const std::string& mark() const noexcept { return mark_; }      // two letters of the driver's vendor: "Po", "In"
  // May host code read and write its memory in place?
  bool host_visible() const noexcept { return info_.flags & RAL_DEVICE_HOST_VISIBLE; }
  // Is it a driver that runs on the host's own cores?
  bool is_cpu() const noexcept { return info_.kind == RAL_DEVICE_CPU; }
  // Did its plugin say that it is gone? Its later work fails with DEVICE_LOST.
  bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  bool used() const noexcept { return used_.load(std::memory_order_relaxed); }  // LOADED rather than READY

  MemoryPool& pool() noexcept { return *pool_; }                  // its caching allocator
  Stream& default_stream() noexcept { return *default_stream_; }  // stream 0
  // A new stream; lower priority numbers run sooner. Never destroyed before the process ends; ids count from 1.
  Stream& new_stream(int priority);
  // The stream with this id (0 is the default stream). Throws INVALID_ARGUMENT for an unknown id.
  Stream& stream(int64_t id);
  Stream* try_stream(int64_t id) noexcept;  // nullptr instead of an error
  // Waits for all streams. Raises the first error that poisoned one of them, once.
  void synchronize();
  // Seconds that an empty launch and wait takes here, measured once at first call; infinity without kernels.
  double launch_cost();

  // The text of the plugin's last error on this thread, or "".
  std::string last_error() const;
  // Throws Error(code) with `what`, the device's name and last_error(), unless code is SUCCESS.
  void check(ral_status code, const char* what) const;

  struct Streams;  // device_state.h

 private:
  friend class DeviceBuilder;
  Device() = default;
  int index_ = -1;
  int plugin_slot_ = -1;
  int plugin_index_ = -1;
  const ral_plugin* plugin_ = nullptr;
  ral_device_info info_{};
  std::string mark_;
  std::atomic<bool> lost_{false}, used_{false};
  std::atomic<double> launch_cost_{-1.0};
  // Devices live until the process ends, and so does all that is theirs.
  MemoryPool* pool_ = nullptr;
  Stream* default_stream_ = nullptr;
  Streams* streams_ = nullptr;
};

// Every plugin and device of the process.
class RAL_API DeviceManager {
 public:
  static DeviceManager& get();  // the one of this process

  int count();                             // live devices; discovers at first call
  int slots() const noexcept;              // indices given so far, lost devices included; does not discover
  bool discovered() const noexcept;        // has discovery run?
  Device& device(int index);               // throws INVALID_ARGUMENT naming index and count
  Device* try_device(int index) noexcept;  // nullptr instead of an error
  std::vector<PluginReport> plugins();     // every plugin found, used or not
  // Where plugins are looked for, in order. `own_folder` is the wheel's, set by set_own_folder.
  std::vector<std::string> search_path() const;
  void set_own_folder(const std::string& folder);  // before the first discovery
  // Threads that plugins may use; handed to them through ral_host.thread_budget.
  void set_thread_budget(int threads) noexcept;
  // JSON text of devices and plugins, as docs/trace-format.md describes (also kept in the trace file).
  std::string status_json();
  // Child of a fork: every later use raises an error that says so.
  void mark_forked() noexcept;
  bool forked() const noexcept;  // has mark_forked been called?
};

}  // namespace ral
