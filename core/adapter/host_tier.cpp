// The cpu tier: PyTorch's own CPU kernels over the device's bytes. On host-visible devices nothing is
// copied: arguments are aliases, results are written into pool memory and adopted.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>

#include "call.h"
#include "host_record.h"

namespace torch_fl {
namespace {

// Makes CPU arguments out of ral ones and remembers what must go back.
class HostArguments {
 public:
  HostArguments(Call& call) : call_(call), host_visible_(call.device->host_visible()) {}

  void convert() {
    for (size_t i = 0; i < call_.info.args.size(); ++i) {
      const auto& info = call_.info.args[i];
      auto& value = call_.arg(i);
      if (value.isTensor()) {
        const auto& t = value.toTensor();
        if (t.defined() && (is_ral(t) || info.written)) {
          const at::Tensor original = t;
          value = to_cpu(t, info.written, static_cast<int>(i));
          if (C10_UNLIKELY(info.quiet && !host_visible_ && is_ral(original)))
            quiet_.emplace_back(original, value.toTensor());
        }
      } else if (value.isTensorList()) {
        const auto list = value.toTensorList();
        c10::List<at::Tensor> out;
        out.reserve(list.size());
        for (const at::Tensor& t : list) out.push_back(is_ral(t) ? to_cpu(t, info.written, -1) : t);
        value = std::move(out);
      } else if (value.isOptionalTensorList()) {
        const auto list = value.toOptionalTensorList();
        c10::List<std::optional<at::Tensor>> out;
        out.reserve(list.size());
        for (const std::optional<at::Tensor> t : list) {
          out.push_back(t && is_ral(*t) ? std::optional<at::Tensor>(to_cpu(*t, false, -1)) : t);
        }
        value = std::move(out);
      } else if (info.device && value.isDevice()) {
        value = c10::Device(c10::kCPU);
      } else if (info.generator) {
        std::optional<at::Generator> given;
        if (value.isGenerator()) given = value.toGenerator();
        value = derive_cpu_generator(given, static_cast<c10::DeviceIndex>(call_.device->index()));
      }
    }
  }

  // Sizes, strides and storage that the CPU kernel changed on written arguments go back to the originals.
  void write_back() {
    for (const auto& [tensor, copy] : quiet_) stage_back(copy, tensor, &copied_);
    for (auto& w : written_) {
      const auto& t = w.original;
      if (t.unsafeGetTensorImpl() == w.cpu.unsafeGetTensorImpl()) continue;
      if (t.layout() != at::kStrided) continue;
      const bool moved = host_visible_ ? w.cpu.storage().data() != t.storage().data()
                                       : w.cpu.storage().data() != w.bytes_before || w.cpu.sizes() != t.sizes();
      if (C10_UNLIKELY(moved)) {
        auto fresh = adopt(w.cpu, *call_.device, &copied_);
        auto* target = t.storage().unsafeGetStorageImpl();
        auto* source = fresh.storage().unsafeGetStorageImpl();
        target->set_data_ptr_noswap(std::move(source->_mutable_data_ptr_no_checks()));
        target->set_nbytes(source->nbytes());
        t.unsafeGetTensorImpl()->set_sizes_and_strides(w.cpu.sizes(), w.cpu.strides(), w.cpu.storage_offset());
      } else {
        if (C10_UNLIKELY(t.sizes() != w.cpu.sizes() || t.strides() != w.cpu.strides()))
          t.unsafeGetTensorImpl()->set_sizes_and_strides(w.cpu.sizes(), w.cpu.strides(),
                                                         host_visible_ ? w.cpu.storage_offset() : t.storage_offset());
        if (!host_visible_) stage_back(w.cpu, t, &copied_);
      }
    }
  }

  void adopt_results() {
    const size_t first = call_.stack.size() - call_.info.returns.size();
    for (size_t r = 0; r < call_.info.returns.size(); ++r) {
      auto& value = call_.stack[first + r];
      const auto& info = call_.info.returns[r];
      if (info.alias_arg >= 0) {
        for (const auto& w : written_)
          if (w.argument == info.alias_arg) value = w.original;
        continue;
      }
      if (info.keep_on_cpu) continue;
      if (value.isTensor()) {
        auto t = std::move(value).toTensor();
        value = to_device(std::move(t));
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> out;
        for (const at::Tensor& t : value.toTensorList()) out.push_back(to_device(at::Tensor(t)));
        value = std::move(out);
      }
    }
  }

  uint64_t copied() const { return copied_; }
  uint64_t bytes() const { return bytes_; }
  bool sparse() const { return sparse_; }
  const at::Tensor* first_input() const { return kept_.empty() ? nullptr : &kept_.front(); }

 private:
  struct Written {
    at::Tensor original, cpu;
    const void* bytes_before;
    int argument;
  };

