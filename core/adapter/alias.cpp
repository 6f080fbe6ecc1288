// Aliases: the same bytes seen as a `ral` and as a CPU tensor, without a copy where host code can reach them.
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "adapter.h"

namespace torch_fl {

void note_adopted() noexcept;
bool is_foreign_deleter(c10::DeleterFnPtr deleter) noexcept;

namespace {

using c10::StorageImpl;

c10::intrusive_ptr<StorageImpl> borrowed_storage(void* address, size_t bytes, c10::Allocator* allocator) {
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes,
                                          c10::DataPtr(address, c10::Device(c10::kCPU)), allocator,
                                          allocator != nullptr);
}

void drop_slot(void* storage) { c10::raw::intrusive_ptr::decref(static_cast<StorageImpl*>(storage)); }

// A block keeps one borrowed CPU storage for its whole life, so that an alias costs one TensorImpl.
c10::intrusive_ptr<StorageImpl> cached_storage(ral::Block& block) {
  auto* known = static_cast<StorageImpl*>(block.slot.load(std::memory_order_acquire));
  if (C10_UNLIKELY(!known)) {
    static const bool registered = (ral::MemoryPool::set_slot_deleter(&drop_slot), true);
    (void)registered;
    auto* made = borrowed_storage(block.address, block.capacity, nullptr).release();
    void* expected = nullptr;
    if (block.slot.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) {
      known = made;
    } else {
      c10::raw::intrusive_ptr::decref(made);
      known = static_cast<StorageImpl*>(expected);
    }
  }
  return c10::intrusive_ptr<StorageImpl>::reclaim_copy(known);
}

void copy_flags(const at::Tensor& from, at::Tensor& to) {
  if (C10_UNLIKELY(from.is_conj())) to._set_conj(true);
  if (C10_UNLIKELY(from.is_neg())) to._set_neg(true);
  if (C10_UNLIKELY(from.unsafeGetTensorImpl()->is_wrapped_number())) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

// First and one-past-last byte of a strided tensor, relative to its storage.
std::pair<size_t, size_t> span_of(const at::Tensor& t) {
  if (t.numel() == 0) return {0, 0};
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const size_t item = t.itemsize();
  const auto begin = static_cast<size_t>(t.storage_offset()) * item;
  return {begin, begin + (static_cast<size_t>(last) + 1) * item};
}

ral::WorkNote copy_note(const char* name, uint64_t bytes) {
  ral::WorkNote note;
  note.kind = RAL_TRACE_COPY;
  note.bytes = bytes;
  if (ral::trace::enabled()) note.name = ral::trace::intern(name);
  return note;
}

}  // namespace

at::Tensor with_storage(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  at::Tensor out(std::move(impl));
  copy_flags(like, out);
  return out;
}

at::Tensor alias_as_cpu(const at::Tensor& t, bool resizable) {
  const auto& storage = t.storage();
  if (C10_UNLIKELY(resizable && t.numel() == 0)) {
    return with_storage(
        c10::Storage(borrowed_storage(const_cast<void*>(storage.data()), storage.nbytes(), c10::GetCPUAllocator())), t,
        c10::DispatchKey::CPU);
  }
  auto* block = storage.data_ptr().get_deleter() == &free_block ? ral::MemoryPool::find(storage.data()) : nullptr;
  if (C10_LIKELY(block != nullptr)) return with_storage(c10::Storage(cached_storage(*block)), t, c10::DispatchKey::CPU);
  return with_storage(c10::Storage(borrowed_storage(const_cast<void*>(storage.data()), storage.nbytes(), nullptr)), t,
                      c10::DispatchKey::CPU);
}

at::Tensor alias_as_meta(const at::Tensor& t) {
  at::Tensor out = at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type());
  if (t.storage_offset() != 0) {
    out.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
    out.storage().unsafeGetStorageImpl()->set_nbytes(t.storage().nbytes());
  }
  copy_flags(t, out);
  return out;
}

