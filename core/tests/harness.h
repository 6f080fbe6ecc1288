// Helpers of the tests: folders with plugins in them, the test plugin's switches, tensors as ral_value.
#pragma once
#include <dlfcn.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/kernel_router.h"
#include "ral/memory_pool.h"
#include "ral/trace.h"

namespace harness {

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
inline void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
  std::ofstream(path, std::ios::binary) << text;
  chmod(path.c_str(), mode);
}

// Waits for what another thread brings about, for as long as a busy machine may need; false where it never came.
template <typename Condition>
bool eventually(Condition&& holds) {
  for (int i = 0; i < 6000; ++i) {
    if (holds()) return true;
    usleep(10000);
  }
  return false;
}

// A folder that goes when the case ends; the plugin search path, caches, home and trace files lie in it.
class Sandbox {
 public:
  Sandbox() {
    char name[] = "/tmp/ral_test_XXXXXX";
    root_ = mkdtemp(name);
    for (const char* folder : {"/plugins", "/home", "/run", "/tmp"}) mkdir((root_ + folder).c_str(), 0700);
    setenv("RAL_PLUGIN_PATH", plugins().c_str(), 1);
    setenv("HOME", (root_ + "/home").c_str(), 1);
    setenv("XDG_RUNTIME_DIR", (root_ + "/run").c_str(), 1);
    setenv("TMPDIR", (root_ + "/tmp").c_str(), 1);
    setenv("XDG_CACHE_HOME", (root_ + "/home/.cache").c_str(), 1);
    for (const char* name_of : {"RAL_VISIBLE_DEVICES", "RAL_PLUGIN_ALLOW", "RAL_FALLBACK", "RAL_FALLBACK_STRICT",
                                "RAL_TRACE_RECORDS", "RAL_MEMORY_FRACTION"})
      unsetenv(name_of);
    if (!getenv("RAL_LOG")) setenv("RAL_LOG", "error", 1);
  }
  ~Sandbox() {
    if (getpid() != owner_) return;
    nftw(
        root_.c_str(), [](const char* path, const struct stat*, int, FTW*) { return ::remove(path); }, 16,
        FTW_DEPTH | FTW_PHYS);
  }
  const std::string& root() const { return root_; }
  std::string plugins() const { return root_ + "/plugins"; }
  std::string folder(const std::string& vendor) const { return plugins() + "/" + vendor; }
  std::string library(const std::string& vendor) const { return folder(vendor) + "/lib" + vendor + "_plugin.so"; }

  // Installs a built test library under a vendor's name. `manifest` "": none.
  void install(const std::string& vendor, const std::string& built, const std::string& manifest) {
    mkdir(folder(vendor).c_str(), 0755);
    write(library(vendor), read(std::string(TEST_LIBRARIES) + "/lib" + built + ".so"), 0755);
    if (!manifest.empty()) write(folder(vendor) + "/kernel_manifest.json", manifest);
  }
  void install_alpha(const std::string& vendor = "alpha") {
    install(vendor, "testplugin", read(std::string(TEST_SOURCE) + "/testplugin/kernel_manifest.json"));
  }

 private:
  std::string root_;
  pid_t owner_ = getpid();
};

// The switches and counters of a loaded test plugin.
class Control {
 public:
  explicit Control(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    set_ = reinterpret_cast<void (*)(const char*, int64_t)>(dlsym(handle, "testplugin_set"));
    get_ = reinterpret_cast<int64_t (*)(const char*)>(dlsym(handle, "testplugin_get"));
    host_ = reinterpret_cast<const ral_host* (*)()>(dlsym(handle, "testplugin_host"));
  }
  void set(const char* key, int64_t value) const { set_(key, value); }
  int64_t get(const char* key) const { return get_(key); }
  const ral_host& host() const { return *host_(); }

 private:
  void (*set_)(const char*, int64_t) = nullptr;
  int64_t (*get_)(const char*) = nullptr;
  const ral_host* (*host_)() = nullptr;
};

// One device of the test plugin, ready to use.
struct Fixture {
  explicit Fixture(std::initializer_list<std::pair<const char*, const char*>> switches = {}) {
    for (const auto& [key, value] : switches) setenv((std::string("TESTPLUGIN_") + key).c_str(), value, 1);
    box.install_alpha();
    device = &ral::DeviceManager::get().device(0);
    stream = &device->default_stream();
    pool = &device->pool();
    control.reset(new Control(box.library("alpha")));
  }
  ral_kernel kernel(const std::string& op) const {
    const ral::Operand operand{RAL_FLOAT32, 1, true, 16};
    const ral::Route route = ral::KernelRouter::get().route(op, *device, &operand, 1);
    if (!route.kernel) throw std::runtime_error("no kernel for " + op + ": " + route.reason);
    return route.kernel->handle;
  }
  // Device work that takes `us` microseconds.
  uint64_t slow(ral::Stream& on, int64_t us) const {
    ral_value value;
    memset(&value, 0, sizeof value);
    value.tag = RAL_VALUE_INT;
    value.u.i = us;
    return on.launch(kernel("test::slow"), &value, 1, nullptr, 0, nullptr, ral::WorkNote());
  }
  Sandbox box;
  ral::Device* device = nullptr;
  ral::Stream* stream = nullptr;
  ral::MemoryPool* pool = nullptr;
  std::unique_ptr<Control> control;
};

// A dense float32 vector in a pool block.
struct Vector {
  Vector(ral::Block* block, int64_t n) : shape{n}, strides{1} {
    const ral::MemoryPlace place = ral::MemoryPool::place(block->address, *block->device);
    tensor = {place.handle, {12, block->device->plugin_index()}, 1, {2, 32, 1}, shape, strides, place.offset};
    memset(&value, 0, sizeof value);
    value.tag = RAL_VALUE_TENSOR;
    value.dtype = RAL_FLOAT32;
    value.u.tensor = &tensor;
  }
  int64_t shape[1], strides[1];
  ral_tensor tensor;
  ral_value value;
};
inline ral_value number(double d) {
  ral_value value;
  memset(&value, 0, sizeof value);
  value.tag = RAL_VALUE_DOUBLE;
  value.dtype = -1;
  value.u.d = d;
  return value;
}

}  // namespace harness
