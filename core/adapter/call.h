// One call of an operator on its way through the router.
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <exception>

#include "adapter.h"
#include "op_info.h"
#include "plan.h"

namespace torch_fl {

struct Call {
  OpInfo& info;
  torch::jit::Stack& stack;
  size_t base;  // of the first argument on the stack
  ral::Device* device = nullptr;

  c10::IValue& arg(size_t i) { return stack[base + i]; }
};

// Runs the operator with PyTorch's CPU kernel on aliases of (or copies from) the device's memory, and puts ral results
// on the stack. With `measure` (or while recording) returns the nanoseconds that the kernel itself took, else 0.
int64_t run_on_host(Call& call, uint32_t reason, bool measure);

// What came of a kernel in the plugin ABI's form. PassedOn: nothing was written, the stack is as before and *why says
// what was in the way. WrongArguments: the same, for this call only; *error is what PyTorch's shape function threw.
enum class KernelOutcome { Ran, PassedOn, WrongArguments };
// Runs the plugin's kernel.
// With `timed` the stream is drained before and after and *ns is set.
KernelOutcome run_native(Call& call, Plan& plan, uint32_t reason, bool timed, int64_t* ns, std::string* why,
                         std::exception_ptr* error);
// Runs the plan's reference kernel on the host.
KernelOutcome run_reference(Call& call, Plan& plan, uint32_t reason, std::string* why, std::exception_ptr* error);
// Builds the plan's kernel for these arguments on the preparing thread.
void prepare_in_background(Call& call, Plan& plan);
// Kernels that wait for that thread or are being built by it.
int pending_builds() noexcept;
// Stops the preparing thread; waits for the build at hand.
void stop_preparing();

// Sparse ral tensors as CPU ones and back (indices and values are the parts that live on the device).
at::Tensor sparse_to_cpu(const at::Tensor& t, bool host_visible, uint64_t* copied);
at::Tensor sparse_to_ral(const at::Tensor& cpu, ral::Device& device, uint64_t* copied);

}  // namespace torch_fl
