// program.h - building OpenCL C for a device, with binaries kept on disk between processes.
#pragma once

#include <string>
#include <string_view>

#include "device.h"

namespace ralcl {

// Options that every program of this device is built with.
std::string build_options(const Device& device);

// Build `source`, from the binary cache where it was built before. `what` names it in the RAL's compile
// reports. On failure last_error() holds the build log and the status is RAL_ERROR_COMPILE.
ral_status build_program(int32_t index, Device& device, const std::string& source, const std::string& options,
                         const char* what, cl_program* out);

// The same from bytes that program_binary gave; RAL_ERROR_COMPILE where the driver refuses them.
ral_status load_program(Device& device, const void* bytes, size_t size, const std::string& options, cl_program* out);
ral_status program_binary(Device& device, cl_program program, std::string& out);

// FNV-1a, 64 bit.
constexpr uint64_t kHashSeed = 0xcbf29ce484222325ull;
uint64_t hash_text(std::string_view text, uint64_t seed = kHashSeed);

// The whole of a file; false where it cannot be read.
bool read_file(const std::string& path, std::string& out);

extern const ral_compile_table kCompileTable;

}  // namespace ralcl
