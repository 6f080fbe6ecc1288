/* template_plugin.c - a complete small plugin in plain C, as a starting point for your own device.
 *
 * It offers the host's memory as a device "ral:N": allocations, execution without streams and one native kernel,
 * aten::add.Tensor for dense float32. `ralctl new-plugin NAME` copies it under your vendor's name; then replace the
 * parts marked "YOURS" step by step. After each step the plugin still loads and works.
 *
 * Build:   make
 * Try:     RAL_PLUGIN_PATH=<the folder that holds this folder> ralctl plugin-status
 * Install: ralctl install <this folder>, or `make archive` and ralctl install <the archive>, which put
 *          libtemplate_plugin.so and kernel_manifest.json into ~/.local/share/ral/plugins/template/.
 *
 * This file includes ral/plugin.h and nothing else of ours. Read that header's first comment: it has the
 * rules (who owns what, which calls may be concurrent, what a status means). */
#include <ral/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 64

/* ---- Errors ------------------------------------------------------------------------------------ *
 * Every call returns a status; the text behind the last one is kept per thread. */

static _Thread_local char t_error[256];

static ral_status fail(ral_status status, const char* text) {
  snprintf(t_error, sizeof t_error, "%s", text);
  return status;
}

static ral_status last_error(char* buffer, uint64_t n) {
  if (!buffer || n == 0) return RAL_ERROR_INVALID_ARGUMENT;
  snprintf(buffer, n, "%s", t_error);
  return RAL_SUCCESS;
}

/* ---- Devices (mandatory) ----------------------------------------------------------------------- *
 * YOURS: ask your driver how many devices there are, and describe each. Be honest about the flags: the
 * RAL believes them. Indices keep their meaning until the process ends. */

static const int32_t kDeviceCount = 1;

static int known(int32_t device) { return device >= 0 && device < kDeviceCount; }

static ral_status device_count(int32_t* out) {
  if (!out) return fail(RAL_ERROR_INVALID_ARGUMENT, "count: no place for the result");
  *out = kDeviceCount;
  return RAL_SUCCESS;
}

static ral_status device_info(int32_t device, ral_device_info* out) {
  if (!known(device)) return fail(RAL_ERROR_INVALID_ARGUMENT, "info: no such device");
  /* The caller says how large its struct is; never write beyond that. */
  ral_device_info info;
  memset(&info, 0, sizeof info);
  info.kind = RAL_DEVICE_CPU;
  snprintf(info.name, sizeof info.name, "host memory");
  snprintf(info.vendor, sizeof info.vendor, "template");
  snprintf(info.driver, sizeof info.driver, "template 0.9");
  info.total_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  info.max_allocation = info.total_memory;
  info.flags = RAL_DEVICE_HOST_VISIBLE | RAL_DEVICE_FP64;
  info.compute_units = 1;
  info.dtype_mask = (1u << RAL_DTYPE_COUNT) - 1;
  info.alignment = ALIGNMENT;
  info.max_rank = 8;
  info.struct_size = out->struct_size < sizeof info ? out->struct_size : (uint32_t)sizeof info;
  memcpy(out, &info, info.struct_size);
  return RAL_SUCCESS;
}

static const ral_device_table kDevice = {
    .struct_size = sizeof(ral_device_table),
    .count = device_count,
    .info = device_info,
    /* .free_memory, .synchronize: optional. Every call here is complete when it returns. */
};

/* ---- Memory (mandatory: malloc and free) ------------------------------------------------------- *
 * YOURS: your driver's allocate and free. They may be slow, as the RAL caches. Where host code cannot see
 * the memory, set host_address to NULL, drop RAL_DEVICE_HOST_VISIBLE and fill in the copies; the handle can
 * then be anything that names an allocation, it need not be an address. */

static ral_status memory_malloc(int32_t device, uint64_t bytes, ral_memory* out) {
  void* address = NULL;
  if (!known(device) || !out || bytes == 0) return fail(RAL_ERROR_INVALID_ARGUMENT, "malloc: bad argument");
  if (posix_memalign(&address, ALIGNMENT, bytes) != 0) return fail(RAL_ERROR_OUT_OF_MEMORY, "malloc: out of memory");
  out->handle = address;
  out->host_address = address;
  return RAL_SUCCESS;
}

static ral_status memory_free(int32_t device, ral_handle handle) {
  if (!known(device) || !handle) return fail(RAL_ERROR_INVALID_POINTER, "free: not an allocation of this device");
  free(handle);
  return RAL_SUCCESS;
}

static const ral_memory_table kMemory = {
    .struct_size = sizeof(ral_memory_table),
    .malloc = memory_malloc,
    .free = memory_free,
    /* The copies may be NULL on a host-visible device: the RAL then uses memcpy. */
};

/* ---- Kernels (optional) ------------------------------------------------------------------------ *
 * kernel_manifest.json names them, with the data types, ranks and layouts that they take. YOURS: one
 * function for each operator; enqueue on `stream` and hand back an event once you have a stream table. */

