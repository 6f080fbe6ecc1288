// DeviceManager and plugin loading: search order, every way to be refused, descriptors, the minimal form, forks, status.
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "harness.h"
#include "json.h"
#include "ral/log.h"
#include "ral/secure_context.h"
#include "sha256.h"

using namespace ral;
using harness::Control;
using harness::Fixture;
using harness::Sandbox;

static PluginReport report(const std::string& name) {
  for (const PluginReport& r : DeviceManager::get().plugins())
    if (r.name == name) return r;
  check::fail(__FILE__, __LINE__, "no report of plugin " + name);
  return {};
}
static void expect_refused(const std::string& name, const std::string& word,
                           PluginStatus status = PluginStatus::Refused) {
  const PluginReport r = report(name);
  CHECK_EQ(std::string(plugin_status_name(r.status)), plugin_status_name(status));
  CHECK_HAS(r.reason, word);
  CHECK_HAS(r.path, "lib" + name + "_plugin.so");
}
static const char kEmpty[] = "{\"kernels\": []}";

TEST(nothing_is_searched_before_first_use) {
  Sandbox box;
  box.install_alpha();
  CHECK(!DeviceManager::get().discovered());
  CHECK(DeviceManager::get().try_device(0) == nullptr);
  CHECK_EQ(DeviceManager::get().slots(), 0);
  CHECK_EQ(DeviceManager::get().count(), 1);
  CHECK(DeviceManager::get().discovered());
}

TEST(device_and_plugin_are_described) {
  Fixture f({{"DEVICES", "2"}});
  CHECK_EQ(DeviceManager::get().count(), 2);
  const Device& d = DeviceManager::get().device(1);
  CHECK_EQ(d.index(), 1);
  CHECK_EQ(d.plugin_index(), 1);
  CHECK_EQ(std::string(d.info().name), "Test device 1");
  CHECK_EQ(d.mark(), "Al");
  CHECK(d.is_cpu() && d.host_visible() && !d.used() && !d.lost());
  PluginReport r = report("alpha");
  CHECK_EQ(std::string(plugin_status_name(r.status)), "READY");
  CHECK_EQ(r.version, "1.2.3");
  CHECK_EQ(r.device_count, 2);
  CHECK_EQ(r.reason, "");
  f.pool->allocate(1, *f.stream);
  CHECK_EQ(std::string(plugin_status_name(report("alpha").status)), "LOADED");
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"device index 7 out of range", "2 ral devices", "ral:0 to ral:1"}),
               DeviceManager::get().device(7));
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"device index -1"}), DeviceManager::get().device(-1));
}

TEST(no_plugins_at_all) {
  Sandbox box;
  CHECK_EQ(DeviceManager::get().count(), 0);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"device index 0", "no ral device was found"}),
               DeviceManager::get().device(0));
}

TEST(search_order) {
  Sandbox box;
  const std::string second = box.root() + "/second";
  mkdir(second.c_str(), 0755);
  setenv("RAL_PLUGIN_PATH", (box.plugins() + ":" + second).c_str(), 1);
  DeviceManager::get().set_own_folder("/own");
  const std::vector<std::string> path = DeviceManager::get().search_path();
  const std::vector<std::string> expected = {box.plugins(), second, "/own",
                                             box.root() + "/home/.local/share/ral/plugins", "/opt/flagos/plugins"};
  CHECK(path == expected);
  box.install_alpha();
  mkdir((second + "/alpha").c_str(), 0755);
  const std::string other = second + "/alpha/libalpha_plugin.so";
  harness::write(other, "not even a library", 0755);
  CHECK_EQ(DeviceManager::get().count(), 1);  // the first one wins
  CHECK_HAS(report("alpha").path, box.plugins());
  CHECK_HAS(report("alpha").reason, "found later: " + other);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"after plugins were searched"}),
               DeviceManager::get().set_own_folder("/x"));
}

