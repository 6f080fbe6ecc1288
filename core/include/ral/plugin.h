/* plugin.h - the whole contract between the Runtime Abstraction Layer (RAL) and a vendor's plugin.
 *
 * A plugin is a shared library `lib<vendor>_plugin.so` beside a `kernel_manifest.json`, in a folder
 * named `<vendor>`, on the plugin search path ($RAL_PLUGIN_PATH, the wheel's own folder,
 * ~/.local/share/ral/plugins, /opt/flagos/plugins). It includes this file and nothing else of ours.
 *
 * Plain C. ABI 0.9: additive. It becomes 1.0, frozen, once several vendors have used it.
 *
 * RULES FOR THE WHOLE FILE
 *  - Every table and every struct that can grow begins with `struct_size`, in bytes, set by whoever
 *    fills it. A reader uses a member only when `offsetof(member) + sizeof(member) <= struct_size`.
 *    Members are only ever added at the end; none is removed, reordered or given a new meaning.
 *  - Every call returns a `ral_status`. No C++ exception, no longjmp and no signal leaves a plugin.
 *  - Any thread may call any function at any time, also concurrently, unless a comment says otherwise.
 *  - The plugin keeps ownership of every string and table that it hands out; they stay valid and
 *    unchanged until the process ends. The RAL keeps ownership of everything that it passes in;
 *    it is valid during the call only, unless a comment says otherwise.
 *  - Sizes and offsets are bytes. Times are nanoseconds. Counts are elements.
 *  - Optional functions may be NULL; optional tables may be NULL. The RAL supplies what is absent.
 */
#ifndef RAL_PLUGIN_H
#define RAL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RAL_ABI_MAJOR 0 /* another one: not compatible */
#define RAL_ABI_MINOR 9 /* grows with each addition */
/* Compared at load: the major parts must be equal; a plugin with a newer minor part still loads and
 * both sides use what both know. */
#define RAL_ABI_VERSION ((RAL_ABI_MAJOR << 16) | RAL_ABI_MINOR)

#if defined(__GNUC__)
/* On the functions that a plugin exports. */
#define RAL_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define RAL_PLUGIN_EXPORT
#endif

/* ---- Status ------------------------------------------------------------------------------------ */

/* What a call came to: 0, or one of the errors below. */
typedef int32_t ral_status;
/* Values of ral_status. */
enum {
  RAL_SUCCESS = 0,
  RAL_ERROR_UNSUPPORTED = 1,        /* this combination cannot run here: the RAL tries the next tier   */
  RAL_ERROR_INVALID_ARGUMENT = 2,   /* a value outside what this file allows                           */
  RAL_ERROR_INVALID_POINTER = 3,    /* a handle that this device does not know                         */
  RAL_ERROR_OUT_OF_MEMORY = 4,      /* the RAL flushes its caches and asks once more                   */
  RAL_ERROR_DEVICE_LOST = 5,        /* the device is gone; every later call on it may answer the same  */
  RAL_ERROR_COMPILE = 6,            /* a kernel did not build; last_error() has the log                */
  RAL_ERROR_LAUNCH = 7,             /* a kernel was refused at launch; nothing was written             */
  RAL_ERROR_RUNTIME = 8,            /* a kernel or copy failed after it began                          */
  RAL_ERROR_MISSING_DEPENDENCY = 9, /* a library that the driver needs is not there                  */
  RAL_ERROR_NOT_READY = 10,         /* event_query: not finished yet                                   */
  RAL_ERROR_INTERNAL = 11
};

/* ---- Data types -------------------------------------------------------------------------------- */

/* The type of a tensor's elements. */
typedef int32_t ral_dtype;
/* Values of ral_dtype. Names used in manifests, in the same order: bool uint8 int8 int16 int32 int64
 * float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64. */
enum {
  RAL_BOOL = 0, /* one byte, 0 or 1 */
  RAL_UINT8 = 1,
  RAL_INT8 = 2,
  RAL_INT16 = 3,
  RAL_INT32 = 4,
  RAL_INT64 = 5,
  RAL_FLOAT16 = 6,
  RAL_BFLOAT16 = 7,
  RAL_FLOAT32 = 8,
  RAL_FLOAT64 = 9,
  RAL_COMPLEX64 = 10,
  RAL_COMPLEX128 = 11,
  RAL_UINT16 = 12,
  RAL_UINT32 = 13,
  RAL_UINT64 = 14,
  RAL_DTYPE_COUNT = 15
};

/* ---- Devices ----------------------------------------------------------------------------------- */

