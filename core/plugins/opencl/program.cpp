// program.cpp - builds and their binary cache, see program.h.
#include "program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace ralcl {
namespace {

// A cached binary begins with this and the hash of what follows: drivers crash on damaged binaries.
constexpr char kMagic[] = "ral-opencl-binary-1\n";

std::string header_of(std::string_view bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%s%016llx\n", kMagic, static_cast<unsigned long long>(hash_text(bytes)));
  return text;
}

std::string cache_file(uint64_t key, uint64_t second) {
  const char* folder = g_host && g_host->cache_folder ? g_host->cache_folder() : "";
  if (!folder || !*folder) return "";
  char name[48];
  std::snprintf(name, sizeof name, "/%016llx%016llx.clbin", static_cast<unsigned long long>(key),
                static_cast<unsigned long long>(second));
  return std::string(folder) + name;
}

// Write beside the target and rename, so that no reader ever sees half a file. The cache only saves
// time: where it cannot be written, that is logged and the build goes on.
void write_cache(const std::string& path, const std::string& bytes) {
  const std::string temporary =
      path + "." + std::to_string(getpid()) + "." + std::to_string(hash_text(bytes) & 0xffffff);
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  bool good = file != nullptr;
  if (file) {
    const std::string header = header_of(bytes);
    good = std::fwrite(header.data(), 1, header.size(), file) == header.size();
    good = good && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    good = std::fclose(file) == 0 && good;
    if (good) good = std::rename(temporary.c_str(), path.c_str()) == 0;
    if (!good) std::remove(temporary.c_str());
  }
  if (!good) log(RAL_LOG_WARNING, "opencl: cannot write " + path + "; kernels are built anew in each process");
}

bool read_cache(const std::string& path, std::string& bytes) {
  std::string content;
  if (!read_file(path, content)) return false;
  const size_t header = sizeof kMagic - 1 + 17;
  if (content.size() <= header) return false;
  bytes = content.substr(header);
  return content.compare(0, header, header_of(bytes)) == 0;
}

std::string build_log(Device& device, cl_program program) {
  size_t size = 0;
  if (device.cl->GetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS ||
      size == 0)
    return "";
  std::string text(size, '\0');
  if (device.cl->GetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, size, &text[0], nullptr) != CL_SUCCESS)
    return "";
  text.resize(std::strlen(text.c_str()));
  return text;
}

ral_status compile_source(Device& device, const std::string& source, const std::string& options, const char* what,
                          cl_program* out) {
  const char* text = source.c_str();
  const size_t size = source.size();
  cl_int code = CL_SUCCESS;
  cl_program program = device.cl->CreateProgramWithSource(device.context, 1, &text, &size, &code);
  if (!program) return fail_cl(code, "clCreateProgramWithSource", RAL_ERROR_COMPILE);
  code = device.cl->BuildProgram(program, 1, &device.id, options.c_str(), nullptr, nullptr);
  if (code == CL_SUCCESS) {
    *out = program;
    return RAL_SUCCESS;
  }
  const std::string message =
      std::string(what) + " did not build (OpenCL error " + std::to_string(code) + "): " + build_log(device, program);
  device.cl->ReleaseProgram(program);
  return fail(RAL_ERROR_COMPILE, message);
}

}  // namespace

uint64_t hash_text(std::string_view text, uint64_t seed) {
  uint64_t hash = seed;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

bool read_file(const std::string& path, std::string& out) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  out.clear();
  char block[65536];
  size_t got = 0;
  while ((got = std::fread(block, 1, sizeof block, file)) > 0) out.append(block, got);
  const bool good = std::ferror(file) == 0;
  std::fclose(file);
  return good;
}

std::string build_options(const Device& device) {
  return device.correct_divide ? "-w -cl-fp32-correctly-rounded-divide-sqrt" : "-w";
}

ral_status program_binary(Device& device, cl_program program, std::string& out) {
  size_t size = 0;  // one device a context, so one binary
  cl_int code = device.cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr);
  if (code != CL_SUCCESS || size == 0) return fail_cl(code, "clGetProgramInfo", RAL_ERROR_UNSUPPORTED);
  out.resize(size);
  char* target = &out[0];
  code = device.cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof target, &target, nullptr);
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clGetProgramInfo", RAL_ERROR_UNSUPPORTED);
}

ral_status load_program(Device& device, const void* bytes, size_t size, const std::string& options, cl_program* out) {
  auto data = static_cast<const unsigned char*>(bytes);
  cl_int code = CL_SUCCESS, binary_code = CL_SUCCESS;
  cl_program program =
      device.cl->CreateProgramWithBinary(device.context, 1, &device.id, &size, &data, &binary_code, &code);
  if (!program) return fail_cl(code, "clCreateProgramWithBinary", RAL_ERROR_COMPILE);
  if (binary_code == CL_SUCCESS)
    code = device.cl->BuildProgram(program, 1, &device.id, options.c_str(), nullptr, nullptr);
  if (binary_code == CL_SUCCESS && code == CL_SUCCESS) {
    *out = program;
    return RAL_SUCCESS;
  }
  device.cl->ReleaseProgram(program);
  return fail(RAL_ERROR_COMPILE,
              "the driver refuses this binary (OpenCL error " + std::to_string(binary_code ? binary_code : code) + ")");
}

ral_status build_program(int32_t index, Device& device, const std::string& source, const std::string& options,
                         const char* what, cl_program* out) {
  if (!device.no_compiler.empty()) return fail(RAL_ERROR_COMPILE, device.no_compiler);
  const std::string identity = device.identity + "|" + options;
  const std::string path = cache_file(hash_text(source), hash_text(identity, hash_text(source, 0x84222325cbf29ce4ull)));
  std::string binary;
  if (!path.empty() && read_cache(path, binary) &&
      load_program(device, binary.data(), binary.size(), options, out) == RAL_SUCCESS)
    return RAL_SUCCESS;

  const bool reported = g_host && g_host->compile_begin && g_host->compile_end;
  const uint64_t id = reported ? g_host->compile_begin(index, what) : 0;
  const ral_status status = compile_source(device, source, options, what, out);
  if (reported) g_host->compile_end(id, status);
  if (status == RAL_SUCCESS && !path.empty() && program_binary(device, *out, binary) == RAL_SUCCESS)
    write_cache(path, binary);
  return status;
}

}  // namespace ralcl
