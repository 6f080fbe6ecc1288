// norm.cl - layer normalisation of dense rows, one work-item a row: mean, then the mean square distance
// from it (two passes lose no digits), then the scaled result. The plugin defines IN_TYPE, OUT_TYPE,
// STAT_TYPE and, where given, WEIGHT_TYPE and BIAS_TYPE.

static inline T add_lanes(T16 a) {
  const JOIN(T, 8) b = a.lo + a.hi;
  const JOIN(T, 4) c = b.lo + b.hi;
  const JOIN(T, 2) d = c.lo + c.hi;
  return d.lo + d.hi;
}

#ifdef WEIGHT_TYPE
#define WEIGHT_PARAMETER const __global char *weight, ulong weight_offset,
#define SCALED(x, i) ((x) * (T)LOAD(WEIGHT_TYPE, weight + weight_offset, i))
#define SCALED16(x, i) ((x) * LOAD16(WEIGHT_TYPE, weight + weight_offset, i))
#else
#define WEIGHT_PARAMETER
#define SCALED(x, i) (x)
#define SCALED16(x, i) (x)
#endif
#ifdef BIAS_TYPE
#define BIAS_PARAMETER const __global char *bias, ulong bias_offset,
#define SHIFTED(x, i) ((x) + (T)LOAD(BIAS_TYPE, bias + bias_offset, i))
#define SHIFTED16(x, i) ((x) + LOAD16(BIAS_TYPE, bias + bias_offset, i))
#else
#define BIAS_PARAMETER
#define SHIFTED(x, i) (x)
#define SHIFTED16(x, i) (x)
#endif

__kernel void layer_norm(const __global char* in, ulong in_offset, WEIGHT_PARAMETER BIAS_PARAMETER __global char* out,
                         ulong out_offset, __global char* mean_out, ulong mean_offset, __global char* rstd_out,
                         ulong rstd_offset, long rows, long size, T eps) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row * size, whole = size & ~15L;
  T16 lanes = (T16)((T)0);
  for (long i = 0; i < whole; i += 16) lanes += LOAD16(IN_TYPE, in + in_offset, at + i);
  T sum = add_lanes(lanes);
  for (long i = whole; i < size; ++i) sum += (T)LOAD(IN_TYPE, in + in_offset, at + i);
  const T mean = sum / (T)size;

  lanes = (T16)((T)0);
  for (long i = 0; i < whole; i += 16) {
    const T16 distance = LOAD16(IN_TYPE, in + in_offset, at + i) - (T16)(mean);
    lanes += distance * distance;
  }
  sum = add_lanes(lanes);
  for (long i = whole; i < size; ++i) {
    const T distance = (T)LOAD(IN_TYPE, in + in_offset, at + i) - mean;
    sum += distance * distance;
  }
  const T rstd = (T)1 / sqrt(sum / (T)size + eps);

  for (long i = 0; i < whole; i += 16) {
    const T16 normal = (LOAD16(IN_TYPE, in + in_offset, at + i) - (T16)(mean)) * (T16)(rstd);
    T values[16];
    vstore16(SHIFTED16(SCALED16(normal, i), i), 0, values);
    for (int lane = 0; lane < 16; ++lane) STORE(OUT_TYPE, out + out_offset, at + i + lane, values[lane]);
  }
  for (long i = whole; i < size; ++i) {
    const T normal = ((T)LOAD(IN_TYPE, in + in_offset, at + i) - mean) * rstd;
    STORE(OUT_TYPE, out + out_offset, at + i, SHIFTED(SCALED(normal, i), i));
  }
  STORE(STAT_TYPE, mean_out + mean_offset, row, mean);
  STORE(STAT_TYPE, rstd_out + rstd_offset, row, rstd);
}
