#include "host_record.h"

namespace torch_fl {

void record_host_run(OpInfo& info, const ral::Device& device, const HostRun& run) noexcept {
  auto record = ral::trace::make(RAL_TRACE_KERNEL, run.end);
  record.begin_ns = run.begin;
  record.tier = run.tier;
  record.flags |= RAL_TRACE_HOST;
  record.device = static_cast<int16_t>(device.index());
  record.name = info.trace_name();
  record.kernel = run.kernel;
  record.reason = run.reason;
  record.shapes = run.shapes;
  record.bytes = run.bytes;
  record.copied = run.copied;
  if (run.input) record.aux64 = run.input->id;
  if (run.output) record.buffer = run.output->id;
  ral::trace::emit(record);
}

namespace {

std::string shapes_text(c10::ArrayRef<const at::Tensor*> tensors) {
  std::string out;
  for (const auto* t : tensors) {
    if (!t->defined() || out.size() > 200) continue;
    if (!out.empty()) out += ", ";
    out += "[";
    for (int64_t d = 0; d < t->dim(); ++d) out += (d ? ", " : "") + std::to_string(t->size(d));
    out += "] ";
    out += ral::dtype_name(to_ral_dtype(t->scalar_type()));
  }
  return out;
}

}  // namespace

uint32_t shapes_id(c10::ArrayRef<const at::Tensor*> tensors) {
  uint64_t hash = 0xcbf29ce484222325ull;
  auto mix = [&hash](uint64_t word) { hash = (hash ^ word) * 0x100000001b3ull, hash ^= hash >> 31; };
  for (const auto* t : tensors) {
    if (!t->defined()) continue;
    mix(static_cast<uint64_t>(t->scalar_type()) << 8 | static_cast<uint64_t>(t->dim()));
    for (const auto size : t->sizes()) mix(static_cast<uint64_t>(size));
  }
  struct Slot {
    uint64_t hash;
    uint32_t id;
  };
  thread_local Slot slots[512] = {};
  auto& slot = slots[hash & 511];
  if (slot.hash != hash || !slot.id) slot = {hash, ral::trace::intern(shapes_text(tensors))};
  return slot.id;
}

uint32_t shapes_id(const c10::IValue* begin, size_t count) {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  for (size_t i = 0; i < count; ++i) {
    if (begin[i].isTensor()) {
      tensors.push_back(&begin[i].toTensor());
    } else if (begin[i].isTensorList()) {
      for (const auto& item : begin[i].toListRef()) tensors.push_back(&item.toTensor());
    }
  }
  return shapes_id(tensors);
}

}  // namespace torch_fl
