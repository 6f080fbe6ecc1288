// The native tier: a plugin's kernel, its arguments as ral_value[], its outputs allocated here.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "call.h"

namespace torch_fl {
namespace {

// ral_value[] and everything it points to. `with_data` false: geometry only, for prepare().
class Values {
 public:
  Values(ral::Device& device, bool with_data) : device_(device), with_data_(with_data) {}

  // False: the value has no form in the ABI.
  bool add(const c10::IValue& value, const ArgInfo& info) {
    ral_value out{};
    out.dtype = -1;
    if (value.isNone() || info.generator) {
      out.tag = RAL_VALUE_NONE;
    } else if (value.isTensor()) {
      const auto& t = value.toTensor();
      if (!t.defined()) {
        out.tag = RAL_VALUE_NONE;
      } else if (is_ral(t)) {
        const auto* tensor = add_tensor(t);
        if (!tensor) return false;
        out.tag = RAL_VALUE_TENSOR;
        out.dtype = to_ral_dtype(t.scalar_type());
        out.u.tensor = tensor;
      } else if (t.dim() == 0 && t.device().is_cpu()) {
        if (!set_scalar(t.item(), &out)) return false;
        out.tag = RAL_VALUE_HOST_SCALAR;
        out.dtype = to_ral_dtype(t.scalar_type());
      } else {
        return false;
      }
    } else if (value.isTensorList()) {
      lists_.emplace_back();
      auto& items = lists_.back();
      for (const at::Tensor& t : value.toTensorList()) {
        const auto* tensor = is_ral(t) ? add_tensor(t) : nullptr;
        if (!tensor) return false;
        items.push_back(tensor);
      }
      out.tag = RAL_VALUE_TENSOR_LIST;
      out.u.tensors.items = items.data();
      out.u.tensors.count = items.size();
    } else if (info.dtype && value.isInt()) {
      out.tag = RAL_VALUE_DTYPE;
      out.dtype = to_ral_dtype(static_cast<at::ScalarType>(value.toInt()));
    } else if (value.isBool()) {
      out.tag = RAL_VALUE_BOOL;
      out.u.b = value.toBool();
    } else if (value.isInt()) {
      out.tag = RAL_VALUE_INT;
      out.u.i = value.toInt();
    } else if (value.isDouble()) {
      out.tag = RAL_VALUE_DOUBLE;
      out.u.d = value.toDouble();
    } else if (value.isComplexDouble()) {
      out.tag = RAL_VALUE_COMPLEX;
      out.u.complex.re = value.toComplexDouble().real();
      out.u.complex.im = value.toComplexDouble().imag();
    } else if (value.isIntList()) {
      ints_.push_back(value.toIntVector());
      out.tag = RAL_VALUE_INT_LIST;
      out.u.ints.items = ints_.back().data();
      out.u.ints.count = ints_.back().size();
    } else if (value.isDoubleList()) {
      doubles_.push_back(value.toDoubleVector());
      out.tag = RAL_VALUE_DOUBLE_LIST;
      out.u.doubles.items = doubles_.back().data();
      out.u.doubles.count = doubles_.back().size();
    } else if (value.isBoolList()) {
      bools_.emplace_back();
      for (const bool b : value.toBoolList()) bools_.back().push_back(b);
      out.tag = RAL_VALUE_BOOL_LIST;
      out.u.bools.items = bools_.back().data();
      out.u.bools.count = bools_.back().size();
    } else if (value.isString()) {
      strings_.push_back(value.toStringRef());
      out.tag = RAL_VALUE_STRING;
      out.u.string = strings_.back().c_str();
    } else if (value.isDevice()) {
      out.tag = RAL_VALUE_NONE;
    } else {
      return false;
    }
    values_.push_back(out);
    return true;
  }