/* What a device is. */
typedef int32_t ral_device_kind;
/* Values of ral_device_kind. */
enum {
  RAL_DEVICE_CPU = 0, /* a driver that runs on the host's own cores */
  RAL_DEVICE_GPU = 1,
  RAL_DEVICE_NPU = 2,
  RAL_DEVICE_OTHER = 3
};

/* Bits of ral_device_info.flags. */

#define RAL_DEVICE_HOST_VISIBLE \
  0x1u                       /* malloc returns memory that host code may read and write in
                                        place while no work of the device uses it, coherently */
#define RAL_DEVICE_FP16 0x2u /* float16 arithmetic in kernels  */
#define RAL_DEVICE_BF16 0x4u /* bfloat16 arithmetic in kernels */
#define RAL_DEVICE_FP64 0x8u /* float64 arithmetic in kernels  */

/* What a plugin says of one of its devices. */
typedef struct ral_device_info {
  uint32_t struct_size;
  ral_device_kind kind;
  char name[128];          /* the device, as its driver names it              */
  char vendor[64];         /* who makes the driver, "PoCL", "Intel", "AMD"    */
  char driver[64];         /* driver name and version, "PoCL 6.0"             */
  uint64_t total_memory;   /* bytes                                           */
  uint64_t max_allocation; /* largest single allocation, bytes                */
  uint32_t flags;          /* RAL_DEVICE_*                                    */
  uint32_t compute_units;  /* cores, multiprocessors                          */
  uint32_t dtype_mask;     /* bit (1u << dtype): storable and copyable        */
  uint32_t dma_engines;    /* copies that can overlap compute; 0: none, or not known */
  uint32_t alignment;      /* bytes that malloc guarantees; 0: 64             */
  uint32_t max_rank;       /* largest tensor rank of its kernels; 0: 8        */
  char uuid[40];           /* stable across runs and reboots; "" where the driver has none */
} ral_device_info;

/* ---- Memory ------------------------------------------------------------------------------------ */

/* A device allocation. The RAL never does arithmetic on it: a place in memory is always
 * {handle, byte_offset}. On host-visible devices the handle may well be the address itself. */
typedef void* ral_handle;

/* What malloc and import_host give. */
typedef struct ral_memory {
  ral_handle handle;
  void* host_address; /* where host code sees the same bytes; NULL where the device is not host-visible */
} ral_memory;

/* ---- Streams and events ------------------------------------------------------------------------ */

/* An in-order queue. NULL means the device's default stream. */
typedef struct ral_stream_s* ral_stream;
/* A point in a stream. Every event that a plugin returns is released by the RAL exactly once. */
typedef struct ral_event_s* ral_event;

/* ---- Values: how an operator's arguments reach a kernel ---------------------------------------- */

/* DLDevice: where a tensor is. */
typedef struct ral_dl_device {
  int32_t device_type; /* always 12 (kDLExtDev) */
  int32_t device_id;   /* the plugin's own index, 0 .. device_count - 1 */
} ral_dl_device;
/* DLDataType: the type of an element. */
typedef struct ral_dl_type {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool */
  uint8_t bits;
  uint16_t lanes; /* always 1 */
} ral_dl_type;
/* DLTensor's layout (dlpack.h, v0.8 and later), declared here so that no other file is needed.
 * `data` is the ral_handle of the allocation and `byte_offset` the place of element [0, 0, ...].
 * `strides` counts elements and is never NULL; a stride may be 0 (broadcast) and is never negative. */
typedef struct ral_tensor {
  void* data;
  ral_dl_device device;
  int32_t ndim;
  ral_dl_type dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} ral_tensor;

/* Which kind of argument a ral_value holds. */
typedef int32_t ral_value_tag;
/* Values of ral_value_tag. */
enum {
  RAL_VALUE_NONE = 0, /* an optional argument that was not given */
  RAL_VALUE_TENSOR = 1,
  RAL_VALUE_TENSOR_LIST = 2,
  RAL_VALUE_INT = 3,
  RAL_VALUE_DOUBLE = 4,
  RAL_VALUE_BOOL = 5,
  RAL_VALUE_COMPLEX = 6,
  RAL_VALUE_INT_LIST = 7,
  RAL_VALUE_STRING = 8,
  RAL_VALUE_DTYPE = 9,
  RAL_VALUE_RNG = 10,
  RAL_VALUE_DOUBLE_LIST = 11,
  RAL_VALUE_BOOL_LIST = 12,
  RAL_VALUE_HOST_SCALAR = 13 /* a 0-dim tensor that lives on the host, given as its value in `complex` */
};

