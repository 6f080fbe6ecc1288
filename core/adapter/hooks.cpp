// PyTorch's hooks for the device type: what autograd, storage resizing, pinned memory and torch.Generator ask for.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

#include "adapter.h"

namespace torch_fl {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

namespace {

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return ral::DeviceManager::get().count() > 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return new_generator(index); }
  at::Device getDeviceFromPtr(void* data) const override {
    const auto* block = ral::MemoryPool::find(data);
    TORCH_CHECK(block, "RAL_ERROR_INVALID_POINTER: ", data, " is not memory of a ral device");
    return at::Device(kRal, static_cast<c10::DeviceIndex>(block->device->index()));
  }
  bool isPinnedPtr(const void* data) const override {
    auto& manager = ral::DeviceManager::get();
    return manager.discovered() && is_pinned(data);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  // True once a device was used: before that the autograd engine must not open one.
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    auto& manager = ral::DeviceManager::get();
    return manager.discovered() && manager.try_device(index) != nullptr;
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(ral::DeviceManager::get().count());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto old = current_device();
    set_device(index);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    const auto previous = current_device();
    set_device_unchecked(storage.device().index());
    auto fresh = allocator()->allocate(bytes);
    set_device_unchecked(previous);
    const size_t kept = std::min(bytes, impl->nbytes());
    if (kept && impl->data()) allocator()->copy_data(fresh.get(), impl->data(), kept);
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
  }
};

const bool g_registered = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace
}  // namespace torch_fl
