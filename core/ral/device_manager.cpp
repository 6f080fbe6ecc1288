// Discovery, device slots, status text, and the end of the process.
#include "ral/device_manager.h"

#include <pthread.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>

#include "device_state.h"
#include "devices_internal.h"
#include "host_services.h"
#include "housekeeping.h"
#include "json.h"
#include "manifest_watch.h"
#include "plugin_loader.h"
#include "pool_internal.h"
#include "ral/async_stream.h"
#include "ral/kernel_router.h"
#include "ral/log.h"
#include "ral/memory_pool.h"
#include "ral/trace.h"
#include "router_internal.h"

namespace ral {

namespace {

struct Manager {
  std::recursive_mutex mutex;  // recursive: a plugin may send notices while it is being asked
  std::atomic<bool> discovered{false}, forked{false}, closed{false};
  std::atomic<bool> arrived{false};       // a device-arrived notice is not yet looked into
  std::atomic<bool> status_stale{false};  // the trace file's status text is older than the devices
  std::atomic<Device*> slots[kMaxDevices] = {};
  std::atomic<int> slot_count{0};
  std::vector<PluginReport> reports;
  std::vector<LoadedPlugin*> plugins;
  std::string own_folder;
};
// Never destroyed: tensors may outlive main().
Manager& manager() {
  static Manager* const one = new Manager;
  return *one;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string home() {
  const std::string set = variable("HOME");
  if (!set.empty()) return set;
  char text[4096];
  passwd entry, *found = nullptr;
  return getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found ? found->pw_dir : "";
}

// "Po" for "PoCL", "In" for "Intel(R) Corporation".
std::string mark_of(const ral_device_info& info) {
  std::string letters;
  for (const char* c = info.vendor[0] ? info.vendor : info.name; *c && letters.size() < 2; ++c) {
    const bool upper = *c >= 'A' && *c <= 'Z', lower = *c >= 'a' && *c <= 'z';
    if (!upper && !lower) continue;
    const char wanted_shift = static_cast<char>('a' - 'A');
    if (letters.empty())
      letters += lower ? static_cast<char>(*c - wanted_shift) : *c;
    else
      letters += upper ? static_cast<char>(*c + wanted_shift) : *c;
  }
  return letters.empty() ? "??" : letters;
}

struct Candidate {
  LoadedPlugin* plugin;
  int plugin_index;
  ral_device_info info;
};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Which of the devices found a word of $RAL_VISIBLE_DEVICES means: an index, or part of a name, vendor or plugin.
std::vector<size_t> meant_by(const std::string& word, const std::vector<Candidate>& all) {
  char* end = nullptr;
  const long index = std::strtol(word.c_str(), &end, 10);
  if (!word.empty() && !*end)
    return index >= 0 && index < static_cast<long>(all.size()) ? std::vector<size_t>{static_cast<size_t>(index)}
                                                               : std::vector<size_t>{};
  std::vector<size_t> found;
  for (size_t i = 0; !word.empty() && i < all.size(); ++i)
    for (const std::string& text :
         {std::string(all[i].info.name), std::string(all[i].info.vendor), all[i].plugin->report.name})
      if (lower(text).find(lower(word)) != std::string::npos) {
        found.push_back(i);
        break;
      }
  return found;
}

// $RAL_VISIBLE_DEVICES: which of the devices found are used, in the order wanted; each once.
std::vector<Candidate> visible(const std::vector<Candidate>& all) {
  const char* wanted = std::getenv("RAL_VISIBLE_DEVICES");
  if (!wanted) return all;
  std::vector<size_t> chosen;
  std::istringstream words(wanted);
  for (std::string word; std::getline(words, word, ',');) {
    word.erase(0, word.find_first_not_of(" \t"));
    word.erase(word.find_last_not_of(" \t") + 1);
    const std::vector<size_t> meant = meant_by(word, all);
    if (meant.empty())
      log(RAL_LOG_WARNING, "RAL_VISIBLE_DEVICES: \"" + word + "\" is no index, name or vendor of the " +
                               std::to_string(all.size()) + " devices found; left out");
    for (size_t i : meant)
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
  }
  std::vector<Candidate> out;
  for (size_t i : chosen) out.push_back(all[i]);
  return out;
}

const char* kind_text(ral_device_kind kind) {
  const char* names[] = {"CPU", "GPU", "NPU", "OTHER"};
  return names[kind];
}

void synchronize_and_close() {
  Manager& m = manager();
  if (m.forked.load()) return;
  trace::stop_housekeeping();
  drain_all();
  reap_all();
  m.closed.store(true);
  for (LoadedPlugin* plugin : m.plugins)
    if (plugin->plugin.shutdown) plugin->plugin.shutdown();
}

std::string status_text(size_t longest_reason) {
  Manager& m = manager();
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  const auto text = [](const std::string& value) { return json::quote(value); };
  std::string out = "{\"torch_fl\": " + text(RAL_VERSION) + ", \"devices\": [";
  for (int i = 0; i < m.slot_count.load(); ++i) {
    const Device& d = *m.slots[i].load();
    const ral_device_info& info = d.info();
    std::string dtypes;
    for (ral_dtype t = 0; t < RAL_DTYPE_COUNT; ++t)
      if (info.dtype_mask >> t & 1) dtypes += (dtypes.empty() ? "" : ", ") + text(dtype_name(t));
    const char* state = d.lost() ? "LOST" : d.used() ? "LOADED" : "READY";
    out += std::string(i ? ", " : "") + "{\"id\": \"ral:" + std::to_string(i) + "\", \"index\": " + std::to_string(i) +
           ", \"kind\": \"" + kind_text(info.kind) + "\", \"name\": " + text(info.name) +
           ", \"vendor\": " + text(info.vendor) + ", \"mark\": " + text(d.mark()) +
           ", \"driver\": " + text(info.driver) + ", \"memory_total\": " + std::to_string(info.total_memory) +
           ", \"dtypes\": [" + dtypes + "], \"plugin\": " + text(d.plugin().name ? d.plugin().name : "") +
           ", \"plugin_version\": " + text(d.plugin().version ? d.plugin().version : "") + ", \"status\": \"" + state +
           "\", \"host_visible\": " + (d.host_visible() ? "true" : "false") + "}";
  }
  out += "], \"plugins\": [";
  bool first = true;
  for (const PluginReport& r : DeviceManager::get().plugins()) {
    std::string missing;
    for (const std::string& name : r.missing) missing += (missing.empty() ? "" : ", ") + text(name);
    out += std::string(first ? "" : ", ") + "{\"name\": " + text(r.name) + ", \"version\": " + text(r.version) +
           ", \"path\": " + text(r.path) + ", \"status\": \"" + plugin_status_name(r.status) +
           "\", \"reason\": " + text(r.reason.substr(0, longest_reason)) + ", \"missing\": [" + missing + "]}";
    first = false;
  }
  return out + "]}";
}

void publish_status() {
  manager().status_stale.store(false);
  try {
    std::string text = status_text(16384);
    if (text.size() > RAL_TRACE_STATUS_BYTES) text = status_text(200);
    trace::set_status(text);
  } catch (const std::exception& error) {
    log(RAL_LOG_WARNING, std::string("the status text could not be written: ") + error.what());
  }
}

void fork_child() {
  trace::after_fork_child();
  DeviceManager::get().mark_forked();
}

}  // namespace

const char* plugin_status_name(PluginStatus status) noexcept {
  switch (status) {
    case PluginStatus::Loaded: return "LOADED";
    case PluginStatus::Ready: return "READY";
    case PluginStatus::MissingDeps: return "MISSING_DEPS";
    case PluginStatus::Refused: break;
  }
  return "REFUSED";
}

// Builds devices; the only friend of Device.
class DeviceBuilder {
 public:
  static void add(const Candidate& candidate) {
    Manager& m = manager();
    const int index = m.slot_count.load();
    if (index >= kMaxDevices) {
      log(RAL_LOG_WARNING, std::string("device \"") + candidate.info.name + "\" is not used: all " +
                               std::to_string(kMaxDevices) + " slots are taken");
      return;
    }
    Device* device = new Device;
    device->index_ = index;
    device->plugin_slot_ = candidate.plugin->slot;
    device->plugin_index_ = candidate.plugin_index;
    device->plugin_ = &candidate.plugin->plugin;
    device->info_ = candidate.info;
    device->mark_ = mark_of(candidate.info);
    device->streams_ = new Device::Streams;
    device->pool_ = new MemoryPool(*device);
    device->default_stream_ = new Stream(*device, 0, nullptr);
    device->streams_->table[0].store(device->default_stream_);
    device->streams_->count.store(1);
    m.slots[index].store(device, std::memory_order_release);
    m.slot_count.store(index + 1, std::memory_order_release);
    load_kernels(*device, *candidate.plugin);
  }
  static void set_lost(Device& device) noexcept { device.lost_.store(true); }
  static void set_used(Device& device) noexcept { device.used_.store(true); }
  static int slot(const Device& device) noexcept { return device.plugin_slot_; }