/* An argument or output of an operator. Values are read only; all pointers are valid during the call only. */
typedef struct ral_value {
  ral_value_tag tag;
  ral_dtype dtype; /* of a TENSOR, DTYPE or HOST_SCALAR; else -1 */
  union {
    const ral_tensor* tensor;
    struct {
      const ral_tensor* const* items; /* an item may be NULL (optional lists) */
      uint64_t count;
    } tensors;
    int64_t i;
    double d;
    int32_t b;
    struct {
      double re, im;
    } complex; /* HOST_SCALAR: integers up to 64 bits are also exact in `i64` */
    struct {
      const int64_t* items;
      uint64_t count;
    } ints;
    struct {
      const double* items;
      uint64_t count;
    } doubles;
    struct {
      const int32_t* items;
      uint64_t count;
    } bools;
    const char* string;
    struct {
      uint64_t seed, offset;
    } rng; /* Philox 4x32-10 key and counter of this call */
  } u;
  int64_t i64; /* HOST_SCALAR of an integer or bool type: its exact value */
} ral_value;

/* ---- The plugin's tables ----------------------------------------------------------------------- */

/* Mandatory: which devices there are. */
typedef struct ral_device_table {
  uint32_t struct_size;
  /* Number of devices; indices 0 .. count-1 keep their meaning for the life of the process. Called
   * once at load and again after a device-arrived notice. Opening drivers is allowed here. */
  ral_status (*count)(int32_t* out);
  /* Describes a device. */
  ral_status (*info)(int32_t device, ral_device_info* out); /* out->struct_size is set by the caller */
  /* Optional: bytes free now. */
  ral_status (*free_memory)(int32_t device, uint64_t* bytes);
  /* Optional: wait until all work of this device is done. */
  ral_status (*synchronize)(int32_t device);
} ral_device_table;

/* Mandatory: malloc and free. They may be slow: the RAL caches. `bytes` is never 0. */
typedef struct ral_memory_table {
  uint32_t struct_size;
  /* OUT_OF_MEMORY where there is none; the RAL then frees what it caches and asks again. */
  ral_status (*malloc)(int32_t device, uint64_t bytes, ral_memory* out);
  /* Called once no work uses the memory any more. */
  ral_status (*free)(int32_t device, ral_handle handle);
  /* Optional copies, from host memory. With a stream they are ordered in it and, where `done` is not NULL, return an
   * event; host memory stays valid until the event. When absent and the device is host-visible the
   * RAL uses memcpy; when absent otherwise the plugin is refused. */
  ral_status (*copy_from_host)(int32_t device, ral_stream stream, ral_handle dst, uint64_t dst_offset, const void* src,
                               uint64_t bytes, ral_event* done);
  /* The same, to host memory. */
  ral_status (*copy_to_host)(int32_t device, ral_stream stream, void* dst, ral_handle src, uint64_t src_offset,
                             uint64_t bytes, ral_event* done);
  /* The same, within the device. */
  ral_status (*copy_on_device)(int32_t device, ral_stream stream, ral_handle dst, uint64_t dst_offset, ral_handle src,
                               uint64_t src_offset, uint64_t bytes, ral_event* done);
  /* Optional: make existing host memory (page aligned, owned by the RAL until release_import) a
   * device allocation without a copy. */
  ral_status (*import_host)(int32_t device, void* address, uint64_t bytes, ral_memory* out);
  /* Ends an import; called once no work uses the memory any more. Present where import_host is. */
  ral_status (*release_import)(int32_t device, ral_handle handle);
} ral_memory_table;

/* Optional: queues. Absent: the device has one stream and every call is complete when it returns. */
typedef struct ral_stream_table {
  uint32_t struct_size;
  ral_status (*create)(int32_t device, int32_t priority, ral_stream* out); /* lower number: sooner; 0: normal */
  ral_status (*destroy)(int32_t device, ral_stream stream);                /* waits for its work */
  ral_status (*synchronize)(int32_t device, ral_stream stream);            /* returns when its work is done */
  /* Later work of `stream` waits for `event`, which may belong to another stream of this plugin. */
  ral_status (*wait_event)(int32_t device, ral_stream stream, ral_event event);
  /* Submit what is queued, without waiting. Optional. */
  ral_status (*flush)(int32_t device, ral_stream stream);
} ral_stream_table;