TEST(bad_plugins_do_not_disturb_good_ones) {
  Sandbox box;
  const std::string manifest = harness::read(std::string(TEST_SOURCE) + "/testplugin/kernel_manifest.json");
  box.install_alpha("zeta");
  mkdir(box.folder("text").c_str(), 0755);
  harness::write(box.library("text"), "#!/bin/sh\n", 0755);
  mkdir(box.folder("cut").c_str(), 0755);
  harness::write(box.library("cut"), harness::read(std::string(TEST_LIBRARIES) + "/libtestplugin.so").substr(0, 2000),
                 0755);
  mkdir(box.folder("folder").c_str(), 0755);
  mkdir(box.library("folder").c_str(), 0755);
  mkdir(box.folder("empty").c_str(), 0755);  // no library: not a plugin
  box.install("abi", "bad_abi", kEmpty);
  box.install("size", "bad_size", kEmpty);
  box.install("null", "bad_null", kEmpty);
  box.install("missing", "bad_missing", kEmpty);
  box.install("nomalloc", "bad_no_malloc", kEmpty);
  box.install("needslib", "needslib", kEmpty);
  box.install("norules", "testplugin", "");
  box.install("nojson", "testplugin", "{\"kernels\": [");
  box.install("nokernels", "testplugin", "[]");
  box.install("neither", "minimal", "");  // exports tiny_*, not neither_*
  box.install("loose", "testplugin", manifest);
  chmod(box.library("loose").c_str(), 0757);
  box.install("wide", "testplugin", manifest);
  chmod(box.folder("wide").c_str(), 0777);
  CHECK_EQ(DeviceManager::get().count(), 1);
  CHECK_EQ(std::string(plugin_status_name(report("zeta").status)), "READY");
  expect_refused("text", "not a shared library");
  expect_refused("cut", "the file is cut short (2000 bytes)");
  expect_refused("folder", "not a regular file");
  expect_refused("abi", "built for plugin ABI 9.1; this RAL has 0.9");
  expect_refused("size", "struct_size 8");
  expect_refused("null", "no usable chip");
  expect_refused("missing", "libvendor_runtime.so.3", PluginStatus::MissingDeps);
  CHECK_EQ(report("missing").missing.at(0), "libvendor_runtime.so.3");
  expect_refused("nomalloc", "mandatory function missing: memory malloc and free");
  expect_refused("needslib", "libtestvendor_runtime.so", PluginStatus::MissingDeps);
  CHECK_EQ(report("needslib").missing.at(0), "libtestvendor_runtime.so");
  expect_refused("norules", "kernel_manifest.json for its kernels");
  expect_refused("nojson", "broken manifest");
  CHECK_HAS(report("nojson").reason, "not JSON: line 1");
  expect_refused("nokernels", "no object with an array \"kernels\"");
  expect_refused("neither", "neither ral_plugin_entry nor the minimal form (no neither_get_device_info");
  expect_refused("loose", "writable by others (mode 0757)");
  expect_refused("wide", "writable by others (mode 0777)");
  CHECK_EQ(DeviceManager::get().plugins().size(), 16u);
}

TEST(group_writable_file_is_refused) {
  if (geteuid() != 0) return;  // a user's private group is the user; root's group is not
  Sandbox box;
  box.install_alpha();
  chmod(box.library("alpha").c_str(), 0775);
  CHECK_EQ(DeviceManager::get().count(), 0);
  expect_refused("alpha", "writable by others (mode 0775)");
}

TEST(impossible_descriptor_is_refused) {
  Sandbox box;
  setenv("TESTPLUGIN_BAD_INFO", "1", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), 0);
  expect_refused("alpha", "total_memory 1152921504606846976 bytes");
}

TEST(hidden_memory_without_copies_is_refused) {
  Sandbox box;
  setenv("TESTPLUGIN_VISIBLE", "0", 1);
  setenv("TESTPLUGIN_COPIES", "0", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), 0);
  expect_refused("alpha", "not host-visible and the plugin has no copy functions");
}

TEST(descriptor_checks) {
  ral_device_info good;
  memset(&good, 0, sizeof good);
  strcpy(good.name, "chip");
  good.total_memory = good.max_allocation = 1 << 20;
  good.dtype_mask = 1;
  SecureContext::check_descriptor(good, "x");
  const auto bad = [&](auto change, const char* word) {
    ral_device_info info = good;
    change(info);
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"plugin x", word}), SecureContext::check_descriptor(info, "x"));
  };
  bad([](ral_device_info& i) { i.name[0] = 0; }, "no name");
  bad([](ral_device_info& i) { memset(i.name, 'a', sizeof i.name); }, "without end");
  bad([](ral_device_info& i) { i.kind = 9; }, "kind 9");
  bad([](ral_device_info& i) { i.total_memory = 0; }, "total_memory 0");
  bad([](ral_device_info& i) { i.max_allocation = 2 << 20; }, "max_allocation 2097152");
  bad([](ral_device_info& i) { i.dtype_mask = 0; }, "stores no type");
  bad([](ral_device_info& i) { i.dtype_mask = 1u << 20; }, "unknown types");
  bad([](ral_device_info& i) { i.alignment = 48; }, "alignment 48");
}

