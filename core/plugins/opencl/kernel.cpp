// kernel.cpp - the kernel table: entries of kernel_manifest.json, resolved to a family of operators, built
// on first need and launched by the family's plan.
#include <shared_mutex>
#include <unordered_map>

#include "plan.h"
#include "program.h"
#include "stream.h"

namespace ralcl {
namespace {

const Family* const kFamilies[] = {&kElementwise, &kReduction, &kSoftmax, &kNorm, &kMatmul, &kShape};

// One source kernel of an entry, specialised for data types and forms of arguments and built as a program
// of its own. Its arguments are its state, so setting them and enqueueing happens under a lock.
struct Variant {
  std::mutex building;
  std::atomic<bool> built{false};
  ral_status status = RAL_SUCCESS;  // of the build; kept, so that a failing build is not repeated
  std::string error;
  cl_program program = nullptr;
  cl_kernel handle = nullptr;
  std::mutex launching;
};

struct ManifestKernel : ral_kernel_s {
  int32_t index = 0;
  Device* device = nullptr;
  std::string folder;  // of the source files
  std::string symbol;
  std::shared_mutex mutex;
  std::unordered_map<uint64_t, std::unique_ptr<Variant>> variants;
};

bool includes_math(const Family& family) { return &family == &kElementwise || &family == &kSoftmax; }

bool assemble(const ManifestKernel& kernel, const Call& call, const Plan& plan, const char* name, std::string& source) {
  std::string common, math, body;
  if (!read_file(kernel.folder + "/common.cl", common) || !read_file(kernel.folder + "/" + kernel.family->file, body))
    return false;
  kernel.family->preamble(call, plan, source);
  define(source, "EXPRESSION", "E_" + kernel.symbol);
  define(source, "OP_" + kernel.symbol, "1");
  define(source, std::string("KERNEL_") + name, "1");
  source += common;
  if (includes_math(*kernel.family)) {
    if (!read_file(kernel.folder + "/math.cl", math)) return false;
    source += "#define F float\n#define I int\n#define F_SUFFIX 1\n" + math + "#undef F\n#undef I\n#undef F_SUFFIX\n";
    if (kernel.family == &kSoftmax)
      source += "#define F JOIN(float, LANES)\n#define I JOIN(int, LANES)\n#define F_SUFFIX v\n" + math +
                "#undef F\n#undef I\n#undef F_SUFFIX\n";
  }
  source += body;
  return true;
}

ral_status build(ManifestKernel& kernel, const Call& call, const Plan& plan, const char* name, Variant& variant) {
  std::string source;
  if (!assemble(kernel, call, plan, name, source))
    return fail(RAL_ERROR_COMPILE, kernel.name + ": cannot read the kernel sources in " + kernel.folder);
  Device& device = *kernel.device;
  const ral_status status =
      build_program(kernel.index, device, source, build_options(device), kernel.name.c_str(), &variant.program);
  if (status != RAL_SUCCESS) return status;
  cl_int code = CL_SUCCESS;
  variant.handle = device.cl->CreateKernel(variant.program, name, &code);
  return variant.handle ? RAL_SUCCESS : fail_cl(code, name, RAL_ERROR_COMPILE);
}

Variant& variant_of(ManifestKernel& kernel, uint64_t key) {
  {
    std::shared_lock<std::shared_mutex> lock(kernel.mutex);
    auto found = kernel.variants.find(key);
    if (found != kernel.variants.end()) return *found->second;
  }
  std::unique_lock<std::shared_mutex> lock(kernel.mutex);
  auto& slot = kernel.variants[key];
  if (!slot) slot = std::make_unique<Variant>();
  return *slot;
}

// The built kernel of a step; waits where another thread is building it.
ral_status built_variant(ManifestKernel& kernel, const Call& call, const Plan& plan, const Step& step, Variant*& out) {
  Variant& variant = variant_of(kernel, hash_text(step.kernel, plan.key ^ kHashSeed));
  if (!variant.built.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(variant.building);
    if (!variant.built.load(std::memory_order_relaxed)) {
      variant.status = build(kernel, call, plan, step.kernel, variant);
      if (variant.status != RAL_SUCCESS) {
        char text[4096];
        last_error(text, sizeof text);
        variant.error = text;
        if (kernel.device->no_compiler.empty()) log(RAL_LOG_ERROR, "opencl: " + variant.error);
      }
      variant.built.store(true, std::memory_order_release);
    }
  }
  out = &variant;
  return variant.status == RAL_SUCCESS ? RAL_SUCCESS : fail(variant.status, variant.error);
}

cl_int set_buffer(Device& device, cl_kernel kernel, cl_uint place, void* handle) {
  if (!handle) return device.cl->SetKernelArg(kernel, place, sizeof(cl_mem), nullptr);
  if (device.svm) return device.cl->SetKernelArgSVMPointer(kernel, place, handle);
  return device.cl->SetKernelArg(kernel, place, sizeof(cl_mem), &handle);
}

// Set all arguments of a step. With `dry` every number is 0 and every buffer null, so that the kernel
// runs without touching anything.
cl_int set_arguments(Device& device, cl_kernel kernel, const Plan& plan, const Step& step, bool dry) {
  static const char zeros[1024] = {};
  cl_uint place = 0;
  for (int i = 0; i < step.argument_count; ++i) {
    const Argument& argument = plan.argument(step.first_argument + i);
    cl_int code = CL_SUCCESS;
    if (argument.is_buffer) code = set_buffer(device, kernel, place++, dry ? nullptr : argument.handle);
    if (code == CL_SUCCESS)
      code = device.cl->SetKernelArg(kernel, place++, argument.size, dry ? zeros : plan.bytes(argument));
    if (code != CL_SUCCESS) return code;
  }
  return CL_SUCCESS;
}

ral_status enqueue(Device& device, Variant& variant, const Plan& plan, const Step& step, cl_command_queue queue,
                   bool dry, cl_event* event) {
  std::lock_guard<std::mutex> lock(variant.launching);
  cl_int code = set_arguments(device, variant.handle, plan, step, dry);
  if (code != CL_SUCCESS) return fail_cl(code, "clSetKernelArg", RAL_ERROR_LAUNCH);
  code = device.cl->EnqueueNDRangeKernel(queue, variant.handle, static_cast<cl_uint>(step.dims), nullptr,
                                         dry ? step.local : step.global, step.local, 0, nullptr, event);
  return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, step.kernel, RAL_ERROR_LAUNCH);
}

ral_status make_plan(const Call& call, Plan& plan) {
  ral_status status = call.kernel.family->plan(call, plan);
  if (status == RAL_SUCCESS && plan.overflow)
    return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": too many operands");
  return status;
}