 private:
  static void load_kernels(Device& device, LoadedPlugin& plugin) {
    if (plugin.manifest.empty()) return;
    std::vector<std::string> problems;
    KernelRouter::get().load_manifest(device, plugin.manifest, plugin.folder, &problems);
    for (const std::string& problem : problems) {
      if (std::find(plugin.notes.begin(), plugin.notes.end(), problem) != plugin.notes.end()) continue;
      plugin.notes.push_back(problem);
      log(RAL_LOG_WARNING, "plugin " + plugin.report.name + ": manifest entry left out: " + problem);
      std::string& reason = plugin.report.reason;
      reason += (reason.empty() ? "" : "; ") + problem;
    }
  }
};

DeviceManager& DeviceManager::get() {
  static DeviceManager* const one = new DeviceManager;
  return *one;
}

namespace {

// A plugin's manifest was written: its devices take the new kernels, or keep what they have where it is no manifest.
void manifest_changed(const std::string& folder) {
  Manager& m = manager();
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  if (m.closed.load()) return;
  for (LoadedPlugin* plugin : m.plugins) {
    if (plugin->folder != folder || plugin->plugin.manifest) continue;
    std::string text;
    std::vector<std::string> problems;
    bool taken = false;
    try {
      text = read_manifest_file(folder);
      if (text == plugin->manifest) return;
      taken = true;
      for (int i = 0; taken && i < m.slot_count.load(); ++i) {
        Device& device = *m.slots[i].load();
        if (DeviceBuilder::slot(device) != plugin->slot || device.lost()) continue;
        problems.clear();  // each device says the same
        taken = KernelRouter::get().load_manifest(device, text, folder, &problems);
      }
    } catch (const std::exception& error) {
      problems.push_back(error.what());
    }
    std::string said;
    for (const std::string& problem : problems) said += (said.empty() ? "" : "; ") + problem;
    if (taken) plugin->manifest = text;
    const std::string what =
        taken ? "new kernel_manifest.json taken" : "new kernel_manifest.json not taken, the earlier one stays";
    plugin->report.reason = taken ? said : what + ": " + said;
    log(said.empty() ? RAL_LOG_INFO : RAL_LOG_WARNING,
        "plugin " + plugin->report.name + ": " + what + (said.empty() ? "" : ": " + said));
  }
  m.status_stale.store(true);
}

void discover() {
  Manager& m = manager();
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  if (m.discovered.load() || !m.plugins.empty()) return;
  std::vector<Candidate> candidates;
  int slot = 0;
  for (const PluginFile& file : find_plugins(DeviceManager::get().search_path())) {
    PluginReport report;
    LoadedPlugin* plugin = load_plugin(slot++, file, &report);
    if (!plugin) {
      m.reports.push_back(report);
      continue;
    }
    m.plugins.push_back(plugin);
    for (const auto& [index, info] : plugin->devices) candidates.push_back({plugin, index, info});
  }
  for (const Candidate& candidate : visible(candidates)) DeviceBuilder::add(candidate);
  watch_forks();
  // Registered after the drivers' own handlers, so that it runs before them.
  std::atexit(synchronize_and_close);
  m.arrived.store(false);
  m.discovered.store(true, std::memory_order_release);
  std::vector<std::string> folders;
  for (const LoadedPlugin* plugin : m.plugins)
    if (!plugin->plugin.manifest) folders.push_back(plugin->folder);
  watch_manifests(folders, manifest_changed);
  publish_status();
}

// Looks into a device-arrived notice.
void take_arrivals() {
  Manager& m = manager();
  if (!m.arrived.exchange(false)) return;
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  for (LoadedPlugin* plugin : m.plugins) {
    const size_t before = plugin->devices.size();
    find_devices(*plugin);
    for (size_t i = before; i < plugin->devices.size(); ++i)
      DeviceBuilder::add({plugin, plugin->devices[i].first, plugin->devices[i].second});
  }
  publish_status();
}

void need_devices() {
  Manager& m = manager();
  if (__builtin_expect(m.forked.load(std::memory_order_relaxed), 0)) require_devices();
  if (__builtin_expect(!m.discovered.load(std::memory_order_acquire), 0)) discover();
  if (__builtin_expect(m.arrived.load(std::memory_order_relaxed), 0)) take_arrivals();
}

}  // namespace

int DeviceManager::count() {
  need_devices();
  int live = 0;
  for (int i = 0; i < slots(); ++i) live += !manager().slots[i].load()->lost();
  return live;
}

int DeviceManager::slots() const noexcept { return manager().slot_count.load(std::memory_order_acquire); }

bool DeviceManager::discovered() const noexcept { return manager().discovered.load(std::memory_order_acquire); }

Device& DeviceManager::device(int index) {
  need_devices();
  if (Device* found = try_device(index)) return *found;
  std::string text = "device index " + std::to_string(index) + " out of range: ";
  text += slots() == 0 ? "no ral device was found"
          : slots() == 1
              ? "there is 1 ral device, ral:0"
              : "there are " + std::to_string(slots()) + " ral devices, ral:0 to ral:" + std::to_string(slots() - 1);
  for (const PluginReport& r : plugins())
    if (slots() == 0 && !r.reason.empty())
      text += "; plugin " + r.name + " is " + plugin_status_name(r.status) + ": " + r.reason;
  throw Error(RAL_ERROR_INVALID_ARGUMENT, text);
}

Device* DeviceManager::try_device(int index) noexcept {
  return index >= 0 && index < kMaxDevices ? manager().slots[index].load(std::memory_order_acquire) : nullptr;
}

std::vector<PluginReport> DeviceManager::plugins() {
  need_devices();
  Manager& m = manager();
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  std::vector<PluginReport> out;
  for (const LoadedPlugin* plugin : m.plugins) {
    PluginReport report = plugin->report;
    report.device_count = 0;
    for (int i = 0; i < slots(); ++i) {
      const Device& device = *m.slots[i].load();
      if (DeviceBuilder::slot(device) != plugin->slot) continue;
      ++report.device_count;
      if (device.used()) report.status = PluginStatus::Loaded;
    }
    out.push_back(report);
  }
  out.insert(out.end(), m.reports.begin(), m.reports.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const PluginReport& a, const PluginReport& b) { return a.name < b.name; });
  return out;
}

std::vector<std::string> DeviceManager::search_path() const {
  std::vector<std::string> path;
  const auto add = [&path](const std::string& folder) {
    if (!folder.empty() && std::find(path.begin(), path.end(), folder) == path.end()) path.push_back(folder);
  };
  std::istringstream given(variable("RAL_PLUGIN_PATH"));
  for (std::string folder; std::getline(given, folder, ':');) add(folder);
  {
    Manager& m = manager();
    std::lock_guard<std::recursive_mutex> guard(m.mutex);
    add(m.own_folder);
  }
  if (!home().empty()) add(home() + "/.local/share/ral/plugins");
  add("/opt/flagos/plugins");
  return path;
}

void DeviceManager::set_own_folder(const std::string& folder) {
  Manager& m = manager();
  std::lock_guard<std::recursive_mutex> guard(m.mutex);
  if (discovered() && folder != m.own_folder)
    throw Error(RAL_ERROR_INVALID_ARGUMENT, "set_own_folder(\"" + folder + "\") after plugins were searched for");
  m.own_folder = folder;
}

void DeviceManager::set_thread_budget(int threads) noexcept { set_host_thread_budget(threads); }

std::string DeviceManager::status_json() {
  need_devices();
  return status_text(16384);
}

void DeviceManager::mark_forked() noexcept {
  if (discovered()) manager().forked.store(true);
}

bool DeviceManager::forked() const noexcept { return manager().forked.load(std::memory_order_relaxed); }

// ---- Inside libral ----

bool devices_forked() noexcept { return manager().forked.load(std::memory_order_relaxed); }
bool devices_closed() noexcept { return manager().closed.load(std::memory_order_relaxed); }

void require_devices() {
  if (devices_forked())
    throw Error(RAL_ERROR_INVALID_ARGUMENT,
                "ral devices cannot be used in a forked child: their drivers do not survive fork(). Start workers with "
                "multiprocessing's \"spawn\" or \"forkserver\" method, or keep to CPU tensors in them");
  if (devices_closed())
    throw Error(RAL_ERROR_INVALID_ARGUMENT, "ral devices cannot be used any more: the process is ending");
}

template <typename F>
static void for_each_stream(F f) noexcept {
  Manager& m = manager();
  if (!m.discovered.load(std::memory_order_acquire) || devices_forked() || devices_closed()) return;
  for (int i = 0; i < m.slot_count.load(std::memory_order_acquire); ++i) {
    Device& device = *m.slots[i].load();
    for (int64_t id = 0; id < kMaxStreams; ++id) {
      Stream* stream = device.try_stream(id);
      if (!stream) break;
      f(*stream);
    }
  }
}

void reap_all() noexcept {
  for_each_stream([](Stream& stream) { stream.reap(); });
}

void drain_all() noexcept {
  for_each_stream([](Stream& stream) { settle(stream, stream.submitted()); });
}

void refresh_gauges() noexcept {
  Manager& m = manager();
  if (!m.discovered.load(std::memory_order_acquire) || devices_forked()) return;
  for (int i = 0; i < m.slot_count.load(std::memory_order_acquire); ++i) m.slots[i].load()->pool().refresh_gauge();
  if (m.status_stale.load()) publish_status();
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, fork_child); });
}

void device_changed(Device& device) noexcept {
  if (device.used()) return;
  DeviceBuilder::set_used(device);
  // Written by the next housekeeping round: callers may hold locks that the trace needs.
  manager().status_stale.store(true);
}

void device_lost_notice(Device& device) noexcept {
  if (device.lost()) return;
  DeviceBuilder::set_lost(device);
  manager().status_stale.store(true);
  log(RAL_LOG_ERROR, device_title(device) + " is lost");
}

int ral_index_of(int slot, int plugin_device) noexcept {
  Manager& m = manager();
  for (int i = 0; i < m.slot_count.load(std::memory_order_acquire); ++i) {
    const Device& device = *m.slots[i].load();
    if (DeviceBuilder::slot(device) == slot && device.plugin_index() == plugin_device) return i;
  }
  return -1;
}

void plugin_device_lost(int slot, int plugin_device, const char* reason) {
  const int index = ral_index_of(slot, plugin_device);
  if (index < 0) return;
  Device& device = *manager().slots[index].load();
  log(RAL_LOG_ERROR, device_title(device) + ": its plugin reports it lost: " + (reason ? reason : "no reason given"));
  device_lost_notice(device);
}

void plugin_device_arrived(int) { manager().arrived.store(true); }

}  // namespace ral