  at::Tensor to_cpu(const at::Tensor& t, bool written, int argument) {
    at::Tensor cpu;
    if (!is_ral(t)) {
      cpu = t;
    } else if (t.layout() != at::kStrided) {
      sparse_ = true;
      cpu = sparse_to_cpu(t, host_visible_, &copied_);
    } else if (host_visible_) {
      wait_for(t, "host op");
      cpu = alias_as_cpu(t, written);
      bytes_ += t.numel() * t.itemsize();
    } else {
      cpu = stage_to_cpu(t, &copied_);
      bytes_ += t.numel() * t.itemsize();
    }
    if (C10_UNLIKELY(call_.info.asks_for_grad) && t.requires_grad()) cpu.set_requires_grad(true);
    if (written) {
      written_.push_back({t, cpu, cpu.layout() == at::kStrided ? cpu.storage().data() : nullptr, argument});
    } else {
      kept_.push_back(t);
      if (C10_UNLIKELY(!host_visible_)) staged_.push_back(cpu);
    }
    return cpu;
  }

  at::Tensor to_device(at::Tensor t) {
    if (!t.defined() || !t.device().is_cpu()) return t;
    if (t.layout() != at::kStrided) return sparse_to_ral(t, *call_.device, &copied_);
    bytes_ += t.numel() * t.itemsize();
    // A kernel that answers its own argument, or a view of it: share the original's storage.
    const void* data = t.storage().data();
    if (data) {
      for (const auto& k : kept_) {
        if (host_visible_ && k.has_storage() && k.storage().data() == data)
          return with_storage(k.storage(), t, c10::DispatchKey::PrivateUse1);
      }
      for (const auto& w : written_) {
        if (w.original.unsafeGetTensorImpl() != w.cpu.unsafeGetTensorImpl() && w.original.has_storage() &&
            host_visible_ && w.original.storage().data() == data)
          return with_storage(w.original.storage(), t, c10::DispatchKey::PrivateUse1);
      }
    }
    return adopt(std::move(t), *call_.device, &copied_);
  }

  Call& call_;
  bool host_visible_;
  bool sparse_ = false;
  uint64_t copied_ = 0, bytes_ = 0;
  c10::SmallVector<Written, 4> written_;
  c10::SmallVector<at::Tensor, 6> kept_;  // keeps the blocks behind the aliases alive
  c10::SmallVector<at::Tensor, 2> staged_;
  std::vector<std::pair<at::Tensor, at::Tensor>> quiet_;  // of the device, its copy
};

// Draws inside a kernel that takes no generator come from the default CPU generator: it is seeded from the device's
// state for the call and put back afterwards.
class SeededCpuGenerator {
 public:
  explicit SeededCpuGenerator(c10::DeviceIndex device)
      : generator_(at::detail::getDefaultCPUGenerator()), lock_(serial()) {
    auto derived = derive_cpu_generator(std::nullopt, device);
    std::lock_guard<std::mutex> guard(generator_.mutex());
    saved_ = generator_.get_state();
    generator_.set_state(derived.get_state());
  }
  ~SeededCpuGenerator() {
    std::lock_guard<std::mutex> guard(generator_.mutex());
    generator_.set_state(saved_);
  }

 private:
  static std::mutex& serial() {
    static std::mutex mutex;
    return mutex;
  }
  at::Generator generator_;
  std::unique_lock<std::mutex> lock_;
  at::Tensor saved_;
};

void call_cpu_kernel(Call& call, bool sparse) {
  if (C10_UNLIKELY(call.info.host_target.has_value())) {
    // convolution_backward takes the bias' sizes after the weight; the overrideable form does not have them.
    if (call.info.args.size() == 10) {
      const auto channels = call.arg(0).toTensor().size(1);
      call.stack.insert(call.stack.begin() + static_cast<std::ptrdiff_t>(call.base) + 3,
                        c10::IValue(std::vector<int64_t>{channels}));
    }
    at::AutoDispatchBelowADInplaceOrView below;
    call.info.host_target->callBoxed(&call.stack);
  } else if (C10_UNLIKELY(sparse)) {
    at::AutoDispatchBelowADInplaceOrView below;
    call.info.handle.callBoxed(&call.stack);
  } else {
    call.info.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call.stack);
  }
}

}  // namespace

int64_t run_on_host(Call& call, uint32_t reason, bool measure) {
  HostArguments arguments(call);
  arguments.convert();
  const bool tracing = ral::trace::enabled();
  uint32_t shapes = 0;
  if (C10_UNLIKELY(tracing)) {
    shapes = shapes_id(&call.arg(0), call.info.args.size());
  }
  const bool timed = tracing || measure;
  const int64_t begin = timed ? ral::trace::now() : 0;
  {
    std::optional<SeededCpuGenerator> seeded;
    if (C10_UNLIKELY(call.info.random_inside)) seeded.emplace(static_cast<c10::DeviceIndex>(call.device->index()));
    PoolScope pool(call.device->host_visible() ? call.device : nullptr);
    call_cpu_kernel(call, arguments.sparse());
  }
  const int64_t end = timed ? ral::trace::now() : 0;
  arguments.write_back();
  arguments.adopt_results();
  if (C10_UNLIKELY(tracing)) {
    HostRun run{.begin = begin, .end = end, .kernel = call.info.trace_kernel(), .reason = reason, .shapes = shapes};
    run.bytes = arguments.bytes();
    run.copied = arguments.copied();
    if (const auto* input = arguments.first_input()) run.input = block_of(*input);
    if (!call.info.returns.empty()) {
      const auto& out = call.stack[call.stack.size() - call.info.returns.size()];
      if (out.isTensor()) run.output = block_of(out.toTensor());
    }
    record_host_run(call.info, *call.device, run);
  }
  return end - begin;
}

}  // namespace torch_fl