TEST(older_tables_load) {
  Sandbox box;
  box.install("old", "bad_old_tables", "");
  CHECK_EQ(DeviceManager::get().count(), 1);
  const Device& d = DeviceManager::get().device(0);
  CHECK(d.plugin().stream == nullptr && d.plugin().kernel == nullptr && d.plugin().memory->copy_from_host == nullptr);
  CHECK(d.plugin().device->free_memory == nullptr);
  CHECK_THROWS(RAL_ERROR_OUT_OF_MEMORY, ({"Old device"}),
               DeviceManager::get().device(0).pool().allocate(1, DeviceManager::get().device(0).default_stream()));
}

TEST(minimal_form) {
  Sandbox box;
  box.install("tiny", "minimal", "");
  CHECK_EQ(DeviceManager::get().count(), 1);
  Device& d = DeviceManager::get().device(0);
  CHECK_EQ(std::string(d.info().name), "Tiny chip");
  CHECK_EQ(d.info().kind, RAL_DEVICE_NPU);
  CHECK(d.host_visible());
  CHECK_EQ(d.mark(), "Ti");
  Block* b = d.pool().allocate(1000, d.default_stream());
  const MemoryPlace place = MemoryPool::place(b->address, d);
  const char text[] = "minimal";
  char back[sizeof text] = {};
  d.default_stream().copy_from_host(place.handle, place.offset, text, sizeof text, WorkNote());
  d.default_stream().wait(d.default_stream().copy_to_host(back, place.handle, place.offset, sizeof text, WorkNote()));
  CHECK_EQ(std::string(back), text);
  d.pool().free(b);
  d.pool().empty_cache();
  d.synchronize();
}

TEST(visible_devices) {
  Sandbox box;
  setenv("TESTPLUGIN_DEVICES", "3", 1);
  setenv("RAL_VISIBLE_DEVICES", "2,0,x,9", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), 2);
  CHECK_EQ(DeviceManager::get().device(0).plugin_index(), 2);
  CHECK_EQ(DeviceManager::get().device(1).plugin_index(), 0);
}

TEST(visible_devices_by_name_and_vendor) {
  Sandbox box;
  setenv("TESTPLUGIN_DEVICES", "3", 1);
  setenv("RAL_VISIBLE_DEVICES", " 1, alpha,1", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), 3);  // the plugin's name means all of its devices, each once
  CHECK_EQ(DeviceManager::get().device(0).plugin_index(), 1);
  CHECK_EQ(DeviceManager::get().device(1).plugin_index(), 0);
  CHECK_EQ(DeviceManager::get().device(2).plugin_index(), 2);
}

TEST(visible_devices_none_left) {
  Sandbox box;
  setenv("RAL_VISIBLE_DEVICES", "", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), 0);
}

TEST(at_most_sixteen_devices) {
  Sandbox box;
  setenv("TESTPLUGIN_DEVICES", "20", 1);
  box.install_alpha();
  CHECK_EQ(DeviceManager::get().count(), kMaxDevices);
}

TEST(device_arrives_and_is_lost) {
  Fixture f;
  CHECK_EQ(DeviceManager::get().count(), 1);
  f.control->set("DEVICES", 2);
  CHECK_EQ(DeviceManager::get().count(), 1);
  f.control->host().device_arrived();
  CHECK_EQ(DeviceManager::get().count(), 2);
  f.control->host().device_lost(1, "unplugged");
  CHECK_EQ(DeviceManager::get().count(), 1);
  CHECK(DeviceManager::get().device(1).lost());
}

TEST(allow_list) {
  Sandbox box;
  box.install_alpha("alpha");
  box.install("beta", "minimal", "");
  const std::string list = box.root() + "/allowed";
  harness::write(list, sha256_file(box.library("alpha")) + "  libalpha_plugin.so\n");
  setenv("RAL_PLUGIN_ALLOW", list.c_str(), 1);
  CHECK_EQ(DeviceManager::get().count(), 1);
  expect_refused("beta", "is not in the allow list");
}

TEST(file_of_another_user_is_refused) {
  if (geteuid() != 0) return;  // only root can give a file away
  Sandbox box;
  box.install_alpha("alpha");
  box.install_alpha("beta");
  CHECK_EQ(chown(box.library("alpha").c_str(), 12345, static_cast<gid_t>(-1)), 0);
  CHECK_EQ(chown(box.folder("beta").c_str(), 12345, static_cast<gid_t>(-1)), 0);
  CHECK_EQ(DeviceManager::get().count(), 0);
  expect_refused("alpha", "belongs to user 12345, neither to root nor to you");
  expect_refused("beta", "belongs to user 12345, neither to root nor to you");
}