/* Optional: points in a queue; needs ral_stream_table. */
typedef struct ral_event_table {
  uint32_t struct_size;
  ral_status (*record)(int32_t device, ral_stream stream, ral_event* out); /* a new event after all earlier work */
  ral_status (*query)(int32_t device, ral_event event);                    /* SUCCESS, NOT_READY or the work's error */
  ral_status (*synchronize)(int32_t device, ral_event event);              /* returns when it is complete */
  /* After completion: when the work was queued, began and ended, in nanoseconds of CLOCK_MONOTONIC
   * (the plugin maps its device's clock). UNSUPPORTED where the driver has no such times. */
  ral_status (*times)(int32_t device, ral_event event, int64_t* queued, int64_t* start, int64_t* end);
  /* Called once for each event, finished or not; the event is not used again. */
  ral_status (*release)(int32_t device, ral_event event);
  /* Bound, in nanoseconds, on the error of the mapping used by times(). Optional. */
  ral_status (*clock_uncertainty)(int32_t device, int64_t* ns);
} ral_event_table;

/* A kernel of the plugin's, found by name. */
typedef struct ral_kernel_s* ral_kernel;

/* Optional: the kernels that kernel_manifest.json names.
 *
 * Arguments arrive as the operator's schema lists them (PyTorch's ATen schema of the functional
 * overload, e.g. add.Tensor(self, other, alpha)): args[i] is schema argument i. Outputs are separate,
 * already allocated with their final shape, strides and dtype; an in-place call passes the same memory
 * as input and output (fully overlapping, same strides), never partly overlapping memory.
 * A manifest entry promises its dtypes, ranks and contiguity; for whatever else a kernel cannot do,
 * `prepare` or `launch` returns RAL_ERROR_UNSUPPORTED before anything is written. */
typedef struct ral_kernel_table {
  uint32_t struct_size;
  /* Find the kernel of a manifest entry; `path` is its kernel_path, resolved beside the manifest, and
   * `symbol` its symbol. Cheap: nothing is compiled here. Kernels live until the process ends. */
  ral_status (*resolve)(int32_t device, const char* op_name, const char* path, const char* symbol, const char* dialect,
                        ral_kernel* out);
  /* Optional: build whatever this call would need, so that launch does not stall. May take seconds;
   * runs on a thread of the RAL's. `data` members may be NULL here; all else is as for launch. */
  ral_status (*prepare)(int32_t device, ral_kernel kernel, const ral_value* args, uint32_t arg_count,
                        const ral_value* outs, uint32_t out_count);
  /* Optional: scratch memory that launch wants. Absent or 0: none. */
  ral_status (*workspace_size)(int32_t device, ral_kernel kernel, const ral_value* args, uint32_t arg_count,
                               const ral_value* outs, uint32_t out_count, uint64_t* bytes);
  /* Enqueue; returns at once. `workspace` is {NULL, ...} when none was asked for. Where `done` is not
   * NULL and the plugin has events, it returns an event of this launch's end; else it sets NULL. */
  ral_status (*launch)(int32_t device, ral_kernel kernel, ral_stream stream, const ral_value* args, uint32_t arg_count,
                       const ral_value* outs, uint32_t out_count, const ral_tensor* workspace, ral_event* done);
} ral_kernel_table;

/* Compiled source. */
typedef struct ral_module_s* ral_module;

/* Which kind of argument a ral_arg holds. */
typedef int32_t ral_arg_kind;
/* Values of ral_arg_kind. */
enum { RAL_ARG_BUFFER = 0, RAL_ARG_INT32 = 1, RAL_ARG_INT64 = 2, RAL_ARG_FLOAT32 = 3, RAL_ARG_FLOAT64 = 4 };

/* One argument of a compiled kernel, in the order of its source. A BUFFER is two parameters of the
 * source kernel: the pointer, then a 64-bit byte offset (`__global char* base, ulong offset` in
 * OpenCL C). */
typedef struct ral_arg {
  ral_arg_kind kind;
  union {
    struct {
      ral_handle handle;
      uint64_t byte_offset;
    } buffer;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
  } u;
} ral_arg;