  const ral_value* data() const { return values_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  const std::vector<ral::Block*>& blocks() const { return blocks_; }
  uint64_t bytes() const { return bytes_; }

 private:
  static bool set_scalar(const at::Scalar& s, ral_value* out) {
    if (s.isComplex()) {
      out->u.complex.re = s.toComplexDouble().real();
      out->u.complex.im = s.toComplexDouble().imag();
    } else if (s.isFloatingPoint()) {
      out->u.complex.re = s.toDouble();
    } else {
      out->i64 = s.isBoolean() ? static_cast<int64_t>(s.toBool()) : s.toLong();
      out->u.complex.re = static_cast<double>(out->i64);
    }
    return true;
  }

  const ral_tensor* add_tensor(const at::Tensor& t) {
    const auto dtype = to_ral_dtype(t.scalar_type());
    if (dtype < 0 || t.layout() != at::kStrided || t.is_conj() || t.is_neg()) return nullptr;
    geometry_.emplace_back(t.sizes().begin(), t.sizes().end());
    auto* shape = geometry_.back().data();
    geometry_.emplace_back(t.strides().begin(), t.strides().end());
    auto* strides = geometry_.back().data();
    ral_tensor out{};
    out.device = {12, device_.plugin_index()};
    out.ndim = static_cast<int32_t>(t.dim());
    out.dtype = dl_type(t.scalar_type());
    out.shape = shape;
    out.strides = strides;
    const uint64_t offset = static_cast<uint64_t>(t.storage_offset()) * t.itemsize();
    if (with_data_ && t.storage().data()) {
      if (auto* block = ral::MemoryPool::find(t.storage().data())) blocks_.push_back(block);
      const auto place = ral::MemoryPool::place(t.storage().data(), device_);
      out.data = place.handle;
      out.byte_offset = place.offset + offset;
    } else {
      out.byte_offset = offset;
    }
    bytes_ += static_cast<uint64_t>(t.numel()) * t.itemsize();
    tensors_.push_back(out);
    return &tensors_.back();
  }

  static ral_dl_type dl_type(at::ScalarType type) {
    const auto bits = static_cast<uint8_t>(c10::elementSize(type) * 8);
    uint8_t code = 0;
    if (type == at::kBool) {
      code = 6;
    } else if (type == at::kBFloat16) {
      code = 4;
    } else if (c10::isComplexType(type)) {
      code = 5;
    } else if (c10::isFloatingType(type)) {
      code = 2;
    } else if (!c10::isSignedType(type)) {
      code = 1;
    }
    return {code, bits, 1};
  }

  ral::Device& device_;
  bool with_data_;
  uint64_t bytes_ = 0;
  std::vector<ral_value> values_;
  std::deque<ral_tensor> tensors_;
  std::deque<std::vector<int64_t>> geometry_, ints_;
  std::deque<std::vector<double>> doubles_;
  std::deque<std::vector<int32_t>> bools_;
  std::deque<std::string> strings_;
  std::deque<std::vector<const ral_tensor*>> lists_;
  std::vector<ral::Block*> blocks_;
};

// Results as PyTorch's meta kernels shape them: what to allocate, and what out= arguments must become.
class Outputs {
 public:
  // Throws what PyTorch throws for wrong shapes; false with *why where the operator has no meta kernel.
  bool infer(Call& call, std::string* why) {
    torch::jit::Stack stack;
    const size_t n = call.info.args.size();
    stack.reserve(n);
    c10::SmallVector<at::Tensor, 4> metas(n);
    for (size_t i = 0; i < n; ++i) stack.push_back(to_meta(call.arg(i), call.info.args[i], &metas[i]));
    try {
      call.info.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } catch (const c10::NotImplementedError&) {
      *why = "no shape function for this op";
      return false;
    }
    const size_t first = stack.size() - call.info.returns.size();
    for (size_t r = 0; r < call.info.returns.size(); ++r) {
      const int alias = call.info.returns[r].alias_arg;
      if (alias >= 0) {
        const auto& original = call.arg(alias).toTensor();
        const auto& meta = metas[alias];
        if (original.sizes() != meta.sizes()) {
          if (!call.info.args[alias].out) {
            *why = "in-place result would change its shape";
            return false;
          }
          at::native::resize_output(original, meta.sizes());
        }
        tensors.push_back(original);
      } else {
        const auto& value = stack[first + r];
        if (!value.isTensor() || !value.toTensor().defined()) {
          *why = "an output without a shape";
          return false;
        }
        const auto& meta = value.toTensor();
        tensors.push_back(empty_ral(meta.sizes(), meta.strides(), meta.scalar_type(),
                                    static_cast<c10::DeviceIndex>(call.device->index())));
      }
    }
    return true;
  }
  c10::SmallVector<at::Tensor, 3> tensors;