// The file that a link leads to is checked, and the folders around that file.
TEST(link_to_a_file_elsewhere_is_refused) {
  Sandbox box;
  box.install_alpha();
  const std::string elsewhere = box.root() + "/elsewhere";
  mkdir(elsewhere.c_str(), 0777);
  chmod(elsewhere.c_str(), 0777);
  CHECK_EQ(rename(box.library("alpha").c_str(), (elsewhere + "/lib.so").c_str()), 0);
  CHECK_EQ(symlink((elsewhere + "/lib.so").c_str(), box.library("alpha").c_str()), 0);
  mkdir(box.folder("dangling").c_str(), 0755);
  CHECK_EQ(symlink((elsewhere + "/none").c_str(), box.library("dangling").c_str()), 0);
  CHECK_EQ(DeviceManager::get().count(), 0);
  CHECK_HAS(report("alpha").reason, elsewhere + " is writable by others (mode 0777)");
  CHECK_HAS(report("dangling").reason, "cannot be used: No such file or directory");
}

TEST(manifest_that_others_may_write_is_refused) {
  Sandbox box;
  box.install_alpha();
  chmod((box.folder("alpha") + "/kernel_manifest.json").c_str(), 0666);
  CHECK_EQ(DeviceManager::get().count(), 0);
  expect_refused("alpha", "kernel_manifest.json is writable by others (mode 0666)");
}

TEST(device_nodes) {
  Sandbox box;
  CHECK_EQ(SecureContext::check_device_node("/dev/null", ""), "/dev/null");
  CHECK_EQ(SecureContext::check_device_node("/dev/null", "mem"), "/dev/null");
  const auto bad = [](const std::string& path, const char* driver, const char* word) {
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"device node " + path, word}),
                 SecureContext::check_device_node(path, driver));
  };
  bad("/dev/null", "tty", "major number 1, which is not driver tty's");
  bad("/dev/null", "no such driver", "which is not driver no such driver's");
  const std::string file = box.root() + "/file", link = box.root() + "/link", fifo = box.root() + "/fifo";
  bad(file, "", "cannot be used: No such file or directory");
  harness::write(file, "");
  bad(file, "", "is a regular file, not a character device");
  CHECK_EQ(symlink(file.c_str(), link.c_str()), 0);
  bad(link, "", (" (" + file + ") is a regular file").c_str());
  CHECK_EQ(mkfifo(fifo.c_str(), 0600), 0);
  bad(fifo, "", "is a FIFO");
  bad(box.root(), "", "is a folder");
  const std::string good = box.root() + "/good";
  CHECK_EQ(symlink("/dev/null", good.c_str()), 0);
  CHECK_EQ(SecureContext::check_device_node(good, "mem"), "/dev/null");
}

// Making nodes takes root, and a machine that lets it.
TEST(device_nodes_made_by_others) {
  Sandbox box;
  const std::string block = box.root() + "/block", open = box.root() + "/open", node = open + "/null";
  mkdir(open.c_str(), 0777);
  chmod(open.c_str(), 0777);
  if (mknod(block.c_str(), S_IFBLK | 0600, makedev(7, 0)) != 0 ||
      mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
    std::printf("device_nodes_made_by_others: not run, mknod: %s\n", strerror(errno));
    return;
  }
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({block, "is a block device"}), SecureContext::check_device_node(block, ""));
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({open, "is writable by others"}),
               SecureContext::check_device_node(node, ""));
}

TEST(cache_folder_is_private) {
  Fixture f;
  const std::string folder = f.control->host().cache_folder();
  CHECK_HAS(folder, f.box.root() + "/home/.cache/ral/alpha");
  struct stat info;
  CHECK_EQ(stat(folder.c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 0777, 0700u);
}

TEST(sha256) {
  Sandbox box;
  const auto sum = [&](const std::string& text) {
    harness::write(box.root() + "/f", text);
    return sha256_file(box.root() + "/f");
  };
  CHECK_EQ(sum(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(sum("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(sum(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_EQ(sha256_file(box.root() + "/none"), "");
}

TEST(private_folders) {
  Sandbox box;
  const std::string path = box.root() + "/a/b/c";
  CHECK_EQ(SecureContext::private_folder(path), path);
  struct stat info;
  CHECK_EQ(stat(path.c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 0777, 0700u);
  chmod(path.c_str(), 0755);
  SecureContext::private_folder(path);
  stat(path.c_str(), &info);
  CHECK_EQ(info.st_mode & 0777, 0700u);
  harness::write(box.root() + "/file", "");
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"is not a folder"}), SecureContext::private_folder(box.root() + "/file"));
  CHECK_EQ(symlink(path.c_str(), (box.root() + "/link").c_str()), 0);
  CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"is not a folder"}), SecureContext::private_folder(box.root() + "/link"));
}