ral_status resolve(int32_t index, const char* op_name, const char* path, const char* symbol, const char* dialect,
                   ral_kernel* out) {
  return guarded([&]() -> ral_status {
    Device* device = find_device(index);
    if (!device || !op_name || !path || !symbol || !out) return RAL_ERROR_INVALID_ARGUMENT;
    if (dialect && *dialect && std::strcmp(dialect, "opencl-c") != 0)
      return fail(RAL_ERROR_UNSUPPORTED, std::string("dialect ") + dialect + " is not opencl-c");
    const std::string file = path;
    const size_t slash = file.rfind('/');
    const std::string base = slash == std::string::npos ? file : file.substr(slash + 1);
    for (const Family* family : kFamilies) {
      if (base != family->file) continue;
      const void* op = family->find(symbol);
      if (!op) return fail(RAL_ERROR_UNSUPPORTED, std::string(symbol) + " is not a kernel of " + base);
      auto kernel = std::make_unique<ManifestKernel>();
      kernel->name = op_name;
      kernel->family = family;
      kernel->op = op;
      kernel->index = index;
      kernel->device = device;
      kernel->folder = slash == std::string::npos ? "." : file.substr(0, slash);
      kernel->symbol = symbol;
      *out = kernel.release();  // lives until the process ends
      return RAL_SUCCESS;
    }
    return fail(RAL_ERROR_UNSUPPORTED, "no kernels are known in " + base);
  });
}

// The entry behind a handle, checked against the device; null otherwise.
ManifestKernel* entry_of(int32_t index, ral_kernel kernel) {
  if (!find_device(index) || !kernel) return nullptr;
  if (!kernel->family) {
    fail(RAL_ERROR_INVALID_ARGUMENT, "a kernel of the compile table");
    return nullptr;
  }
  auto entry = static_cast<ManifestKernel*>(kernel);
  if (entry->index == index) return entry;
  fail(RAL_ERROR_INVALID_ARGUMENT, entry->name + " was resolved for another device");
  return nullptr;
}

