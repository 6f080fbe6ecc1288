// Search, dlopen, checks of versions and tables, descriptors and manifest text.
#include "plugin_loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <locale.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "host_services.h"
#include "manifest.h"
#include "minimal_plugin.h"
#include "ral/log.h"
#include "ral/secure_context.h"

namespace ral {

namespace {

// Thrown inside this file only: the plugin is not used, for this reason.
struct Unusable {
  PluginStatus status;
  std::string reason;
  std::vector<std::string> missing;
};

[[noreturn]] void refuse(const std::string& reason) { throw Unusable{PluginStatus::Refused, reason, {}}; }
[[noreturn]] void lacks(const std::string& library, const std::string& reason) {
  throw Unusable{PluginStatus::MissingDeps, reason, {library}};
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* listing = opendir(path.c_str());
  if (!listing) return names;
  while (const dirent* item = readdir(listing))
    if (item->d_name[0] != '.') names.push_back(item->d_name);
  closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 || lstat(path.c_str(), &info) == 0;  // a dangling link is worth a report
}

// glibc maps what the headers promise without looking at the file's size: a library cut short ends the process by SIGBUS.
void check_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const uint64_t size = file ? static_cast<uint64_t>(file.tellg()) : 0;
  Elf64_Ehdr head;
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    refuse("not a shared library (no ELF header)");
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    refuse("not a shared library for this machine (no 64-bit ELF)");
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part;
    file.seekg(static_cast<std::streamoff>(head.e_phoff + i * sizeof part));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part) || part.p_offset > size ||
        part.p_filesz > size - part.p_offset)
      refuse("the file is cut short (" + std::to_string(size) + " bytes)");
  }
}

// dlopen with its messages in English whatever the user's language, since one of them is read below.
void* open_library(const std::string& path, std::string* message) {
  const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const locale_t before = plain ? uselocale(plain) : nullptr;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* text = dlerror();
    *message = text ? text : "unknown error of dlopen";
  }
  if (plain) uselocale(before), freelocale(plain);
  return library;
}

// "libfoo.so.1: cannot open shared object file: No such file or directory": libfoo.so.1, unless it is the plugin itself.
std::string missing_library(const std::string& message, const std::string& path) {
  const size_t at = message.find(": cannot open shared object file");
  if (at == std::string::npos) return "";
  const std::string name = message.substr(0, at);
  return name == path ? "" : name;
}

const ral_plugin* enter(int slot, void* library, const PluginFile& file) {
  const auto entry = reinterpret_cast<ral_plugin_entry_fn>(dlsym(library, "ral_plugin_entry"));
  if (!entry) {
    std::string problem;
    const ral_plugin* shim = minimal_plugin(slot, library, file.vendor, &problem);
    if (!shim) refuse(problem);
    return shim;
  }
  const ral_plugin* plugin = entry(host_table(slot, file.vendor));
  if (plugin) return plugin;
  const auto error = reinterpret_cast<ral_plugin_error_fn>(dlsym(library, "ral_plugin_error"));
  const char* said = error ? error() : nullptr;
  const std::string text = said && *said ? said : "its entry returned NULL and gave no reason";
  if (text.compare(0, 8, "missing:") != 0) refuse(text);
  std::string name = text.substr(8);
  name.erase(0, name.find_first_not_of(' '));
  name = name.substr(0, name.find_first_of(" ,;\n("));
  lacks(name, text);
}

// Copies a table that may be shorter or longer than ours. `needed` bytes must be there.
template <typename T>
void take_table(const T* from, T* to, size_t needed, const char* name) {
  if (from->struct_size < needed)
    refuse(std::string("its ") + name + " table has struct_size " + std::to_string(from->struct_size) + ", at least " +
           std::to_string(needed) + " are needed");
  std::memcpy(to, from, std::min<size_t>(from->struct_size, sizeof(T)));
}

#define RAL_UP_TO(type, member) (offsetof(type, member) + sizeof(type::member))

void need(bool there, const char* what) {
  if (!there) refuse(std::string("mandatory function missing: ") + what);
}

