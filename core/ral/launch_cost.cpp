// Device::launch_cost: the time of an empty launch and wait, measured with the smallest kernel that the plugin has.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "pool_internal.h"
#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/kernel_router.h"
#include "ral/log.h"
#include "ral/memory_pool.h"

namespace ral {

namespace {

constexpr int kRuns = 20;
constexpr double kTypical = 45e-6;  // seconds; a CPU driver's queue, where nothing can be measured

// Blocks that go back whatever happens.
class Scratch {
 public:
  Scratch(Device& device, size_t bytes)
      : device_(device), block_(device.pool().allocate(bytes, device.default_stream())) {}
  ~Scratch() { device_.pool().free(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* address() const { return block_->address; }

 private:
  Device& device_;
  Block* block_;
};

struct Vector16 {
  Vector16(Device& device, const void* address) {
    const MemoryPlace place = MemoryPool::place(address, device);
    tensor = {place.handle, {12, device.plugin_index()}, 1, {2, 32, 1}, shape, strides, place.offset};
    std::memset(&value, 0, sizeof value);
    value.tag = RAL_VALUE_TENSOR;
    value.dtype = RAL_FLOAT32;
    value.u.tensor = &tensor;
  }
  int64_t shape[1] = {16}, strides[1] = {1};
  ral_tensor tensor;
  ral_value value;
};

ral_value number(double d) {
  ral_value value;
  std::memset(&value, 0, sizeof value);
  value.tag = RAL_VALUE_DOUBLE;
  value.dtype = -1;
  value.u.d = d;
  return value;
}

double measure(Device& device, const char* op, bool two_inputs, const NativeKernel& kernel) {
  Scratch input(device, 64), output(device, 64), other(device, 64);
  Vector16 in(device, input.address()), out(device, output.address()), second(device, other.address());
  std::vector<ral_value> args = {in.value};
  if (two_inputs) args.push_back(second.value);
  args.push_back(number(1.0));
  uint64_t workspace_bytes = 0;
  const ral_kernel_table& table = *device.plugin().kernel;
  const uint32_t count = static_cast<uint32_t>(args.size());
  if (table.workspace_size)
    device.check(
        table.workspace_size(device.plugin_index(), kernel.handle, args.data(), count, &out.value, 1, &workspace_bytes),
        op);
  if (workspace_bytes) return kTypical;
  Stream& stream = device.default_stream();
  std::vector<double> seconds;
  for (int i = 0; i <= kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    stream.wait(stream.launch(kernel.handle, args.data(), count, &out.value, 1, nullptr, WorkNote()));
    const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(span.count());  // the first one may build the kernel
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

double launch_cost_of(Device& device) {
  if (!device.plugin().kernel) return std::numeric_limits<double>::infinity();
  const Operand operands[2] = {{RAL_FLOAT32, 1, true, 16}, {RAL_FLOAT32, 1, true, 16}};
  for (const bool two : {false, true}) {
    const char* op = two ? "aten::add.Tensor" : "aten::fill.Scalar";
    const Route route = KernelRouter::get().route(op, device, operands, two ? 2 : 1);
    if (!route.kernel) continue;
    try {
      return measure(device, op, two, *route.kernel);
    } catch (const Error& error) {
      log(RAL_LOG_INFO, std::string("launch cost not measured with ") + op + ": " + error.what());
    }
  }
  return kTypical;
}

}  // namespace

double Device::launch_cost() {
  double known = launch_cost_.load(std::memory_order_acquire);
  if (known >= 0) return known;
  static std::mutex mutex;
  std::lock_guard<std::mutex> guard(mutex);
  known = launch_cost_.load();
  if (known >= 0) return known;
  known = launch_cost_of(*this);
  launch_cost_.store(known, std::memory_order_release);
  return known;
}

}  // namespace ral