 private:
  static c10::IValue to_meta(const c10::IValue& value, const ArgInfo& info, at::Tensor* meta) {
    if (value.isTensor() && is_ral(value.toTensor())) {
      *meta = alias_as_meta(value.toTensor());
      return *meta;
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const at::Tensor& t : value.toTensorList()) out.push_back(is_ral(t) ? alias_as_meta(t) : t);
      return out;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> out;
      for (const std::optional<at::Tensor> t : value.toOptionalTensorList())
        out.push_back(t && is_ral(*t) ? std::optional<at::Tensor>(alias_as_meta(*t)) : t);
      return out;
    }
    if (info.device && value.isDevice()) return c10::Device(c10::kMeta);
    return value;
  }
};

// A written tensor may be an input as a whole; parts of it, or itself twice, are the CPU kernels' business.
bool overlap_allowed(Call& call, std::string* why) {
  for (size_t i = 0; i < call.info.args.size(); ++i) {
    if (!call.info.args[i].written || !call.arg(i).isTensor()) continue;
    const auto& out = call.arg(i).toTensor();
    if (at::has_internal_overlap(out) != at::MemOverlap::No) {
      *why = "output overlaps itself";
      return false;
    }
    for (size_t j = 0; j < call.info.args.size(); ++j) {
      if (j == i || !call.arg(j).isTensor() || !is_ral(call.arg(j).toTensor())) continue;
      const auto status = at::get_overlap_status(out, call.arg(j).toTensor());
      if (status == at::MemOverlapStatus::Partial || status == at::MemOverlapStatus::TooHard) {
        *why = "output overlaps an input";
        return false;
      }
    }
  }
  return true;
}

bool pack(Call& call, const Outputs& outputs, Values* args, Values* outs) {
  for (size_t i = 0; i < call.info.args.size(); ++i) {
    if (call.info.args[i].out) continue;
    if (!args->add(call.arg(i), call.info.args[i])) return false;
  }
  for (const auto& t : outputs.tensors)
    if (!outs->add(t, {})) return false;
  return true;
}

}  // namespace

NativeOutcome run_native(Call& call, Plan& plan, uint32_t reason, bool timed, int64_t* ns, std::string* why) {
  auto& device = *call.device;
  if (call.info.writes && !overlap_allowed(call, why)) return NativeOutcome::PassedOn;
  Outputs outputs;
  if (!outputs.infer(call, why)) return NativeOutcome::PassedOn;
  return guarded([&]() -> NativeOutcome {
    Values args(device, true), outs(device, true);
    if (!pack(call, outputs, &args, &outs)) {
      *why = "an argument has no form in the plugin ABI";
      return NativeOutcome::PassedOn;
    }
    auto& stream = current_stream(device);
    const auto* kernel = plan.kernel();
    const auto& table = *device.plugin().kernel;

    at::Tensor scratch;
    ral_tensor workspace{};
    if (table.workspace_size) {
      uint64_t bytes = 0;
      const auto status = table.workspace_size(device.plugin_index(), kernel->handle, args.data(), args.size(),
                                               outs.data(), outs.size(), &bytes);
      if (status != RAL_SUCCESS) {
        *why = device.last_error();
        return NativeOutcome::PassedOn;
      }
      if (bytes) {
        scratch =
            empty_ral({static_cast<int64_t>(bytes)}, {1}, at::kByte, static_cast<c10::DeviceIndex>(device.index()));
        const auto place = ral::MemoryPool::place(scratch.storage().data(), device);
        workspace.data = place.handle;
        workspace.byte_offset = place.offset;
        workspace.device = {12, device.plugin_index()};
        workspace.dtype = {1, 8, 1};
        workspace.ndim = 1;
        workspace.shape = workspace.strides = nullptr;
      }
    }

    ral::WorkNote note;
    note.kind = RAL_TRACE_KERNEL;
    note.tier = RAL_TIER_NATIVE;
    if (C10_UNLIKELY(ral::trace::enabled())) {
      note.name = call.info.trace_name();
      note.kernel = ral::trace::intern(kernel->symbol);
      note.reason = reason;
      note.shapes = shapes_id(&call.arg(0), call.info.args.size());
      note.bytes = args.bytes() + outs.bytes();
      if (!outs.blocks().empty()) note.buffer = outs.blocks().front()->id;
      if (!args.blocks().empty()) note.input_buffer = args.blocks().front()->id;
    }
    if (timed) stream.wait(stream.submitted());
    const int64_t begin = timed ? ral::trace::now() : 0;
    uint64_t sequence;
    try {
      sequence = stream.launch(kernel->handle, args.data(), args.size(), outs.data(), outs.size(), &workspace, note);
    } catch (const ral::Error& error) {
      // Refused before anything was written: the next tier takes over. Whatever else is a real failure.
      if (error.code() != RAL_ERROR_UNSUPPORTED && error.code() != RAL_ERROR_COMPILE &&
          error.code() != RAL_ERROR_LAUNCH)
        throw;
      *why = error.what();
      return NativeOutcome::PassedOn;
    }
    for (auto* block : args.blocks()) ral::MemoryPool::note_use(*block, stream, sequence);
    for (auto* block : outs.blocks()) ral::MemoryPool::note_use(*block, stream, sequence);
    if (scratch.defined()) ral::MemoryPool::note_use(*block_of(scratch), stream, sequence);
    if (timed) {
      stream.wait(sequence);
      *ns = ral::trace::now() - begin;
    }
    call.stack.erase(call.stack.begin() + static_cast<std::ptrdiff_t>(call.base), call.stack.end());
    for (auto& t : outputs.tensors) call.stack.emplace_back(std::move(t));
    return NativeOutcome::Ran;
  });
}

// ---- Building in the background ------------------------------------------------------------------

namespace {

struct Job {
  Plan* plan;
  ral::Device* device;
  std::unique_ptr<Values> args, outs;
};

class Preparer {
 public:
  static Preparer& get() {
    static auto& preparer = *new Preparer;
    return preparer;
  }
  int pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
  void add(Job job) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
    jobs_.push_back(std::move(job));
    ++pending_;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    wake_.notify_one();
  }
  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
      pending_ -= static_cast<int>(jobs_.size());
      jobs_.clear();
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "ral-prepare");
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);  // the user's work goes first
    for (;;) {
      Job job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
        if (stopped_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      const auto& table = *job.device->plugin().kernel;
      ral_status status = RAL_SUCCESS;
      std::string why;
      if (table.prepare) {
        status = table.prepare(job.device->plugin_index(), job.plan->kernel()->handle, job.args->data(),
                               job.args->size(), job.outs->data(), job.outs->size());
        if (status != RAL_SUCCESS) {
          why = job.device->last_error();
          if (why.empty()) why = ral::code_name(status);
        }
      }
      job.plan->prepared(status, why);
      --pending_;
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::thread thread_;
  bool stopped_ = false;
  std::atomic<int> pending_{0};
};

}  // namespace

void prepare_in_background(Call& call, Plan& plan) {
  std::string why;
  Outputs outputs;
  if ((call.info.writes && !overlap_allowed(call, &why)) || !outputs.infer(call, &why)) {
    plan.prepared(RAL_ERROR_UNSUPPORTED, why);
    return;
  }
  Job job{&plan, call.device, std::make_unique<Values>(*call.device, false),
          std::make_unique<Values>(*call.device, false)};
  if (!pack(call, outputs, job.args.get(), job.outs.get())) {
    plan.prepared(RAL_ERROR_UNSUPPORTED, "an argument has no form in the plugin ABI");
    return;
  }
  Preparer::get().add(std::move(job));
}

int pending_builds() noexcept { return Preparer::get().pending(); }

void stop_preparing() { Preparer::get().stop(); }

}  // namespace torch_fl
