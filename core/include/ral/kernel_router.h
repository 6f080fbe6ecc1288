// KernelRouter: which native kernel, of those in the plugins' manifests, fits a call, and why others were passed over.
//
// It knows manifests and the policy; it keeps no per-call state. Callers cache what it answers together with
// generation(), which changes with every change of policy or manifest.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ral/device_manager.h"
#include "ral/status.h"

namespace ral {

// One tensor operand of a call (scalars are not operands).
struct Operand {
  ral_dtype dtype;
  int rank;
  bool contiguous;
  int64_t elements;
};

// A kernel that a manifest names. It lives until the process ends.
struct NativeKernel {
  std::string op_name;  // "aten::add.Tensor"
  std::string symbol;   // shown in the trace as the kernel's name
  std::string path;
  double cost = 1.0;
  ral_kernel handle = nullptr;
  uint32_t dtype_mask = 0;
  int min_rank = 0, max_rank = 8;
  bool requires_contiguous = false;
  int64_t max_elements = 0;  // 0: no limit
};

// What route() answers.
struct Route {
  const NativeKernel* kernel = nullptr;  // nullptr: none fits
  // Why none fits: "no manifest entry", "dtype int64 not in supported_dtypes", "rank 5 > max_shape_rank 4",
  // "non-contiguous", "2000000 elements > max_elements 1000000".
  std::string reason;
};

// Which tiers may run, in order. RAL_FALLBACK="native,jit,reference,cpu"; RAL_FALLBACK_STRICT=1.
struct RAL_API Policy {
  std::vector<Tier> order{Tier::Native, Tier::Jit, Tier::Reference, Tier::Cpu};
  bool strict = false;                    // keep the order even where a measurement says that a later tier is faster
  bool allows(Tier tier) const noexcept;  // is it in `order`?
  std::string text() const;               // "native,jit,reference,cpu"
};

// The manifests of all devices, and the policy.
class RAL_API KernelRouter {
 public:
  static KernelRouter& get();  // the one of this process

  // The cheapest kernel that fits. `op` is the functional overload, "aten::add.Tensor".
  Route route(const std::string& op, Device& device, const Operand* operands, size_t count);
  // Does any plugin kernel of this device bear that op's name?
  bool has_kernel(const std::string& op, Device& device);
  std::vector<std::string> ops(Device& device);  // names in the manifest, sorted

  Policy policy() const;  // the one in force
  // Throws INVALID_ARGUMENT naming the word when a tier is unknown or twice; "" restores the default.
  void set_policy(const std::string& order, bool strict);
  uint64_t generation() const noexcept;  // a cached answer of another generation is to be asked for again

  // Reads and checks a manifest against the schema; valid entries replace the device's. Bad entries are left out and
  // named in `problems`; a text that is no JSON object with "kernels" leaves all as it was and returns false.
  bool load_manifest(Device& device, const std::string& json, const std::string& folder,
                     std::vector<std::string>* problems);
};

// The JSON Schema of kernel_manifest.json, as shipped in the wheel.
RAL_API const char* manifest_schema() noexcept;

}  // namespace ral
