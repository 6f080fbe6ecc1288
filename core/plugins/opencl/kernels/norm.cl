// norm.cl - layer normalisation of dense rows, one work-item a row: mean, then the mean square distance
// from it (two passes lose no digits), then the scaled result. The plugin defines IN_TYPE, OUT_TYPE,
// STAT_TYPE and, where given, WEIGHT_TYPE and BIAS_TYPE.

static inline T add_lanes(TV a) {
  T values[LANES], total = 0;
  VSTORE(a, 0, values);
  for (int lane = 0; lane < LANES; ++lane) total += values[lane];
  return total;
}

#ifdef WEIGHT_TYPE
#define WEIGHT_PARAMETER const __global char *weight, ulong weight_offset,
#define SCALED(x, i) ((x) * (T)LOAD(WEIGHT_TYPE, weight + weight_offset, i))
#define SCALEDV(x, i) ((x) * LOADV(WEIGHT_TYPE, weight + weight_offset, i))
#else
#define WEIGHT_PARAMETER
#define SCALED(x, i) (x)
#define SCALEDV(x, i) (x)
#endif
#ifdef BIAS_TYPE
#define BIAS_PARAMETER const __global char *bias, ulong bias_offset,
#define SHIFTED(x, i) ((x) + (T)LOAD(BIAS_TYPE, bias + bias_offset, i))
#define SHIFTEDV(x, i) ((x) + LOADV(BIAS_TYPE, bias + bias_offset, i))
#else
#define BIAS_PARAMETER
#define SHIFTED(x, i) (x)
#define SHIFTEDV(x, i) (x)
#endif

__kernel void layer_norm(const __global char* in, ulong in_offset, WEIGHT_PARAMETER BIAS_PARAMETER __global char* out,
                         ulong out_offset, __global char* mean_out, ulong mean_offset, __global char* rstd_out,
                         ulong rstd_offset, long rows, long size, T eps) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long at = row * size, whole = size / LANES * LANES;
  TV lanes = (TV)((T)0);
  for (long i = 0; i < whole; i += LANES) lanes += LOADV(IN_TYPE, in + in_offset, at + i);
  T sum = add_lanes(lanes);
  for (long i = whole; i < size; ++i) sum += (T)LOAD(IN_TYPE, in + in_offset, at + i);
  const T mean = sum / (T)size;

  lanes = (TV)((T)0);
  for (long i = 0; i < whole; i += LANES) {
    const TV distance = LOADV(IN_TYPE, in + in_offset, at + i) - (TV)(mean);
    lanes += distance * distance;
  }
  sum = add_lanes(lanes);
  for (long i = whole; i < size; ++i) {
    const T distance = (T)LOAD(IN_TYPE, in + in_offset, at + i) - mean;
    sum += distance * distance;
  }
  const T rstd = (T)1 / sqrt(sum / (T)size + eps);

  for (long i = 0; i < whole; i += LANES) {
    const TV normal = (LOADV(IN_TYPE, in + in_offset, at + i) - (TV)(mean)) * (TV)(rstd);
    T values[LANES];
    VSTORE(SHIFTEDV(SCALEDV(normal, i), i), 0, values);
    for (int lane = 0; lane < LANES; ++lane) STORE(OUT_TYPE, out + out_offset, at + i + lane, values[lane]);
  }
  for (long i = whole; i < size; ++i) {
    const T normal = ((T)LOAD(IN_TYPE, in + in_offset, at + i) - mean) * rstd;
    STORE(OUT_TYPE, out + out_offset, at + i, SHIFTED(SCALED(normal, i), i));
  }
  STORE(STAT_TYPE, mean_out + mean_offset, row, mean);
  STORE(STAT_TYPE, rstd_out + rstd_offset, row, rstd);
}
