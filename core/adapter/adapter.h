// What the parts of the PyTorch adapter share: the current device and stream, aliases between `ral`
// and CPU tensors, the router's entry, and the translation of errors.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <torch/csrc/Exceptions.h>

#include <string>

#include "ral/async_stream.h"
#include "ral/device_manager.h"
#include "ral/memory_pool.h"
#include "ral/trace.h"

namespace torch_fl {

constexpr c10::DeviceType kRal = c10::DeviceType::PrivateUse1;

inline bool is_ral(const at::Tensor& t) { return t.defined() && t.device().type() == kRal; }

// ---- Errors --------------------------------------------------------------------------------------

// A ral::Error as Python sees it: class RalError (a RuntimeError), or torch.OutOfMemoryError.
struct RalPyError : public torch::PyTorchError {
  explicit RalPyError(const std::string& text) : torch::PyTorchError(text) {}
  PyObject* python_type() override;
};
void set_ral_error_type(PyObject* type);
[[noreturn]] void rethrow(const ral::Error& error);

// Runs `body`, translating ral::Error.
template <class F>
auto guarded(F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const ral::Error& error) {
    rethrow(error);
  }
}

// ---- Current device and stream (per thread) ------------------------------------------------------

c10::DeviceIndex current_device() noexcept;
// Throws for an index that no device has.
void set_device(c10::DeviceIndex index);
void set_device_unchecked(c10::DeviceIndex index) noexcept;
// The device of an index; -1 is the current one. Throws "invalid device index" text with index and count.
ral::Device& device_at(c10::DeviceIndex index);
ral::Stream& current_stream(ral::Device& device);
void set_current_stream(ral::Stream& stream) noexcept;
c10::Stream to_c10(ral::Stream& stream);
ral::Stream& to_ral(const c10::Stream& stream);

// ---- Allocation ----------------------------------------------------------------------------------

c10::Allocator* allocator();
void ensure_cpu_shim();
void free_block(void* address);  // deleter of ral DataPtrs
c10::DataPtr data_ptr_of(ral::Block* block);
// CPU allocations of this thread come from a device's pool while one of these lives; only around a final CPU call.
class PoolScope {
 public:
  explicit PoolScope(ral::Device* device) noexcept;
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;

 private:
  ral::Device* previous_;
};
// Names the operator that allocates on this thread, where nothing outside of it has done so.
class AllocatingOp {
 public:
  explicit AllocatingOp(uint32_t name) noexcept : context_(ral::trace::context()), before_(context_.op) {
    if (before_ == 0) context_.op = name;
  }
  ~AllocatingOp() { context_.op = before_; }
  AllocatingOp(const AllocatingOp&) = delete;

 private:
  ral::trace::Context& context_;
  uint32_t before_;
};
// Looks up the line of Python that allocates, at every allocation from now on; some microseconds each.
void record_memory_history(bool on) noexcept;
// Blocks handed to CPU tensors and neither adopted nor freed.
int64_t foreign_cpu_blocks() noexcept;

// The block behind a ral tensor; nullptr for empty or foreign storage.
ral::Block* block_of(const at::Tensor& t) noexcept;

// ---- Aliases -------------------------------------------------------------------------------------

// A CPU tensor over the same bytes (host-visible devices). The caller has waited for the block.
// `resizable`: the CPU op may resize it (out= arguments).
at::Tensor alias_as_cpu(const at::Tensor& t, bool resizable);
// A meta tensor of the same shape, strides and dtype.
at::Tensor alias_as_meta(const at::Tensor& t);
// Makes a CPU result a ral tensor: without a copy when its memory came from the device's pool, else by one
// copy, whose bytes are added to *copied.
at::Tensor adopt(at::Tensor cpu, ral::Device& device, uint64_t* copied);
// A tensor on another storage with the geometry of `like`.
at::Tensor with_storage(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key);
at::Tensor empty_ral(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::DeviceIndex index);

// Host copy of a device tensor's bytes and back (devices that are not host-visible): a CPU tensor with the same
// geometry over a private buffer that covers the tensor's span.
at::Tensor stage_to_cpu(const at::Tensor& t, uint64_t* copied);
void stage_back(const at::Tensor& cpu, const at::Tensor& t, uint64_t* copied);

// Waits until no device work uses the tensor's memory.
inline void wait_for(const at::Tensor& t, const char* why) {
  if (auto* block = block_of(t)) ral::MemoryPool::wait_idle(*block, why);
}

// ---- Router --------------------------------------------------------------------------------------

void boxed_router(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
// Registers the router for every operator that has a CPU kernel.
void register_router();

// ---- Data types ----------------------------------------------------------------------------------

ral_dtype to_ral_dtype(at::ScalarType type);  // -1 where the ABI has none
at::ScalarType to_scalar_type(ral_dtype dtype);

// ---- Random numbers ------------------------------------------------------------------------------

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// A CPU generator seeded from a ral generator's {seed, offset}, which moves on. Undefined: the default one.
at::Generator derive_cpu_generator(const std::optional<at::Generator>& generator, c10::DeviceIndex device);

// ---- Trace ---------------------------------------------------------------------------------------

// Installs or removes the RecordFunction observer so that it agrees with trace::enabled().
void sync_observer();

}  // namespace torch_fl
