// The soak over the OpenCL plugin and whatever driver is first here: with shared virtual memory, and with buffers only.
// Skipped (exit status 77) where no OpenCL platform is found.
#include <filesystem>

#include "soak.h"

namespace {

// The built plugin in a sandbox, and its first device; nullptr without a platform.
struct OpenCl {
  OpenCl() {
    std::filesystem::copy(TEST_OPENCL_FOLDER, box.folder("opencl"), std::filesystem::copy_options::recursive);
    ral::DeviceManager& manager = ral::DeviceManager::get();
    if (manager.count() > 0) device = &manager.device(0);
  }
  harness::Sandbox box;
  ral::Device* device = nullptr;
};

// Device work is a copy within memory of its own, longer or shorter.
void soak_with(int threads, bool visible) {
  OpenCl cl;
  if (!cl.device) throw std::runtime_error("the OpenCL device of a moment ago is gone");
  CHECK(visible || !cl.device->host_visible());
  ral::Block* from = cl.device->pool().allocate(1 << 20, cl.device->default_stream());
  ral::Block* to = cl.device->pool().allocate(1 << 20, cl.device->default_stream());
  const ral::MemoryPlace a = ral::MemoryPool::place(from->address, *cl.device);
  const ral::MemoryPlace b = ral::MemoryPool::place(to->address, *cl.device);
  soak::run(*cl.device, threads, [&](ral::Stream& stream, unsigned amount) {
    return stream.copy_on_device(b.handle, b.offset, a.handle, a.offset, (amount + 1) * 4096, ral::WorkNote());
  });
  cl.device->pool().free(from);
  cl.device->pool().free(to);
  cl.device->pool().empty_cache();
  CHECK_EQ(cl.device->pool().stats().reserved, 0u);
}

}  // namespace

TEST(one_thread) { soak_with(1, true); }
TEST(four_threads) { soak_with(4, true); }
TEST(four_threads_buffers_only) {
  setenv("RAL_OPENCL_SVM", "0", 1);
  soak_with(4, false);
}

int main(int argc, char** argv) {
  if (argc == 1) {
    OpenCl cl;
    if (!cl.device) {
      std::printf("skipped: no OpenCL platform with a device\n");
      return 77;
    }
    std::printf("%s\n", cl.device->info().name);
    std::fflush(stdout);
  }
  return check::main(argc, argv);
}
