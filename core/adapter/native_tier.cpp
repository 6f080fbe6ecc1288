// The native tier: a plugin's kernel, its arguments as ral_value[], its outputs allocated here.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <thread>

#include "host_record.h"
#include "values.h"

namespace torch_fl {

KernelOutcome run_native(Call& call, Plan& plan, uint32_t reason, bool timed, int64_t* ns, std::string* why,
                         std::exception_ptr* error) {
  auto& device = *call.device;
  Outputs outputs;
  if (const auto stop = outputs.prepare(call, why, error)) return *stop;
  return guarded([&]() -> KernelOutcome {
    Values args(device, DataForm::Device), outs(device, DataForm::Device);
    if (!pack(call, outputs, &args, &outs)) {
      *why = "an argument has no form in the plugin ABI";
      return KernelOutcome::PassedOn;
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
        return KernelOutcome::PassedOn;
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
      return KernelOutcome::PassedOn;
    }
    for (auto* block : args.blocks()) ral::MemoryPool::note_use(*block, stream, sequence);
    for (auto* block : outs.blocks()) ral::MemoryPool::note_use(*block, stream, sequence);
    if (scratch.defined()) ral::MemoryPool::note_use(*block_of(scratch), stream, sequence);
    if (timed) {
      stream.wait(sequence);
      *ns = ral::trace::now() - begin;
    }
    finish(call, outputs);
    return KernelOutcome::Ran;
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
  std::exception_ptr wrong;
  if (outputs.prepare(call, &why, &wrong)) {
    plan.prepared(RAL_ERROR_UNSUPPORTED, why);
    return;
  }
  Job job{&plan, call.device, std::make_unique<Values>(*call.device, DataForm::None),
          std::make_unique<Values>(*call.device, DataForm::None)};
  if (!pack(call, outputs, job.args.get(), job.outs.get())) {
    plan.prepared(RAL_ERROR_UNSUPPORTED, "an argument has no form in the plugin ABI");
    return;
  }
  Preparer::get().add(std::move(job));
}

int pending_builds() noexcept { return Preparer::get().pending(); }

void stop_preparing() { Preparer::get().stop(); }

}  // namespace torch_fl