void take_tables(const ral_plugin* given, LoadedPlugin* out) {
  if (given->struct_size < RAL_UP_TO(ral_plugin, memory))
    refuse("its ral_plugin has struct_size " + std::to_string(given->struct_size) + ", at least " +
           std::to_string(RAL_UP_TO(ral_plugin, memory)) + " are needed");
  if (given->abi_version >> 16 != RAL_ABI_MAJOR)
    refuse("built for plugin ABI " + std::to_string(given->abi_version >> 16) + "." +
           std::to_string(given->abi_version & 0xffff) + "; this RAL has " + std::to_string(RAL_ABI_MAJOR) + "." +
           std::to_string(RAL_ABI_MINOR) + ". Rebuild it with this version's plugin.h");
  ral_plugin& p = out->plugin;
  std::memcpy(&p, given, std::min<size_t>(given->struct_size, sizeof p));
  need(p.device, "the device table");
  need(p.memory, "the memory table");
  take_table(p.device, &out->device, RAL_UP_TO(ral_device_table, info), "device");
  take_table(p.memory, &out->memory, RAL_UP_TO(ral_memory_table, free), "memory");
  p.device = &out->device;
  p.memory = &out->memory;
  need(out->device.count && out->device.info, "device count and info");
  need(out->memory.malloc && out->memory.free, "memory malloc and free");
  if (p.stream) {
    take_table(p.stream, &out->stream, RAL_UP_TO(ral_stream_table, synchronize), "stream");
    p.stream = &out->stream;
    need(out->stream.create && out->stream.destroy && out->stream.synchronize,
         "stream create, destroy and synchronize");
  }
  if (p.event && !p.stream) {
    out->notes.push_back("its event table is not used: it has no stream table");
    p.event = nullptr;
  }
  if (p.event) {
    take_table(p.event, &out->event, RAL_UP_TO(ral_event_table, release), "event");
    p.event = &out->event;
    need(out->event.record && out->event.query && out->event.synchronize && out->event.release,
         "event record, query, synchronize and release");
  }
  if (p.kernel) {
    take_table(p.kernel, &out->kernel, RAL_UP_TO(ral_kernel_table, launch), "kernel");
    p.kernel = &out->kernel;
    need(out->kernel.resolve && out->kernel.launch, "kernel resolve and launch");
  }
  if (p.compile) {
    take_table(p.compile, &out->compile, RAL_UP_TO(ral_compile_table, launch), "compile");
    p.compile = &out->compile;
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The manifest beside the library, which must be as trustworthy as the library.
std::string trusted_manifest(const std::string& folder) {
  try {
    return read_manifest_file(folder);
  } catch (const Error& error) {
    const std::string text = error.what();
    refuse(text.substr(text.find(": ") + 2));
  }
}

void take_manifest(LoadedPlugin* out) {
  std::string where = "its manifest";
  if (out->plugin.manifest) {
    const char* text = nullptr;
    const ral_status status = out->plugin.manifest(&text);
    if (status != RAL_SUCCESS || !text) refuse(std::string("its manifest function failed: ") + code_name(status));
    out->manifest = text;
  } else {
    where = out->folder + "/kernel_manifest.json";
    if (exists(where))
      out->manifest = trusted_manifest(out->folder);
    else if (out->plugin.kernel)
      refuse("no " + where + " for its kernels");
  }
  if (out->manifest.empty() && !out->plugin.kernel) {
    const bool empty = out->plugin.manifest || exists(where);
    out->notes.push_back((empty ? "empty " : "no ") + where + ": it has no kernels of its own");
    return;
  }
  std::vector<ManifestEntry> entries;
  std::vector<std::string> problems;
  if (!read_manifest(out->manifest, out->folder, &entries, &problems))
    refuse("broken manifest " + where + ": " + problems.front());
}

std::string join(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  return out;
}

LoadedPlugin* load(int slot, const PluginFile& file, PluginReport* report) {
  if (slot >= kMaxPlugins) refuse("more than " + std::to_string(kMaxPlugins) + " plugins");
  try {
    report->path = SecureContext::check_plugin_file(file.path);
  } catch (const Error& error) {
    const std::string text = error.what();
    refuse(text.substr(text.find(": ") + 2));
  }
  check_elf(report->path);
  std::string message;
  void* library = open_library(report->path, &message);
  if (!library) {
    const std::string missing = missing_library(message, report->path);
    if (missing.empty()) refuse("cannot be opened: " + message);
    lacks(missing, "needs " + missing + ", which is not found");
  }
  std::unique_ptr<LoadedPlugin> out(new LoadedPlugin);
  out->slot = slot;
  out->folder = report->path.substr(0, report->path.rfind('/'));
  take_tables(enter(slot, library, file), out.get());
  if (out->plugin.version) report->version = out->plugin.version;
  if (out->plugin.name && file.vendor != out->plugin.name)
    out->notes.push_back(std::string("it calls itself \"") + out->plugin.name + "\", its folder \"" + file.vendor +
                         "\"");
  take_manifest(out.get());
  find_devices(*out);
  if (out->devices.empty() && !out->notes.empty()) refuse(join(out->notes));
  return out.release();
}

}  // namespace

std::string read_manifest_file(const std::string& folder) {
  return read_file(SecureContext::check_file(folder + "/kernel_manifest.json"));
}

std::vector<PluginFile> find_plugins(const std::vector<std::string>& folders) {
  std::vector<PluginFile> found;
  for (const std::string& folder : folders) {
    for (const std::string& vendor : folders_in(folder)) {
      const std::string path = folder + "/" + vendor + "/lib" + vendor + "_plugin.so";
      if (!exists(path)) continue;
      const auto same =
          std::find_if(found.begin(), found.end(), [&vendor](const PluginFile& f) { return f.vendor == vendor; });
      if (same == found.end())
        found.push_back({vendor, path, {}});
      else if (same->path != path)
        same->duplicates.push_back(path);
    }
  }
  return found;
}

LoadedPlugin* load_plugin(int slot, const PluginFile& file, PluginReport* report) {
  report->name = file.vendor;
  report->path = file.path;
  LoadedPlugin* loaded = nullptr;
  try {
    loaded = load(slot, file, report);
    report->status = PluginStatus::Ready;
    report->reason = join(loaded->notes);
  } catch (const Unusable& why) {
    report->status = why.status;
    report->reason = why.reason;
    report->missing = why.missing;
    log(RAL_LOG_WARNING,
        "plugin " + file.path + " is not used (" + plugin_status_name(why.status) + "): " + why.reason);
  } catch (const std::exception& error) {
    report->status = PluginStatus::Refused;
    report->reason = error.what();
    log(RAL_LOG_WARNING, "plugin " + file.path + " is not used: " + error.what());
  }
  for (const std::string& other : file.duplicates) {
    report->reason += (report->reason.empty() ? "" : "; ") + std::string("not used, found later: ") + other;
    log(RAL_LOG_INFO, "plugin " + other + " is not used: " + file.path + " was found first");
  }
  if (loaded) loaded->report = *report;
  return loaded;
}

void find_devices(LoadedPlugin& plugin) {
  int32_t count = 0;
  const ral_status status = plugin.device.count(&count);
  if (status != RAL_SUCCESS || count < 0) {
    plugin.notes.push_back(std::string("its device count failed: ") + code_name(status));
    return;
  }
  for (int32_t i = 0; i < count; ++i) {
    const auto known = [i](const std::pair<int, ral_device_info>& d) { return d.first == i; };
    if (std::any_of(plugin.devices.begin(), plugin.devices.end(), known)) continue;
    ral_device_info info;
    std::memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    const ral_status answer = plugin.device.info(i, &info);
    std::string problem;
    if (answer != RAL_SUCCESS) {
      problem = std::string("device ") + std::to_string(i) + " cannot be described: " + code_name(answer);
    } else {
      try {
        SecureContext::check_descriptor(info, plugin.plugin.name ? plugin.plugin.name : plugin.report.name);
        const ral_memory_table& m = plugin.memory;
        if (!(info.flags & RAL_DEVICE_HOST_VISIBLE) && !(m.copy_from_host && m.copy_to_host && m.copy_on_device))
          problem =
              std::string("device \"") + info.name + "\" is not host-visible and the plugin has no copy functions";
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    if (problem.empty()) {
      plugin.devices.emplace_back(i, info);
    } else {
      plugin.notes.push_back(problem);
      log(RAL_LOG_WARNING, "plugin " + plugin.folder + ": " + problem);
    }
  }
}

}  // namespace ral