typedef ral_status (*launch_fn)(const ral_value* args, uint32_t arg_count, const ral_value* outs, uint32_t out_count);

struct ral_kernel_s {
  const char* symbol;
  launch_fn launch;
};

/* Where element [0, 0, ...] of a tensor is: never do arithmetic on handles of a device without shared
 * addresses; there, pass handle and byte_offset on to the kernel. */
static float* floats(const ral_tensor* tensor) { return (float*)((char*)tensor->data + tensor->byte_offset); }

static int dense_float(const ral_value* value) {
  if (value->tag != RAL_VALUE_TENSOR || value->dtype != RAL_FLOAT32) return 0;
  const ral_tensor* tensor = value->u.tensor;
  int64_t expected = 1;
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    if (tensor->shape[d] != 1 && tensor->strides[d] != expected) return 0;
    expected *= tensor->shape[d];
  }
  return 1;
}

static int same_shape(const ral_tensor* a, const ral_tensor* b) {
  return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->ndim) == 0);
}

/* aten::add.Tensor(self, other, alpha) -> output. Arguments come in the order of PyTorch's schema. What the
 * manifest cannot say (here: no broadcasting) is refused with UNSUPPORTED before anything is written; the
 * RAL then lets the next tier do the call. */
static ral_status launch_add(const ral_value* args, uint32_t arg_count, const ral_value* outs, uint32_t out_count) {
  if (arg_count != 3 || out_count != 1 || !dense_float(&args[0]) || !dense_float(&args[1]) || !dense_float(&outs[0]))
    return fail(RAL_ERROR_UNSUPPORTED, "add: takes dense float32 tensors");
  const ral_tensor *a = args[0].u.tensor, *b = args[1].u.tensor, *out = outs[0].u.tensor;
  if (!same_shape(a, out) || !same_shape(b, out)) return fail(RAL_ERROR_UNSUPPORTED, "add: does not broadcast");
  float alpha;
  if (args[2].tag == RAL_VALUE_INT)
    alpha = (float)args[2].u.i;
  else if (args[2].tag == RAL_VALUE_DOUBLE)
    alpha = (float)args[2].u.d;
  else
    return fail(RAL_ERROR_UNSUPPORTED, "add: alpha is no real number");
  int64_t count = 1;
  for (int32_t d = 0; d < out->ndim; ++d) count *= out->shape[d];
  if (count == 0) return RAL_SUCCESS; /* empty tensors may have no data */
  const float *x = floats(a), *y = floats(b);
  float* z = floats(out);
  for (int64_t i = 0; i < count; ++i) z[i] = x[i] + alpha * y[i];
  return RAL_SUCCESS;
}

static struct ral_kernel_s kKernels[] = {{"add", launch_add}};

static ral_status kernel_resolve(int32_t device, const char* op_name, const char* path, const char* symbol,
                                 const char* dialect, ral_kernel* out) {
  (void)op_name, (void)path, (void)dialect;
  if (!known(device) || !symbol || !out) return fail(RAL_ERROR_INVALID_ARGUMENT, "resolve: bad argument");
  for (size_t i = 0; i < sizeof kKernels / sizeof *kKernels; ++i) {
    if (strcmp(kKernels[i].symbol, symbol) != 0) continue;
    *out = &kKernels[i];
    return RAL_SUCCESS;
  }
  return fail(RAL_ERROR_UNSUPPORTED, "resolve: no such kernel");
}

static ral_status kernel_launch(int32_t device, ral_kernel kernel, ral_stream stream, const ral_value* args,
                                uint32_t arg_count, const ral_value* outs, uint32_t out_count,
                                const ral_tensor* workspace, ral_event* done) {
  (void)stream, (void)workspace;
  if (!known(device) || !kernel) return fail(RAL_ERROR_INVALID_ARGUMENT, "launch: bad argument");
  if (done) *done = NULL; /* no events: the work is complete when this returns */
  return kernel->launch(args, arg_count, outs, out_count);
}

static const ral_kernel_table kKernel = {
    .struct_size = sizeof(ral_kernel_table),
    .resolve = kernel_resolve,
    .launch = kernel_launch,
};

/* ---- The plugin -------------------------------------------------------------------------------- */

static const ral_plugin kPlugin = {
    .struct_size = sizeof(ral_plugin),
    .abi_version = RAL_ABI_VERSION,
    .name = "template", /* YOURS: the vendor folder's name */
    .version = "0.9.0",
    .last_error = last_error,
    .device = &kDevice,
    .memory = &kMemory,
    .kernel = &kKernel,
    /* YOURS, in the order that pays: .stream and .event (overlap, device times), .compile (the jit tier). */
};

/* YOURS: open your driver here with dlopen. Where it is missing, return NULL and let ral_plugin_error say
 * "missing: <library> ..." with the cure: that is what users will read. */
RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host* host) {
  if (host->log) host->log(RAL_LOG_DEBUG, "template plugin loaded");
  return &kPlugin;
}

RAL_PLUGIN_EXPORT const char* ral_plugin_error(void) { return ""; }
