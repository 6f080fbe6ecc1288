// softmax.cl - softmax, log-softmax and their backward forms; one work-item computes one row along the
// dimension. The plugin defines OP_<symbol>, OUT_TYPE, A_TYPE and, backward, B_TYPE. Operands: output, a
// (the input; backward the gradient), b (backward: the forward's output).
// Softmax is stable: exp(x - max) / sum; each row is read from the cache after its first pass.

#if defined(OP_softmax_backward) || defined(OP_log_softmax_backward)
#define BACKWARD 1
#else
#define BACKWARD 0
#endif

#if T_F32
#define M_EXP(x) exp_1(x)
#define M_EXP16(x) exp_16(x)
#else
#define M_EXP(x) exp(x)
#define M_EXP16(x) exp(x)
#endif

static inline T add_lanes(T16 a) {
  const JOIN(T, 8) b = a.lo + a.hi;
  const JOIN(T, 4) c = b.lo + b.hi;
  const JOIN(T, 2) d = c.lo + c.hi;
  return d.lo + d.hi;
}

static inline T max_lanes(T16 a) {
  const JOIN(T, 8) b = fmax(a.lo, a.hi);
  const JOIN(T, 4) c = fmax(b.lo, b.hi);
  const JOIN(T, 2) d = fmax(c.lo, c.hi);
  return fmax(d.lo, d.hi);
}

static inline long row_place(const layout_t* kept, int operand, long i) {
  long place = 0;
  for (int d = (int)kept->rank - 1; d >= 0; --d) {
    place += (i % kept->shape[d]) * kept->stride[operand][d];
    i /= kept->shape[d];
  }
  return place;
}

// Sixteen results, one by one where the type is narrower than T.
static inline void store_lanes(__global char* p, long i, T16 v) {
  T values[16];
  vstore16(v, 0, values);
  for (int lane = 0; lane < 16; ++lane) STORE(OUT_TYPE, p, i + lane, values[lane]);
}

#define LOADED_A(i) ((T)LOAD(A_TYPE, a + a_offset, a_at + (i)))
#define LOADED_B(i) ((T)LOAD(B_TYPE, b + b_offset, b_at + (i)))
#define LOADED_A16(i) LOAD16(A_TYPE, a + a_offset, a_at + (i))
#define LOADED_B16(i) LOAD16(B_TYPE, b + b_offset, b_at + (i))

#if !BACKWARD
#ifdef OP_softmax
#define VALUE(x) (M_EXP((x) - peak) * factor)
#define VALUE16(x) (M_EXP16((x) - (T16)(peak)) * (T16)(factor))
#else
#define VALUE(x) ((x) - peak - factor)
#define VALUE16(x) ((x) - (T16)(peak) - (T16)(factor))
#endif

static inline T factor_of(T sum) {
#ifdef OP_softmax
  return (T)1 / sum;
#else
  return log(sum);
#endif
}

#ifdef KERNEL_softmax_rows
__kernel void softmax_rows(__global char* out, ulong out_offset, const __global char* a, ulong a_offset, long rows, long size,
                           long out_stride, long a_stride, layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row_place(&kept, 0, row), a_at = row_place(&kept, 1, row);
  const long whole = size & ~15L;
  T16 peaks = (T16)(-INFINITY);
  for (long i = 0; i < whole; i += 16) {
    const T16 x = LOADED_A16(i);
    peaks = x > peaks ? x : peaks;
  }
  T peak = max_lanes(peaks);
  for (long i = whole; i < size; ++i) peak = fmax(peak, LOADED_A(i));
  T16 sums = (T16)((T)0);
  for (long i = 0; i < whole; i += 16) sums += M_EXP16(LOADED_A16(i) - (T16)(peak));
  T sum = add_lanes(sums);
  for (long i = whole; i < size; ++i) sum += M_EXP(LOADED_A(i) - peak);
  const T factor = factor_of(sum);
  for (long i = 0; i < whole; i += 16) store_lanes(out + out_offset, at + i, VALUE16(LOADED_A16(i)));
  for (long i = whole; i < size; ++i) STORE(OUT_TYPE, out + out_offset, at + i, VALUE(LOADED_A(i)));
}
#endif

#ifdef KERNEL_softmax_strided
__kernel void softmax_strided(__global char* out, ulong out_offset, const __global char* a, ulong a_offset, long rows, long size,
                              long out_stride, long a_stride, layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row_place(&kept, 0, row), a_at = row_place(&kept, 1, row);
  T peak = (T)(-INFINITY), sum = 0;
  for (long i = 0; i < size; ++i) peak = fmax(peak, LOADED_A(i * a_stride));
  for (long i = 0; i < size; ++i) sum += M_EXP(LOADED_A(i * a_stride) - peak);
  const T factor = factor_of(sum);
  for (long i = 0; i < size; ++i) STORE(OUT_TYPE, out + out_offset, at + i * out_stride, VALUE(LOADED_A(i * a_stride)));
}
#endif
#else
#ifdef OP_softmax_backward
#define TERM(g, y) ((g) * (y))
#define VALUE(g, y) (((g) - sum) * (y))
#define VALUE16(g, y) (((g) - (T16)(sum)) * (y))
#else
#define TERM(g, y) (g)
#define VALUE(g, y) ((g) - M_EXP(y) * sum)
#define VALUE16(g, y) ((g) - M_EXP16(y) * (T16)(sum))
#endif

#ifdef KERNEL_softmax_rows
__kernel void softmax_rows(__global char* out, ulong out_offset, const __global char* a, ulong a_offset, const __global char* b,
                           ulong b_offset, long rows, long size, long out_stride, long a_stride, long b_stride, layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row_place(&kept, 0, row), a_at = row_place(&kept, 1, row), b_at = row_place(&kept, 2, row);
  const long whole = size & ~15L;
  T16 sums = (T16)((T)0);
  for (long i = 0; i < whole; i += 16) sums += TERM(LOADED_A16(i), LOADED_B16(i));
  T sum = add_lanes(sums);
  for (long i = whole; i < size; ++i) sum += TERM(LOADED_A(i), LOADED_B(i));
  for (long i = 0; i < whole; i += 16) store_lanes(out + out_offset, at + i, VALUE16(LOADED_A16(i), LOADED_B16(i)));
  for (long i = whole; i < size; ++i) STORE(OUT_TYPE, out + out_offset, at + i, VALUE(LOADED_A(i), LOADED_B(i)));
}
#endif

#ifdef KERNEL_softmax_strided
__kernel void softmax_strided(__global char* out, ulong out_offset, const __global char* a, ulong a_offset, const __global char* b,
                              ulong b_offset, long rows, long size, long out_stride, long a_stride, long b_stride,
                              layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row_place(&kept, 0, row), a_at = row_place(&kept, 1, row), b_at = row_place(&kept, 2, row);
  T sum = 0;
  for (long i = 0; i < size; ++i) sum += TERM(LOADED_A(i * a_stride), LOADED_B(i * b_stride));
  for (long i = 0; i < size; ++i)
    STORE(OUT_TYPE, out + out_offset, at + i * out_stride, VALUE(LOADED_A(i * a_stride), LOADED_B(i * b_stride)));
}
#endif
#endif
