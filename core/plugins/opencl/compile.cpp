// compile.cpp - the compile table: OpenCL C source to modules and kernels, for the jit tier.
#include "plan.h"
#include "program.h"
#include "stream.h"

struct ral_module_s {
  ralcl::Device* device;
  cl_program program;
};

namespace ralcl {
namespace {

struct SourceKernel : ral_kernel_s {
  Device* device = nullptr;
  cl_kernel handle = nullptr;
  std::mutex mutex;  // arguments are the kernel's state
};

ral_status make_module(Device& device, cl_program program, ral_module* out) {
  *out = new ral_module_s{&device, program};
  return RAL_SUCCESS;
}

ral_status compile(int32_t index, const char* source, const char* options, ral_module* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !source || !out) return RAL_ERROR_INVALID_ARGUMENT;
    cl_program program = nullptr;
    const ral_status status = build_program(index, *device, source, options ? options : "", "source kernel", &program);
    return status == RAL_SUCCESS ? make_module(*device, program, out) : status;
  });
}

ral_status binary(int32_t, ral_module module, void* buffer, uint64_t* bytes) {
  return guarded([&]() -> ral_status {
    if (!module || !bytes) return RAL_ERROR_INVALID_ARGUMENT;
    std::string data;
    const ral_status status = program_binary(*module->device, module->program, data);
    if (status != RAL_SUCCESS) return status;
    if (buffer && *bytes < data.size())
      return fail(RAL_ERROR_INVALID_ARGUMENT, "the buffer is too small for the binary");
    if (buffer) std::memcpy(buffer, data.data(), data.size());
    *bytes = data.size();
    return RAL_SUCCESS;
  });
}

ral_status load(int32_t index, const void* data, uint64_t bytes, ral_module* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !data || !out) return RAL_ERROR_INVALID_ARGUMENT;
    cl_program program = nullptr;
    const ral_status status = load_program(*device, data, bytes, "", &program);
    return status == RAL_SUCCESS ? make_module(*device, program, out) : status;
  });
}

ral_status get_kernel(int32_t, ral_module module, const char* name, ral_kernel* out) {
  return guarded([&]() -> ral_status {
    if (!module || !name || !out) return RAL_ERROR_INVALID_ARGUMENT;
    auto kernel = std::make_unique<SourceKernel>();
    cl_int code = CL_SUCCESS;
    kernel->name = name;
    kernel->device = module->device;
    kernel->handle = module->device->cl->CreateKernel(module->program, name, &code);
    if (!kernel->handle) return fail_cl(code, "clCreateKernel", RAL_ERROR_INVALID_ARGUMENT);
    *out = kernel.release();
    return RAL_SUCCESS;
  });
}

cl_int set_argument(Device& device, cl_kernel kernel, cl_uint& place, const ral_arg& arg) {
  switch (arg.kind) {
    case RAL_ARG_BUFFER: {
      void* handle = arg.u.buffer.handle;
      cl_int code = device.svm && handle
                        ? device.cl->SetKernelArgSVMPointer(kernel, place, handle)
                        : device.cl->SetKernelArg(kernel, place, sizeof(cl_mem), handle ? &handle : nullptr);
      ++place;
      if (code != CL_SUCCESS) return code;
      return device.cl->SetKernelArg(kernel, place++, sizeof(cl_ulong), &arg.u.buffer.byte_offset);
    }
    case RAL_ARG_INT32: return device.cl->SetKernelArg(kernel, place++, sizeof arg.u.i32, &arg.u.i32);
    case RAL_ARG_INT64: return device.cl->SetKernelArg(kernel, place++, sizeof arg.u.i64, &arg.u.i64);
    case RAL_ARG_FLOAT32: return device.cl->SetKernelArg(kernel, place++, sizeof arg.u.f32, &arg.u.f32);
    case RAL_ARG_FLOAT64: return device.cl->SetKernelArg(kernel, place++, sizeof arg.u.f64, &arg.u.f64);
    default: return CL_INVALID_VALUE;
  }
}

ral_status launch(int32_t index, ral_kernel handle, ral_stream stream, const uint64_t global[3],
                  const uint64_t local[3], const ral_arg* args, uint32_t arg_count, ral_event* done) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !handle || !global || (arg_count > 0 && !args)) return RAL_ERROR_INVALID_ARGUMENT;
    if (handle->family) return fail(RAL_ERROR_INVALID_ARGUMENT, "not a kernel of the compile table");
    auto kernel = static_cast<SourceKernel*>(handle);
    cl_command_queue queue = queue_of(*device, stream);
    size_t sizes[3], groups[3];
    bool chosen = local != nullptr, empty = false;
    for (int d = 0; d < 3; ++d) {
      sizes[d] = global[d];
      empty = empty || global[d] == 0;
      groups[d] = local ? local[d] : 0;
      chosen = chosen && groups[d] != 0;
    }
    if (empty) return record_marker(*device, queue, done);
    cl_event event = nullptr;
    {
      std::lock_guard<std::mutex> lock(kernel->mutex);
      cl_uint place = 0;
      for (uint32_t i = 0; i < arg_count; ++i) {
        const cl_int code = set_argument(*device, kernel->handle, place, args[i]);
        if (code != CL_SUCCESS)
          return fail(RAL_ERROR_LAUNCH, kernel->name + ": argument " + std::to_string(i) + " refused, OpenCL error " +
                                            std::to_string(code));
      }
      const cl_int code = device->cl->EnqueueNDRangeKernel(
          queue, kernel->handle, 3, nullptr, sizes, chosen ? groups : nullptr, 0, nullptr, done ? &event : nullptr);
      if (code != CL_SUCCESS) return fail_cl(code, kernel->name.c_str(), RAL_ERROR_LAUNCH);
    }
    device->cl->Flush(queue);
    return done ? wrap_event(*device, event, done) : RAL_SUCCESS;
  });
}

// OpenCL keeps a program alive while kernels of it are.
ral_status release(int32_t, ral_module module) {
  if (!module) return RAL_ERROR_INVALID_ARGUMENT;
  const cl_int code = module->device->cl->ReleaseProgram(module->program);
  delete module;
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clReleaseProgram");
}

}  // namespace

const ral_compile_table kCompileTable = {
    sizeof(ral_compile_table), "opencl-c", compile, binary, load, get_kernel, launch, release};

}  // namespace ralcl
