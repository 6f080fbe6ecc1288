// Copies between the host, a device, and two devices, with conversion of type and strides.
#include <ATen/ops/empty_strided.h>

#include "adapter.h"
#include "ral/kernel_router.h"

namespace torch_fl {
namespace {

const char* direction(bool from_ral, bool to_ral, bool same_device) {
  if (from_ral && to_ral) return same_device ? "on_device" : "device_to_device";
  return from_ral ? "device_to_host" : "host_to_device";
}

void emit_copy(const at::Tensor& source, const at::Tensor& target, int64_t begin, uint64_t bytes, const char* name) {
  auto record = ral::trace::make(RAL_TRACE_COPY);
  record.begin_ns = begin;
  record.end_ns = ral::trace::now();
  record.flags |= RAL_TRACE_HOST;
  record.name = ral::trace::intern(name);
  record.bytes = bytes;
  auto& device = device_at((is_ral(target) ? target : source).device().index());
  record.device = static_cast<int16_t>(device.index());
  record.stream = static_cast<uint32_t>(current_stream(device).id());
  if (const auto* block = block_of(target)) record.buffer = block->id;
  if (const auto* block = block_of(source)) record.aux64 = block->id;
  ral::trace::emit(record);
}

bool is_visible(const at::Tensor& t) { return !is_ral(t) || device_at(t.device().index()).host_visible(); }

// One block of bytes on both sides, in the same order: no conversion is needed.
bool plain_bytes(const at::Tensor& source, const at::Tensor& target) {
  return source.scalar_type() == target.scalar_type() && source.sizes() == target.sizes() && source.is_contiguous() &&
         target.is_contiguous() && source.is_conj() == target.is_conj() && source.is_neg() == target.is_neg();
}

// Between tensors of one device that the host cannot see.
bool copy_on_device(const at::Tensor& source, const at::Tensor& target) {
  if (!is_ral(source) || !is_ral(target) || source.device() != target.device() || !plain_bytes(source, target))
    return false;
  auto& device = device_at(target.device().index());
  auto& stream = current_stream(device);
  const uint64_t bytes = static_cast<uint64_t>(target.numel()) * target.itemsize();
  const auto from = ral::MemoryPool::place(source.const_data_ptr(), device);
  const auto to = ral::MemoryPool::place(target.const_data_ptr(), device);
  ral::WorkNote note;
  note.kind = RAL_TRACE_COPY;
  note.bytes = bytes;
  if (ral::trace::enabled()) note.name = ral::trace::intern("on_device");
  const auto sequence = stream.copy_on_device(to.handle, to.offset, from.handle, from.offset, bytes, note);
  ral::MemoryPool::note_use(*block_of(source), stream, sequence);
  ral::MemoryPool::note_use(*block_of(target), stream, sequence);
  return true;
}

}  // namespace

void copy_tensor(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  (void)non_blocking;  // the host does its part at once; what is queued on a device stays in its stream's order
  if (target.numel() == 0) return;
  const bool from_ral = is_ral(source), to_ral_device = is_ral(target);
  const bool tracing = ral::trace::enabled();
  const int64_t begin = tracing ? ral::trace::now() : 0;
  const uint64_t bytes = static_cast<uint64_t>(target.numel()) * target.itemsize();
  const char* name = direction(from_ral, to_ral_device, source.device() == target.device());
  guarded([&] {
    const bool visible = is_visible(source) && is_visible(target);
    if (!visible && copy_on_device(source, target)) return;
    uint64_t staged = 0;
    if (from_ral) wait_for(source, "copy");
    if (to_ral_device) wait_for(target, "copy");
    const auto from = !from_ral            ? source
                      : is_visible(source) ? alias_as_cpu(source, false)
                                           : stage_to_cpu(source, &staged);
    if (!to_ral_device || is_visible(target)) {
      auto to = to_ral_device ? alias_as_cpu(target, false) : target;
      to.copy_(from);
    } else {
      // The span may hold other tensors' elements between ours: they are fetched and put back unless none can be there.
      auto to = target.is_non_overlapping_and_dense()
                    ? at::empty_strided(target.sizes(), target.strides(), target.options().device(at::kCPU))
                    : stage_to_cpu(target, &staged);
      to.copy_(from);
      stage_back(to, target, &staged);
    }
    if (tracing && visible) emit_copy(source, target, begin, bytes, name);
  });
}

}  // namespace torch_fl
