// common.cl - loads, stores and types that every kernel file builds on. The plugin puts these definitions
// in front of it: T (compute type), TV (LANES lanes of it), T_FLOAT, T_F32, T_F64, T_BYTES, HAS_FP64,
// GROUP (work-items in a group of data-parallel kernels), and KERNEL_<name> for the one kernel that the
// program is built for: drivers compile whole programs, so each has one kernel.
//
// Kernels get each tensor as `__global char* base, ulong offset` (bytes). Called with every number 0, a
// kernel must touch nothing: that is how a build is completed before the first real launch.

#ifdef HAS_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#define MAX_RANK 8
#define MAX_OPERANDS 5

// Shape and strides (in elements) of several operands over one index space.
typedef struct {
  long rank;
  long shape[MAX_RANK];
  long stride[MAX_OPERANDS][MAX_RANK];
} layout_t;

// Element i of a tensor of a named type, e.g. LOAD(bf16, p, i); bf16 and f16 come as float.
#define LOAD(type, p, i) JOIN(load_, type)(p, i)
#define STORE(type, p, i, v) JOIN(store_, type)(p, i, v)

#define PLAIN_LOAD(name, type) \
  static inline type JOIN(load_, name)(const __global char* p, long i) { return ((const __global type*)p)[i]; }
PLAIN_LOAD(bool, uchar)
PLAIN_LOAD(u8, uchar)
PLAIN_LOAD(i8, char)
PLAIN_LOAD(u16, ushort)
PLAIN_LOAD(i16, short)
PLAIN_LOAD(u32, uint)
PLAIN_LOAD(i32, int)
PLAIN_LOAD(u64, ulong)
PLAIN_LOAD(i64, long)
PLAIN_LOAD(f32, float)
#ifdef HAS_FP64
PLAIN_LOAD(f64, double)
#endif
static inline float load_f16(const __global char* p, long i) { return vload_half(i, (const __global half*)p); }
static inline float load_bf16(const __global char* p, long i) {
  return as_float((uint)((const __global ushort*)p)[i] << 16);
}

// Small integers are stored by way of long, so that values outside their range wrap.
#if T_FLOAT
#define WHOLE(v) ((long)(v))
#else
#define WHOLE(v) (v)
#endif

#define PLAIN_STORE(name, type, convert) \
  static inline void JOIN(store_, name)(__global char* p, long i, T v) { ((__global type*)p)[i] = (type)convert(v); }
PLAIN_STORE(u8, uchar, WHOLE)
PLAIN_STORE(i8, char, WHOLE)
PLAIN_STORE(u16, ushort, WHOLE)
PLAIN_STORE(i16, short, WHOLE)
PLAIN_STORE(u32, uint, WHOLE)
PLAIN_STORE(i32, int, WHOLE)
PLAIN_STORE(u64, ulong, )
PLAIN_STORE(i64, long, )
PLAIN_STORE(f32, float, )
#ifdef HAS_FP64
PLAIN_STORE(f64, double, )
#endif
static inline void store_bool(__global char* p, long i, T v) { ((__global uchar*)p)[i] = v != 0; }
static inline void store_f16(__global char* p, long i, T v) { vstore_half_rte((float)v, i, (__global half*)p); }
static inline void store_bf16(__global char* p, long i, T v) {
  const float value = (float)v;
  const uint bits = as_uint(value);
  const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  ((__global ushort*)p)[i] = (ushort)(value != value ? 0x7fc0u : rounded);
}

// LANES neighbouring elements from element i on, in the compute type. Types wider than T are gathered one
// by one, so that no vector is wider than TV.
#define VLOAD JOIN(vload, LANES)
#define VSTORE JOIN(vstore, LANES)
#define TO_TV JOIN(convert_, TV)
#define LOADV(type, p, i) JOIN(loadv_, type)(p, i)
#define NARROW_LOADV(name, type) \
  static inline TV JOIN(loadv_, name)(const __global char* p, long i) { return TO_TV(VLOAD(0, (const __global type*)p + i)); }
#define GATHER_LOADV(name)                                                        \
  static inline TV JOIN(loadv_, name)(const __global char* p, long i) {           \
    T values[LANES];                                                              \
    for (int lane = 0; lane < LANES; ++lane) values[lane] = (T)LOAD(name, p, i + lane); \
    return VLOAD(0, values);                                                      \
  }
NARROW_LOADV(bool, uchar)
NARROW_LOADV(u8, uchar)
NARROW_LOADV(i8, char)
NARROW_LOADV(i16, short)
NARROW_LOADV(i32, int)
NARROW_LOADV(f32, float)
#if T_BYTES == 8
NARROW_LOADV(i64, long)
#ifdef HAS_FP64
NARROW_LOADV(f64, double)
#endif
#else
GATHER_LOADV(i64)
#ifdef HAS_FP64
GATHER_LOADV(f64)
#endif
#endif
static inline TV loadv_f16(const __global char* p, long i) {
  return TO_TV(JOIN(vload_half, LANES)(0, (const __global half*)p + i));
}
static inline TV loadv_bf16(const __global char* p, long i) {
  return TO_TV(JOIN(as_float, LANES)(JOIN(convert_uint, LANES)(VLOAD(0, (const __global ushort*)p + i)) << 16));
}