/* Optional: compiling source for this device (used by the jit tier). */
typedef struct ral_compile_table {
  uint32_t struct_size;
  const char* dialect; /* "opencl-c", "cuda-c", "hip-c" */
  /* Builds source. RAL_ERROR_COMPILE where it does not build; last_error() has the log. */
  ral_status (*compile)(int32_t device, const char* source, const char* options, ral_module* out);
  /* Optional: bytes that load() takes later, in another process too. Call with buffer NULL for the size. */
  ral_status (*binary)(int32_t device, ral_module module, void* buffer, uint64_t* bytes);
  /* Makes a module of bytes that binary() gave. */
  ral_status (*load)(int32_t device, const void* binary, uint64_t bytes, ral_module* out);
  /* The kernel of that name in the module's source. */
  ral_status (*get_kernel)(int32_t device, ral_module module, const char* name, ral_kernel* out);
  /* Enqueue over `global` work items in groups of `local`; `done` as in ral_kernel_table.launch. */
  ral_status (*launch)(int32_t device, ral_kernel kernel, ral_stream stream, const uint64_t global[3],
                       const uint64_t local[3], /* all zero: the driver chooses */
                       const ral_arg* args, uint32_t arg_count, ral_event* done);
  /* The module is not used again. */
  ral_status (*release)(int32_t device, ral_module module);
} ral_compile_table;

/* A plugin, as ral_plugin_entry gives it. */
typedef struct ral_plugin {
  uint32_t struct_size;
  uint32_t abi_version; /* RAL_ABI_VERSION of the header that it was built with */
  const char* name;     /* the vendor folder's name, "opencl" */
  const char* version;  /* the plugin's own, "0.9.0" */
  /* Text for the last status other than SUCCESS on this thread. Writes at most n bytes, NUL included.
   * Optional. */
  ral_status (*last_error)(char* buffer, uint64_t n);
  const ral_device_table* device; /* mandatory */
  const ral_memory_table* memory; /* mandatory */
  const ral_stream_table* stream; /* optional from here on */
  const ral_event_table* event;
  const ral_kernel_table* kernel;
  const ral_compile_table* compile;
  /* The manifest as JSON text; NULL: the file kernel_manifest.json beside the library is read. */
  ral_status (*manifest)(const char** json);
  /* Optional: called once at orderly process end, after all work was waited for. */
  void (*shutdown)(void);
} ral_plugin;

/* ---- What the RAL offers to the plugin --------------------------------------------------------- */

/* How much a log line matters. */
typedef int32_t ral_log_level;
/* Values of ral_log_level. */
enum { RAL_LOG_DEBUG = 0, RAL_LOG_INFO = 1, RAL_LOG_WARNING = 2, RAL_LOG_ERROR = 3 };

/* What ral_plugin_entry is given. */
typedef struct ral_host {
  uint32_t struct_size;
  uint32_t abi_version;
  /* One line for the RAL's log, without a newline. */
  void (*log)(ral_log_level level, const char* text);
  /* Report work that the RAL cannot see, such as a build: "begin" returns an id for "end". Times are
   * taken here. `what` is a short name such as the kernel's. */
  uint64_t (*compile_begin)(int32_t device, const char* what);
  /* Ends what compile_begin began. */
  void (*compile_end)(uint64_t id, ral_status status);
  /* Notice, from any thread: the device is gone. */
  void (*device_lost)(int32_t device, const char* reason);
  /* Notice, from any thread: count() would answer more than before. */
  void (*device_arrived)(void);
  /* A folder of the user's (mode 0700) for this plugin's caches; "" where none can be written. */
  const char* (*cache_folder)(void);
  /* Threads that the user allows this process (torch.get_num_threads, or the cores). */
  int32_t (*thread_budget)(void);
} ral_host;

/* The one exported symbol. Called once; returns NULL when the plugin cannot work here, having logged
 * why (or with last_error text available through ral_plugin_error, below). `host` stays valid. */
RAL_PLUGIN_EXPORT const ral_plugin* ral_plugin_entry(const ral_host* host);
/* Optional export: why ral_plugin_entry returned NULL. For a missing library start the text with
 * "missing: <library>", which is shown as MISSING_DEPS with the library's name. */
RAL_PLUGIN_EXPORT const char* ral_plugin_error(void);

/* The type of ral_plugin_entry. */
typedef const ral_plugin* (*ral_plugin_entry_fn)(const ral_host*);
/* The type of ral_plugin_error. */
typedef const char* (*ral_plugin_error_fn)(void);

/* ---- The minimal form -------------------------------------------------------------------------- *
 * A library without ral_plugin_entry loads as well when it exports, for its vendor folder `<vendor>`,
 *   int   <vendor>_get_device_info(int device, ral_device_info* out);   // non-zero: no such device
 *   void* <vendor>_malloc(size_t bytes, int device);                    // NULL: out of memory
 *   void  <vendor>_free(void* pointer, int device);
 *   const char* <vendor>_get_kernel_manifest(void);                     // JSON text
 * Its memory must be host-visible; it has one stream and no kernels of its own until it takes the
 * full form. */

#ifdef __cplusplus
}
#endif
#endif /* RAL_PLUGIN_H */
