// The reference tier: every kernel in plain C++17 over host memory. Slow, and right: it is what vendor kernels are
// judged by, and it needs no PyTorch in the process.
//
// Values are computed in double, int64, uint64 or complex<double>, whichever holds the operands and the output, and
// rounded once, to nearest even, to the output's dtype.
#pragma once
#include <string>
#include <vector>

#include "ral/plugin.h"
#include "ral/status.h"

// The kernels of the reference tier.
namespace ral::reference {

// Arguments and outputs as for ral_kernel_table.launch, except that `data` is a host address: element [0, 0, ...] lies
// at (char*)data + byte_offset. Ranks up to 16, strides in any order, 0 for broadcast inputs.
// A sparse matrix as an operand of mm, mv, addmm and addmv is a list of its parts (RAL_VALUE_TENSOR_LIST): indices and
// values (COO); row pointers, column indices and values (CSR); or NULL, column pointers, row indices and values (CSC).
// Inputs are only read, but for the running statistics of native_batch_norm and _native_batch_norm_legit in training,
// which those operators update in place.
//
// RAL_ERROR_UNSUPPORTED: nothing was written, and *why says what the kernel does not do. A call that PyTorch answers
// with an error of its own (an index out of range, an integer divided by zero) is refused so as well, for the next
// tier to report. `why` may be nullptr.
using Kernel = ral_status (*)(const ral_value* args, uint32_t arg_count, const ral_value* outs, uint32_t out_count,
                              std::string* why);

// nullptr where there is none. `op` is the functional ATen overload, "aten::add.Tensor"; for factories that PyTorch
// computes in their out= form only, that one, "aten::arange.start_out".
RAL_API Kernel find(const std::string& op) noexcept;

// A result as PyTorch lays it out; strides in elements.
struct Result {
  ral_dtype dtype;
  std::vector<int64_t> shape, strides;
};
// For operators whose results' sizes depend on the arguments' values (nonzero): called first, with the kernel's own
// arguments, it says what outputs the kernel wants. Answers as the kernel does.
using Sizing = ral_status (*)(const ral_value* args, uint32_t arg_count, std::vector<Result>* results,
                              std::string* why);

// nullptr where the sizes follow from the arguments' shapes, or there is no kernel.
RAL_API Sizing find_sizing(const std::string& op) noexcept;

// All names that find() knows, sorted.
RAL_API std::vector<std::string> ops();

}  // namespace ral::reference

extern "C" {
// For callers through a foreign function interface: find() and call. Writes at most `why_bytes` bytes to `why`, NUL
// included; RAL_ERROR_UNSUPPORTED where the operator is not known.
RAL_API ral_status ral_reference_run(const char* op, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                                     uint32_t out_count, char* why, uint64_t why_bytes);
// The names of ops(), a newline after each; the text lives until the process ends.
RAL_API const char* ral_reference_ops(void);
}
