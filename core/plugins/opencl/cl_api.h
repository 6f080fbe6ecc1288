// cl_api.h - the part of the OpenCL C API that this plugin uses, declared here so that building needs no
// OpenCL SDK. Names and numbers are those of the Khronos specification. Every function is called through
// an `Api` table, filled at run time from libOpenCL.so.1 (by name) or straight from one driver (by its
// place in the dispatch table that the cl_khr_icd extension lays down).
#pragma once

#include <cstddef>
#include <cstdint>

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;

using cl_platform_id = struct cl_platform_object*;
using cl_device_id = struct cl_device_object*;
using cl_context = struct cl_context_object*;
using cl_command_queue = struct cl_queue_object*;
using cl_mem = struct cl_mem_object*;
using cl_program = struct cl_program_object*;
using cl_kernel = struct cl_kernel_object*;
using cl_event = struct cl_event_object*;

// Return codes that the plugin tells apart.
constexpr cl_int CL_SUCCESS = 0;
constexpr cl_int CL_DEVICE_NOT_AVAILABLE = -2;
constexpr cl_int CL_MEM_OBJECT_ALLOCATION_FAILURE = -4;
constexpr cl_int CL_OUT_OF_RESOURCES = -5;
constexpr cl_int CL_OUT_OF_HOST_MEMORY = -6;
constexpr cl_int CL_BUILD_PROGRAM_FAILURE = -11;
constexpr cl_int CL_INVALID_VALUE = -30;
constexpr cl_int CL_INVALID_MEM_OBJECT = -38;
constexpr cl_int CL_INVALID_BUFFER_SIZE = -61;
constexpr cl_int CL_PLATFORM_NOT_FOUND_KHR = -1001;

constexpr cl_bool CL_FALSE = 0;
constexpr cl_bool CL_TRUE = 1;

constexpr cl_uint CL_PLATFORM_VERSION = 0x0901;
constexpr cl_uint CL_PLATFORM_NAME = 0x0902;
constexpr cl_uint CL_PLATFORM_VENDOR = 0x0903;

constexpr cl_bitfield CL_DEVICE_TYPE_CPU = 1u << 1;
constexpr cl_bitfield CL_DEVICE_TYPE_GPU = 1u << 2;
constexpr cl_bitfield CL_DEVICE_TYPE_ALL = 0xFFFFFFFFu;
constexpr cl_uint CL_DEVICE_TYPE = 0x1000;
constexpr cl_uint CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002;
constexpr cl_uint CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004;
constexpr cl_uint CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010;
constexpr cl_uint CL_DEVICE_SINGLE_FP_CONFIG = 0x101B;
constexpr cl_uint CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F;
constexpr cl_uint CL_DEVICE_AVAILABLE = 0x1027;
constexpr cl_uint CL_DEVICE_COMPILER_AVAILABLE = 0x1028;
constexpr cl_uint CL_DEVICE_NAME = 0x102B;
constexpr cl_uint CL_DRIVER_VERSION = 0x102D;
constexpr cl_uint CL_DEVICE_VERSION = 0x102F;
constexpr cl_uint CL_DEVICE_EXTENSIONS = 0x1030;
constexpr cl_uint CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A;
constexpr cl_uint CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035;
constexpr cl_uint CL_DEVICE_SVM_CAPABILITIES = 0x1053;
constexpr cl_uint CL_DEVICE_UUID_KHR = 0x106A;
constexpr intptr_t CL_DEVICE_PARTITION_EQUALLY = 0x1086;
constexpr cl_bitfield CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1u << 7;
constexpr cl_bitfield CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 1u << 1;
constexpr cl_bitfield CL_DEVICE_SVM_FINE_GRAIN_SYSTEM = 1u << 2;

constexpr cl_ulong CL_QUEUE_PROPERTIES = 0x1093;
constexpr cl_ulong CL_QUEUE_PRIORITY_KHR = 0x1096;
constexpr cl_ulong CL_QUEUE_PRIORITY_HIGH_KHR = 1u << 0;
constexpr cl_ulong CL_QUEUE_PRIORITY_LOW_KHR = 1u << 2;
constexpr cl_bitfield CL_QUEUE_PROFILING_ENABLE = 1u << 1;

constexpr cl_bitfield CL_MEM_READ_WRITE = 1u << 0;
constexpr cl_bitfield CL_MEM_USE_HOST_PTR = 1u << 3;
constexpr cl_bitfield CL_MEM_SVM_FINE_GRAIN_BUFFER = 1u << 10;

constexpr cl_uint CL_PROGRAM_BINARY_SIZES = 0x1165;
constexpr cl_uint CL_PROGRAM_BINARIES = 0x1166;
constexpr cl_uint CL_PROGRAM_BUILD_LOG = 0x1183;

constexpr cl_uint CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3;
constexpr cl_int CL_COMPLETE = 0;
constexpr cl_uint CL_PROFILING_COMMAND_QUEUED = 0x1280;
constexpr cl_uint CL_PROFILING_COMMAND_START = 0x1282;
constexpr cl_uint CL_PROFILING_COMMAND_END = 0x1283;

