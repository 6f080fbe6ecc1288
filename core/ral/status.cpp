// Names of status codes, data types and tiers, and the one exception type of the RAL.
#include "ral/status.h"

namespace ral {

namespace {

struct TypeEntry {
  const char* name;
  size_t size;
};

constexpr TypeEntry kTypes[RAL_DTYPE_COUNT] = {
    {"bool", 1},      {"uint8", 1},       {"int8", 1},     {"int16", 2},   {"int32", 4},
    {"int64", 8},     {"float16", 2},     {"bfloat16", 2}, {"float32", 4}, {"float64", 8},
    {"complex64", 8}, {"complex128", 16}, {"uint16", 2},   {"uint32", 4},  {"uint64", 8},
};

}  // namespace

const char* code_name(ral_status code) noexcept {
  switch (code) {
    case RAL_SUCCESS: return "RAL_SUCCESS";
    case RAL_ERROR_UNSUPPORTED: return "RAL_ERROR_UNSUPPORTED";
    case RAL_ERROR_INVALID_ARGUMENT: return "RAL_ERROR_INVALID_ARGUMENT";
    case RAL_ERROR_INVALID_POINTER: return "RAL_ERROR_INVALID_POINTER";
    case RAL_ERROR_OUT_OF_MEMORY: return "RAL_ERROR_OUT_OF_MEMORY";
    case RAL_ERROR_DEVICE_LOST: return "RAL_ERROR_DEVICE_LOST";
    case RAL_ERROR_COMPILE: return "RAL_ERROR_COMPILE";
    case RAL_ERROR_LAUNCH: return "RAL_ERROR_LAUNCH";
    case RAL_ERROR_RUNTIME: return "RAL_ERROR_RUNTIME";
    case RAL_ERROR_MISSING_DEPENDENCY: return "RAL_ERROR_MISSING_DEPENDENCY";
    case RAL_ERROR_NOT_READY: return "RAL_ERROR_NOT_READY";
    case RAL_ERROR_INTERNAL: return "RAL_ERROR_INTERNAL";
    default: return "RAL_ERROR_UNKNOWN";
  }
}

Error::Error(ral_status code, const std::string& text)
    : std::runtime_error(std::string(code_name(code)) + ": " + text), code_(code) {}

const char* dtype_name(ral_dtype dtype) noexcept {
  return dtype >= 0 && dtype < RAL_DTYPE_COUNT ? kTypes[dtype].name : "unknown";
}

size_t dtype_size(ral_dtype dtype) noexcept { return dtype >= 0 && dtype < RAL_DTYPE_COUNT ? kTypes[dtype].size : 0; }

bool dtype_from_name(const std::string& name, ral_dtype* out) noexcept {
  for (ral_dtype i = 0; i < RAL_DTYPE_COUNT; ++i) {
    if (name == kTypes[i].name) {
      *out = i;
      return true;
    }
  }
  return false;
}

const char* tier_name(Tier tier) noexcept {
  switch (tier) {
    case Tier::Native: return "native";
    case Tier::Jit: return "jit";
    case Tier::Reference: return "reference";
    case Tier::Cpu: return "cpu";
    case Tier::View: return "view";
    case Tier::None: break;
  }
  return "none";
}

}  // namespace ral