// A queue beside all streams, for completing builds.
cl_command_queue side_queue(Device& device) {
  std::lock_guard<std::mutex> lock(device.queues_mutex);
  if (!device.side_queue) device.side_queue = create_queue(device, 0);
  return device.side_queue;
}

ral_status prepare(int32_t index, ral_kernel handle, const ral_value* args, uint32_t arg_count, const ral_value* outs,
                   uint32_t out_count) {
  return guarded([&]() -> ral_status {
    ManifestKernel* kernel = entry_of(index, handle);
    if (!kernel) return RAL_ERROR_INVALID_ARGUMENT;
    Device& device = *kernel->device;
    const Call call{device, *kernel, args, arg_count, outs, out_count, nullptr};
    Plan plan;
    ral_status status = make_plan(call, plan);
    if (status != RAL_SUCCESS || plan.step_count == 0) return status;
    cl_command_queue queue = side_queue(device);
    if (!queue) return fail(RAL_ERROR_RUNTIME, "no command queue");
    for (int i = 0; i < plan.step_count; ++i) {
      Variant* variant = nullptr;
      status = built_variant(*kernel, call, plan, plan.step(i), variant);
      if (status == RAL_SUCCESS) status = enqueue(device, *variant, plan, plan.step(i), queue, true, nullptr);
      if (status != RAL_SUCCESS) return status;
    }
    const cl_int code = device.cl->Finish(queue);
    return code == CL_SUCCESS ? RAL_SUCCESS : fail_cl(code, "clFinish");
  });
}

ral_status workspace_size(int32_t index, ral_kernel handle, const ral_value* args, uint32_t arg_count,
                          const ral_value* outs, uint32_t out_count, uint64_t* bytes) {
  return guarded([&]() -> ral_status {
    ManifestKernel* kernel = entry_of(index, handle);
    if (!kernel || !bytes) return RAL_ERROR_INVALID_ARGUMENT;
    const Call call{*kernel->device, *kernel, args, arg_count, outs, out_count, nullptr};
    Plan plan;
    const ral_status status = make_plan(call, plan);
    *bytes = status == RAL_SUCCESS ? plan.workspace : 0;
    return status;
  });
}

ral_status launch(int32_t index, ral_kernel handle, ral_stream stream, const ral_value* args, uint32_t arg_count,
                  const ral_value* outs, uint32_t out_count, const ral_tensor* workspace, ral_event* done) {
  return guarded([&]() -> ral_status {
    ManifestKernel* kernel = entry_of(index, handle);
    if (!kernel) return RAL_ERROR_INVALID_ARGUMENT;
    Device& device = *kernel->device;
    const bool scratch = workspace && workspace->data;
    const Call call{device, *kernel, args, arg_count, outs, out_count, scratch ? workspace : nullptr};
    Plan plan;
    ral_status status = make_plan(call, plan);
    if (status != RAL_SUCCESS) return status;
    cl_command_queue queue = queue_of(device, stream);
    if (plan.step_count == 0) return record_marker(device, queue, done);
    if (plan.workspace > 0 && !scratch) return fail(RAL_ERROR_LAUNCH, kernel->name + ": no workspace was given");
    Variant* variants[Plan::kMaxSteps];
    for (int i = 0; i < plan.step_count; ++i) {
      status = built_variant(*kernel, call, plan, plan.step(i), variants[i]);
      if (status != RAL_SUCCESS) return status;
    }
    cl_event event = nullptr;
    for (int i = 0; i < plan.step_count; ++i) {
      const bool last = i == plan.step_count - 1;
      status = enqueue(device, *variants[i], plan, plan.step(i), queue, false, last && done ? &event : nullptr);
      if (status != RAL_SUCCESS) return i == 0 ? status : RAL_ERROR_RUNTIME;
    }
    device.cl->Flush(queue);
    return done ? wrap_event(device, event, done) : RAL_SUCCESS;
  });
}

}  // namespace

const ral_kernel_table kKernelTable = {sizeof(ral_kernel_table), resolve, prepare, workspace_size, launch};

}  // namespace ralcl