using cl_event_callback = void (*)(cl_event, cl_int, void*);
using cl_context_callback = void (*)(const char*, const void*, size_t, void*);
using cl_program_callback = void (*)(cl_program, void*);

// X(place in the ICD dispatch table, name without "cl", result, parameters)
#define RAL_CL_FUNCTIONS(X)                                                                                        \
  X(0, GetPlatformIDs, cl_int, (cl_uint, cl_platform_id*, cl_uint*))                                               \
  X(1, GetPlatformInfo, cl_int, (cl_platform_id, cl_uint, size_t, void*, size_t*))                                 \
  X(2, GetDeviceIDs, cl_int, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*))                      \
  X(3, GetDeviceInfo, cl_int, (cl_device_id, cl_uint, size_t, void*, size_t*))                                     \
  X(4, CreateContext, cl_context,                                                                                  \
    (const intptr_t*, cl_uint, const cl_device_id*, cl_context_callback, void*, cl_int*))                          \
  X(9, CreateCommandQueue, cl_command_queue, (cl_context, cl_device_id, cl_bitfield, cl_int*))                     \
  X(11, ReleaseCommandQueue, cl_int, (cl_command_queue))                                                           \
  X(14, CreateBuffer, cl_mem, (cl_context, cl_bitfield, size_t, void*, cl_int*))                                   \
  X(18, ReleaseMemObject, cl_int, (cl_mem))                                                                        \
  X(26, CreateProgramWithSource, cl_program, (cl_context, cl_uint, const char**, const size_t*, cl_int*))          \
  X(27, CreateProgramWithBinary, cl_program,                                                                       \
    (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*, cl_int*))            \
  X(29, ReleaseProgram, cl_int, (cl_program))                                                                      \
  X(30, BuildProgram, cl_int, (cl_program, cl_uint, const cl_device_id*, const char*, cl_program_callback, void*)) \
  X(32, GetProgramInfo, cl_int, (cl_program, cl_uint, size_t, void*, size_t*))                                     \
  X(33, GetProgramBuildInfo, cl_int, (cl_program, cl_device_id, cl_uint, size_t, void*, size_t*))                  \
  X(34, CreateKernel, cl_kernel, (cl_program, const char*, cl_int*))                                               \
  X(37, ReleaseKernel, cl_int, (cl_kernel))                                                                        \
  X(38, SetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void*))                                           \
  X(41, WaitForEvents, cl_int, (cl_uint, const cl_event*))                                                         \
  X(42, GetEventInfo, cl_int, (cl_event, cl_uint, size_t, void*, size_t*))                                         \
  X(43, RetainEvent, cl_int, (cl_event))                                                                           \
  X(44, ReleaseEvent, cl_int, (cl_event))                                                                          \
  X(45, GetEventProfilingInfo, cl_int, (cl_event, cl_uint, size_t, void*, size_t*))                                \
  X(46, Flush, cl_int, (cl_command_queue))                                                                         \
  X(47, Finish, cl_int, (cl_command_queue))                                                                        \
  X(48, EnqueueReadBuffer, cl_int,                                                                                 \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))               \
  X(49, EnqueueWriteBuffer, cl_int,                                                                                \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*))         \
  X(50, EnqueueCopyBuffer, cl_int,                                                                                 \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))               \
  X(59, EnqueueNDRangeKernel, cl_int,                                                                              \
    (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*,  \
     cl_event*))                                                                                                   \
  X(81, SetEventCallback, cl_int, (cl_event, cl_int, cl_event_callback, void*))                                    \
  X(84, CreateUserEvent, cl_event, (cl_context, cl_int*))                                                          \
  X(85, SetUserEventStatus, cl_int, (cl_event, cl_int))                                                            \
  X(93, CreateSubDevices, cl_int, (cl_device_id, const intptr_t*, cl_uint, cl_device_id*, cl_uint*))               \
  X(105, EnqueueMarkerWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event*, cl_event*))               \
  X(106, EnqueueBarrierWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event*, cl_event*))              \
  X(123, CreateCommandQueueWithProperties, cl_command_queue, (cl_context, cl_device_id, const cl_ulong*, cl_int*)) \
  X(126, SVMAlloc, void*, (cl_context, cl_bitfield, size_t, cl_uint))                                              \
  X(127, SVMFree, void, (cl_context, void*))                                                                       \
  X(129, EnqueueSVMMemcpy, cl_int,                                                                                 \
    (cl_command_queue, cl_bool, void*, const void*, size_t, cl_uint, const cl_event*, cl_event*))                  \
  X(134, SetKernelArgSVMPointer, cl_int, (cl_kernel, cl_uint, const void*))                                        \
  X(140, GetDeviceAndHostTimer, cl_int, (cl_device_id, cl_ulong*, cl_ulong*))

namespace ralcl {

// The functions of one loader or driver. The first mandatory ones are never null; those newer than
// OpenCL 1.2 (SVM, timers, queue properties) are null where the library is older.
struct Api {
#define X(place, name, result, parameters) result(*name) parameters = nullptr;
  RAL_CL_FUNCTIONS(X)
#undef X
};

// Places from here on were added after OpenCL 1.2 and may be absent.
constexpr int kFirstOptionalPlace = 123;

}  // namespace ralcl
