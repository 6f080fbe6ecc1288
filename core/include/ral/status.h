// Errors of the RAL: every failure is a ral::Error with a code, the values involved and what to do.
#pragma once
#include <stdexcept>
#include <string>

#include "ral/plugin.h"

// On everything that libral exports.
#define RAL_API __attribute__((visibility("default")))

// libral: devices, memory, streams, kernels and the trace, without PyTorch and Python.
namespace ral {

// "RAL_ERROR_OUT_OF_MEMORY" and so on; "RAL_ERROR_UNKNOWN" for a number that plugin.h does not name.
RAL_API const char* code_name(ral_status code) noexcept;

// what() begins with the code's name: "RAL_ERROR_INVALID_POINTER: buffer 0x7f8a12345000 not mapped to device 0".
class RAL_API Error : public std::runtime_error {
 public:
  // `text` says what was asked, what is, and what to do; the code's name is put before it.
  Error(ral_status code, const std::string& text);
  ral_status code() const noexcept { return code_; }  // never SUCCESS

 private:
  ral_status code_;
};

// "float32", "int64", ... ; "unknown" outside the enum.
RAL_API const char* dtype_name(ral_dtype dtype) noexcept;
RAL_API size_t dtype_size(ral_dtype dtype) noexcept;  // bytes; 0 outside the enum
// False, with *out as it was, for a name that dtype_name never gives.
RAL_API bool dtype_from_name(const std::string& name, ral_dtype* out) noexcept;

// Where a computation ran. The numbers are those of the trace (trace_format.h).
enum class Tier : uint8_t { None = 0, Native = 1, Jit = 2, Reference = 3, Cpu = 4, View = 5 };
RAL_API const char* tier_name(Tier tier) noexcept;  // "native", "jit", "reference", "cpu", "view", "none"

}  // namespace ral