TEST(host_services) {
  Fixture f;
  const ral_host& host = f.control->host();
  CHECK_EQ(host.abi_version, uint32_t(RAL_ABI_VERSION));
  CHECK_EQ(std::string(host.cache_folder()), f.box.root() + "/home/.cache/ral/alpha");
  DeviceManager::get().set_thread_budget(3);
  CHECK_EQ(host.thread_budget(), 3);
  DeviceManager::get().set_thread_budget(0);
  CHECK(host.thread_budget() >= 1);
  static std::string said;
  set_log_sink([](ral_log_level, const char* text) { said += text; });
  host.log(RAL_LOG_ERROR, "hot");
  CHECK_EQ(said, "alpha: hot");
}

TEST(status_text) {
  Fixture f;
  f.box.install("abi", "bad_abi", kEmpty);
  json::Value v;
  std::string problem;
  CHECK(json::parse(DeviceManager::get().status_json(), &v, &problem));
  const json::Value& d = v.find("devices")->items.at(0);
  CHECK_EQ(d.find("id")->string, "ral:0");
  CHECK_EQ(d.find("kind")->string, "CPU");
  CHECK_EQ(d.find("mark")->string, "Al");
  CHECK_EQ(d.find("plugin_version")->string, "1.2.3");
  CHECK_EQ(d.find("memory_total")->number, double(1 << 30));
  CHECK_EQ(d.find("dtypes")->items.size(), 4u);
  CHECK_EQ(d.find("status")->string, "READY");
  CHECK(d.find("host_visible")->boolean);
  CHECK_EQ(v.find("plugins")->items.at(0).find("status")->string, "READY");
  CHECK(v.find("torch_fl")->is(json::Kind::String));
}

// The child of a fork gets an error that says so; freeing there is harmless; the parent goes on.
TEST(forked_child) {
  Fixture f;
  Block* a = f.pool->allocate(64, *f.stream);
  f.slow(*f.stream, 1000);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    int wrong = !DeviceManager::get().forked();
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"forked child", "spawn"}), DeviceManager::get().count());
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"forked child"}), DeviceManager::get().device(0));
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"forked child"}), f.pool->allocate(64, *f.stream));
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"forked child"}), f.slow(*f.stream, 0));
    CHECK_THROWS(RAL_ERROR_INVALID_ARGUMENT, ({"forked child"}), f.stream->synchronize());
    f.pool->free(a);
    _exit(wrong + check::failures());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  f.stream->wait(f.slow(*f.stream, 0));
  f.pool->free(a);
  CHECK_EQ(DeviceManager::get().count(), 1);
}

// A child forked before any driver was opened may use devices.
TEST(child_forked_before_discovery) {
  Sandbox box;
  box.install_alpha();
  const pid_t pid = fork();
  if (pid == 0) _exit(DeviceManager::get().count() == 1 ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// At orderly end queues are waited for, then the plugin is told; frees before and after that are harmless.
TEST(orderly_end) {
  Sandbox box;
  const std::string out = box.root() + "/out";
  const int64_t begin = trace::now();
  const pid_t pid = fork();
  if (pid == 0) {
    if (!freopen(out.c_str(), "w", stderr)) _exit(9);
    setenv("TESTPLUGIN_ANNOUNCE_SHUTDOWN", "1", 1);
    static Block* early = nullptr;
    static Block* late = nullptr;
    static MemoryPool* pool = nullptr;
    std::atexit([] {  // registered before discovery: runs after the devices were closed
      pool->free(late);
      try {
        pool->allocate(64, late->device->default_stream());
        fprintf(stderr, "allocated\n");
      } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.what());
      }
    });
    Fixture* f = new Fixture;
    pool = f->pool;
    early = pool->allocate(64, *f->stream);
    late = pool->allocate(64, *f->stream);
    std::atexit([] { pool->free(early); });
    f->slow(*f->stream, 200000);
    exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(trace::now() - begin > 200000000);
  const std::string said = harness::read(out);
  CHECK_HAS(said, "testplugin shutdown");
  CHECK_HAS(said, "the process is ending");
  CHECK(said.find("shutdown") < said.find("is ending"));
}

int main(int argc, char** argv) { return check::main(argc, argv); }
