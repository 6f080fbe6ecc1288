// What the router knows of an operator from its schema alone; made once per operator and never freed.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "ral/device_manager.h"

namespace torch_fl {

struct ArgInfo {
  bool written = false;  // Tensor(a!): in-place or out=
  bool quiet = false;    // written although the schema does not say so
  bool out = false;      // keyword-only out argument
  bool dtype = false;
  bool device = false;
  bool generator = false;
};

struct ReturnInfo {
  int alias_arg = -1;  // returns this written argument itself
  bool keep_on_cpu = false;
};

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& op);

  c10::OperatorHandle handle;
  std::string overload_name;    // "add_.Tensor"
  std::string base_name;        // "add_"
  std::string functional_name;  // "aten::add.Tensor", the name that manifests use
  std::vector<ArgInfo> args;
  std::vector<ReturnInfo> returns;
  bool one_device = true;     // all tensors must be on one device, 0-dim CPU ones included
  bool cpu_operands = false;  // CPU tensors of any size may be among the arguments (index tensors, lengths)
  bool returns_view = false;
  bool writes = false;                             // some argument is written
  bool random_inside = false;                      // draws random numbers without a generator argument
  bool asks_for_grad = false;                      // its CPU kernel looks at requires_grad of its arguments
  bool native_possible = false;                    // every return is a tensor, or a list of none
  std::optional<c10::OperatorHandle> host_target;  // run this on the host instead (overrideable convolution)

  // Does the device have kernels of that name? Asked once per manifest generation.
  bool has_native(ral::Device& device);
  uint32_t trace_name();    // interned base name
  uint32_t trace_kernel();  // interned overload name: PyTorch's CPU kernel as the trace names it

 private:
  std::array<std::atomic<uint64_t>, ral::kMaxDevices> native_known_{};  // generation << 1 | has
  std::atomic<uint32_t> trace_name_{0}, trace_kernel_{0};
};

OpInfo& op_info(const c10::OperatorHandle& op);
// True for the base names of operators whose results are views ("select", "view", ...).
bool is_view_name(const char* base_name);

}  // namespace torch_fl
