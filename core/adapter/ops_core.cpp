// The few operators that a device must provide itself: creation, copies, views, resizing, and the ones
// that PyTorch gives no CPU kernel to fall back on. None of them computes anything.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "adapter.h"

namespace torch_fl {

void copy_tensor(const at::Tensor& source, const at::Tensor& target, bool non_blocking);

namespace {

class DeviceScope {
 public:
  explicit DeviceScope(std::optional<c10::Device> device) : previous_(current_device()) {
    const auto index = device && device->has_index() ? device->index() : previous_;
    device_at(index);  // a clear error for an index that no device has
    set_device_unchecked(index);
  }
  ~DeviceScope() { set_device_unchecked(previous_); }

 private:
  c10::DeviceIndex previous_;
};

uint32_t empty_name() {
  static const auto name = ral::trace::intern("empty");
  return name;
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "ral: empty() makes strided tensors; got layout ",
              *layout);
  DeviceScope scope(device);
  AllocatingOp op(empty_name());
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool> pin) {
  TORCH_CHECK(!c10::pinned_memory_or_default(pin), "Only dense CPU tensors can be pinned");
  DeviceScope scope(device);
  AllocatingOp op(empty_name());
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype));
}

// A tensor without storage must never reach an alias: zeros stand for it.
at::Tensor efficient_zero_tensor(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype,
                                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                                 std::optional<bool> pin) {
  return at::zeros_symint(size, dtype, layout, device, pin);
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype) { return at::native::view_dtype(self, dtype); }
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
// Gives the tensor that geometry and lets its storage grow. PyTorch's own form copies the bytes with memcpy, which works
// on host-visible devices only.
void take_geometry(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::IntArrayRef> stride) {
  auto* impl = self.unsafeGetTensorImpl();
  if (stride) {
    impl->set_sizes_and_strides(size, *stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
  if (self.numel() == 0) return;
  const auto offset = static_cast<size_t>(self.storage_offset());
  const size_t needed = stride ? at::detail::computeStorageNbytes(size, *stride, self.itemsize(), offset)
                               : at::detail::computeStorageNbytesContiguous(size, self.itemsize(), offset);
  if (needed > self.storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), needed);
}
bool host_visible(const at::Tensor& t) { return device_at(t.device().index()).host_visible(); }

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (host_visible(self)) return at::native::resize_(self, sizes, format);
  const auto bytes_before = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != sizes) take_geometry(self, sizes, std::nullopt);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  if (at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory())
    at::native::fill_resize_deterministic_(self, bytes_before);
  return self;
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source) { return at::native::set_(self, source); }
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }
at::Tensor& set_none(at::Tensor& self) {
  const auto dtype = self.dtype();
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, allocator(), true);
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, self.device()));
  self.set_(storage, 0, {0}, {});
  TORCH_INTERNAL_ASSERT(dtype == self.dtype());
  return self;
}
at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                               c10::IntArrayRef stride) {
  if (host_visible(self)) return at::cpu::set_(self, source, offset, size, stride);
  at::native::checkSetStorage(self, source, offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  take_geometry(self, size, stride.data() ? std::optional(stride) : std::nullopt);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  copy_tensor(self, target, non_blocking);
  return target;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (is_ral(target)) {
    resize_(target, c10::fromIntArrayRefSlow(self.sizes()), std::nullopt);
  } else {
    at::native::resize_(target, self.sizes(), std::nullopt);
  }
  copy_tensor(self, target, false);
  return target;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  auto& device = device_at(self.device().index());
  return guarded([&] {
    if (device.host_visible()) {
      wait_for(self, "item");
      return at::_local_scalar_dense(alias_as_cpu(self, false));
    }
    uint64_t copied = 0;
    return at::_local_scalar_dense(stage_to_cpu(self, &copied));
  });
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  if (auto* block = block_of(self)) {
    auto& target = to_ral(stream);
    ral::MemoryPool::note_use(*block, target, target.submitted());
  }
}

// SDPBackend::math: the fused CPU kernels are chosen by PyTorch for CPU tensors only.
int64_t fused_sdp_choice(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         double, bool, std::optional<double>, bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", efficient_zero_tensor);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("view.dtype", view_dtype);
  m.impl("unfold", unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_", set_none);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("record_stream", record_stream);
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&boxed_router>());
  m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&boxed_router>());
}
// copy_ calls _copy_from with the flags still on; without these its Conjugate and Negative fallbacks recurse for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace
}  // namespace torch_fl
