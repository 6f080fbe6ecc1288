// The current device and stream of each thread, and PyTorch's device guard over them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "adapter.h"

namespace torch_fl {
namespace {

thread_local c10::DeviceIndex tls_device = 0;
thread_local ral::Stream* tls_streams[ral::kMaxDevices] = {};

}  // namespace

c10::DeviceIndex current_device() noexcept { return tls_device; }

ral::Device& device_at(c10::DeviceIndex index) {
  const int wanted = index < 0 ? tls_device : index;
  if (auto* device = ral::DeviceManager::get().try_device(wanted)) return *device;
  return guarded([&]() -> ral::Device& { return ral::DeviceManager::get().device(wanted); });
}

void set_device(c10::DeviceIndex index) {
  if (index < 0) return;
  if (index != 0) device_at(index);  // index 0 stays lazy: no driver is opened for it
  tls_device = index;
}

void set_device_unchecked(c10::DeviceIndex index) noexcept {
  if (index >= 0 && index < ral::kMaxDevices) tls_device = index;
}

ral::Stream& current_stream(ral::Device& device) {
  auto* stream = tls_streams[device.index()];
  return stream ? *stream : device.default_stream();
}

void set_current_stream(ral::Stream& stream) noexcept { tls_streams[stream.device().index()] = &stream; }

c10::Stream to_c10(ral::Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kRal, static_cast<c10::DeviceIndex>(stream.device().index())),
                     stream.id());
}

ral::Stream& to_ral(const c10::Stream& stream) {
  return guarded([&]() -> ral::Stream& { return device_at(stream.device_index()).stream(stream.id()); });
}

namespace {

ral::Event* as_event(void* event) { return static_cast<ral::Event*>(event); }

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kRal; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = getDevice();
    set_device(device.index());
    return old;
  }
  c10::Device getDevice() const override { return c10::Device(kRal, tls_device); }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { set_device_unchecked(device.index()); }

  c10::Stream getStream(c10::Device device) const override {
    // Without a stream of its own a thread answers the default one; nothing is opened for that.
    const auto index = device.index() < 0 ? tls_device : device.index();
    if (index < ral::kMaxDevices && tls_streams[index]) return to_c10(*tls_streams[index]);
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kRal, index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    const auto index = device.index() < 0 ? tls_device : device.index();
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kRal, index));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return guarded([&] { return to_c10(device_at(device.index()).new_stream(priority)); });
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = getStream(stream.device());
    if (old != stream) set_current_stream(to_ral(stream));
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(to_ral(stream).native());
  }
  // The capacity, not the live count: PyTorch's engine sizes its queues by it, once.
  c10::DeviceIndex deviceCount() const noexcept override { return ral::kMaxDevices; }
  bool queryStream(const c10::Stream& stream) const override {
    return guarded([&] { return to_ral(stream).query(); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    guarded([&] { to_ral(stream).synchronize(); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    guarded([&] { device_at(index).synchronize(); });
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    guarded([&] {
      if (!*event) *event = new ral::Event(flag == c10::EventFlag::BACKEND_DEFAULT);
      as_event(*event)->record(to_ral(stream));
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    guarded([&] { to_ral(stream).wait_event(*as_event(event)); });
  }
  bool queryEvent(void* event) const override {
    return !event || guarded([&] { return as_event(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event) guarded([&] { as_event(event)->synchronize(); });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete as_event(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "elapsed_time needs two recorded events; record both before asking");
    return guarded([&] { return as_event(end)->elapsed_since(*as_event(start)); });
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (auto* block = ral::MemoryPool::find(data.get())) {
      auto& target = to_ral(stream);
      ral::MemoryPool::note_use(*block, target, target.submitted());
    }
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace torch_fl