at::Tensor empty_ral(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::DeviceIndex index) {
  const auto previous = current_device();
  set_device_unchecked(index);
  auto out = at::detail::empty_strided_generic(sizes, strides, allocator(),
                                               c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  set_device_unchecked(previous);
  return out;
}

at::Tensor adopt(at::Tensor cpu, ral::Device& device, uint64_t* copied) {
  auto* impl = cpu.storage().unsafeGetStorageImpl();
  auto& data = impl->_mutable_data_ptr_no_checks();
  const size_t bytes = impl->nbytes();
  c10::Storage storage;
  if (device.host_visible() && is_foreign_deleter(data.get_deleter()) && cpu.storage().use_count() == 1 &&
      ral::MemoryPool::find(data.get())) {
    auto* block = ral::MemoryPool::find(data.release_context());
    note_adopted();
    storage = c10::Storage(
        c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes, data_ptr_of(block), allocator(), true));
  } else {
    const auto index = static_cast<c10::DeviceIndex>(device.index());
    auto raw = empty_ral({static_cast<int64_t>(bytes)}, {1}, at::kByte, index);
    if (bytes) {
      *copied += bytes;
      if (device.host_visible()) {
        wait_for(raw, "host op");
        std::memcpy(const_cast<void*>(raw.storage().data()), data.get(), bytes);
      } else {
        guarded([&] {
          const auto place = ral::MemoryPool::place(raw.storage().data(), device);
          auto& stream = current_stream(device);
          stream.wait(
              stream.copy_from_host(place.handle, place.offset, data.get(), bytes, copy_note("host_to_device", bytes)));
        });
      }
    }
    storage = raw.storage();
  }
  return with_storage(std::move(storage), cpu, c10::DispatchKey::PrivateUse1);
}

at::Tensor stage_to_cpu(const at::Tensor& t, uint64_t* copied) {
  const auto [begin, end] = span_of(t);
  const size_t bytes = end - begin;
  c10::Storage storage(
      c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes, c10::GetDefaultCPUAllocator(), true));
  if (bytes) {
    auto& device = device_at(t.device().index());
    guarded([&] {
      const auto place = ral::MemoryPool::place(static_cast<const char*>(t.storage().data()) + begin, device);
      auto& stream = current_stream(device);
      wait_for(t, "host op");
      stream.wait(stream.copy_to_host(storage.mutable_data(), place.handle, place.offset, bytes,
                                      copy_note("device_to_host", bytes)));
    });
    *copied += bytes;
  }
  auto out = with_storage(std::move(storage), t, c10::DispatchKey::CPU);
  out.unsafeGetTensorImpl()->set_storage_offset(0);
  return out;
}

void stage_back(const at::Tensor& cpu, const at::Tensor& t, uint64_t* copied) {
  const auto [begin, end] = span_of(t);
  const size_t bytes = end - begin;
  if (!bytes) return;
  auto& device = device_at(t.device().index());
  guarded([&] {
    const auto place = ral::MemoryPool::place(static_cast<const char*>(t.storage().data()) + begin, device);
    auto& stream = current_stream(device);
    stream.wait(stream.copy_from_host(place.handle, place.offset, cpu.storage().data(), bytes,
                                      copy_note("host_to_device", bytes)));
  });
  *copied += bytes;
}

ral_dtype to_ral_dtype(at::ScalarType type) {
  switch (type) {
    case at::kBool: return RAL_BOOL;
    case at::kByte: return RAL_UINT8;
    case at::kChar: return RAL_INT8;
    case at::kShort: return RAL_INT16;
    case at::kInt: return RAL_INT32;
    case at::kLong: return RAL_INT64;
    case at::kHalf: return RAL_FLOAT16;
    case at::kBFloat16: return RAL_BFLOAT16;
    case at::kFloat: return RAL_FLOAT32;
    case at::kDouble: return RAL_FLOAT64;
    case at::kComplexFloat: return RAL_COMPLEX64;
    case at::kComplexDouble: return RAL_COMPLEX128;
    case at::kUInt16: return RAL_UINT16;
    case at::kUInt32: return RAL_UINT32;
    case at::kUInt64: return RAL_UINT64;
    default: return -1;
  }
}

at::ScalarType to_scalar_type(ral_dtype dtype) {
  static constexpr at::ScalarType kTypes[] = {at::kBool,   at::kByte,   at::kChar,         at::kShort,
                                              at::kInt,    at::kLong,   at::kHalf,         at::kBFloat16,
                                              at::kFloat,  at::kDouble, at::kComplexFloat, at::kComplexDouble,
                                              at::kUInt16, at::kUInt32, at::kUInt64};
  TORCH_CHECK(dtype >= 0 && dtype < RAL_DTYPE_COUNT, "unknown ral_dtype ", dtype);
  return kTypes[dtype];
}

}  // namespace torch_fl
