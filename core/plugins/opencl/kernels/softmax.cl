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
#define M_EXPV(x) exp_v(x)
#else
#define M_EXP(x) exp(x)
#define M_EXPV(x) exp(x)
#endif

static inline T add_lanes(TV a) {
  T values[LANES], total = 0;
  VSTORE(a, 0, values);
  for (int lane = 0; lane < LANES; ++lane) total += values[lane];
  return total;
}

static inline T max_lanes(TV a) {
  T values[LANES], peak = (T)(-INFINITY);
  VSTORE(a, 0, values);
  for (int lane = 0; lane < LANES; ++lane) peak = fmax(peak, values[lane]);
  return peak;
}

static inline long row_place(const layout_t* kept, int operand, long i) {
  long place = 0;
  for (int d = (int)kept->rank - 1; d >= 0; --d) {
    place += (i % kept->shape[d]) * kept->stride[operand][d];
    i /= kept->shape[d];
  }
  return place;
}

// LANES results, one by one where the type is narrower than T.
static inline void store_lanes(__global char* p, long i, TV v) {
  T values[LANES];
  VSTORE(v, 0, values);
  for (int lane = 0; lane < LANES; ++lane) STORE(OUT_TYPE, p, i + lane, values[lane]);
}

#define LOADED_A(i) ((T)LOAD(A_TYPE, a + a_offset, a_at + (i)))
#define LOADED_B(i) ((T)LOAD(B_TYPE, b + b_offset, b_at + (i)))
#define LOADED_AV(i) LOADV(A_TYPE, a + a_offset, a_at + (i))
#define LOADED_BV(i) LOADV(B_TYPE, b + b_offset, b_at + (i))

#if !BACKWARD
#ifdef OP_softmax
#define VALUE(x) (M_EXP((x) - peak) * factor)
#define VALUEV(x) (M_EXPV((x) - (TV)(peak)) * (TV)(factor))
#else
#define VALUE(x) ((x) - peak - factor)
#define VALUEV(x) ((x) - (TV)(peak) - (TV)(factor))
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
  const long whole = size / LANES * LANES;
  TV peaks = (TV)(-INFINITY);
  for (long i = 0; i < whole; i += LANES) {
    const TV x = LOADED_AV(i);
    peaks = x > peaks ? x : peaks;
  }
  T peak = max_lanes(peaks);
  for (long i = whole; i < size; ++i) peak = fmax(peak, LOADED_A(i));
  TV sums = (TV)((T)0);
  for (long i = 0; i < whole; i += LANES) sums += M_EXPV(LOADED_AV(i) - (TV)(peak));
  T sum = add_lanes(sums);
  for (long i = whole; i < size; ++i) sum += M_EXP(LOADED_A(i) - peak);
  const T factor = factor_of(sum);
  for (long i = 0; i < whole; i += LANES) store_lanes(out + out_offset, at + i, VALUEV(LOADED_AV(i)));
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
#define VALUEV(g, y) (((g) - (TV)(sum)) * (y))
#else
#define TERM(g, y) (g)
#define VALUE(g, y) ((g) - M_EXP(y) * sum)
#define VALUEV(g, y) ((g) - M_EXPV(y) * (TV)(sum))
#endif

#ifdef KERNEL_softmax_rows
__kernel void softmax_rows(__global char* out, ulong out_offset, const __global char* a, ulong a_offset, const __global char* b,
                           ulong b_offset, long rows, long size, long out_stride, long a_stride, long b_stride, layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row_place(&kept, 0, row), a_at = row_place(&kept, 1, row), b_at = row_place(&kept, 2, row);
  const long whole = size / LANES * LANES;
  TV sums = (TV)((T)0);
  for (long i = 0; i < whole; i += LANES) sums += TERM(LOADED_AV(i), LOADED_BV(i));
  T sum = add_lanes(sums);
  for (long i = whole; i < size; ++i) sum += TERM(LOADED_A(i), LOADED_B(i));
  for (long i = 0; i < whole; i += LANES) store_lanes(out + out_offset, at + i, VALUEV(LOADED_AV(i), LOADED_BV(i)));
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
