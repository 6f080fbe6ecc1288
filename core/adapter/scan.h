// The walk over a call's arguments: finds the device, refuses mixtures of devices, gathers the plan's signature.
#pragma once
#include "adapter.h"
#include "op_info.h"
#include "plan.h"

namespace torch_fl {

class Scan {
 public:
  Scan(const OpInfo& info, Signature* signature) : info_(info), signature_(signature) {}

  void add(const at::Tensor& t, const ArgInfo& arg, size_t i) {
    if (!t.defined()) return;
    if (is_ral(t)) {
      if (!first_) {
        first_ = &t;
      } else if (C10_UNLIKELY(t.device().index() != first_->device().index())) {
        mixed_devices(*first_, t);
      }
      if (!arg.out) note_operand(t);
      return;
    }
    const bool host_value = t.device().is_cpu() && (info_.cpu_operands || (t.dim() == 0 && !info_.one_device));
    if (arg.written || !host_value) others_.push_back({&t, i});
    mix(0x5ull + i);
  }

  const at::Tensor* first() const { return first_; }
  // The device of the call's tensors, or of `index` where it has none. Throws for mixtures.
  ral::Device& device(c10::DeviceIndex index) const {
    if (first_) {
      index = first_->device().index();
      for (const auto& [t, argument] : others_) check(*t, argument);
    }
    return device_at(index);
  }

 private:
  static uint64_t log2_bucket(int64_t n) { return n <= 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(n)); }

  void note_operand(const at::Tensor& t) {
    const auto dtype = to_ral_dtype(t.scalar_type());
    signature_->all_types_known &= dtype >= 0;
    const bool strided = t.layout() == at::kStrided;
    const bool contiguous = strided && t.is_contiguous();
    const int64_t n = strided ? t.numel() : 0;
    signature_->operands.push_back({dtype, static_cast<int>(t.dim()), contiguous, n});
    // Tall, wide and square operands of one element count differ for matrix products and reductions.
    const uint64_t shape = strided && t.dim() >= 2 ? log2_bucket(t.size(-1)) << 8 | log2_bucket(t.size(-2)) : 0;
    mix(static_cast<uint64_t>(dtype + 1) | static_cast<uint64_t>(t.dim()) << 8 |
        static_cast<uint64_t>(contiguous) << 16 | log2_bucket(n) << 20 | shape << 32);
  }

  void check(const at::Tensor& t, size_t argument) const {
    if (t.device() == first_->device()) return;
    if (info_.one_device && !info_.cpu_operands) one_device_only(*first_, t, info_, argument);
    mixed_devices(*first_, t);
  }

  [[noreturn]] static void mixed_devices(const at::Tensor& a, const at::Tensor& b);
  [[noreturn]] static void one_device_only(const at::Tensor& a, const at::Tensor& b, const OpInfo& info,
                                           size_t argument);

  void mix(uint64_t word) {
    signature_->hash = (signature_->hash ^ word) * 0x100000001b3ull;
    signature_->hash ^= signature_->hash >> 29;
  }

  const OpInfo& info_;
  Signature* signature_;
  const at::Tensor* first_ = nullptr;
  c10::SmallVector<std::pair<const at::Tensor*, size_t>, 4> others_;
};

}  // namespace torch_fl
