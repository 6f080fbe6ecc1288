// reduction.cl - reductions over the "reduced" dimensions for each element of the "kept" ones. The plugin
// defines OP_<symbol>, IN_TYPE, OUT_TYPE and FORM (0 value, 1 value and index, 2 index, 3 variance).
// Layout `kept` has the operands input, output, indices.

// Elements that one work-item reduces by themselves before joining them to its total, and how many of
// those go one after the other into the same number: short chains of additions lose fewer digits.
#define BLOCK 2048
#define CHAIN 128

// Dimensions of one operand.
typedef struct {
  long rank;
  long shape[MAX_RANK];
  long stride[MAX_RANK];
} dims_t;

#if T_FLOAT
#define LOWEST ((T)(-INFINITY))
#define HIGHEST ((T)(INFINITY))
#elif T_BYTES == 8
#define LOWEST LONG_MIN
#define HIGHEST LONG_MAX
#else
#define LOWEST INT_MIN
#define HIGHEST INT_MAX
#endif

// START, the value of an empty range; STEP(V, a, x), one more value x for the lanes a of type V (T or
// TV); JOINED(V, a, b), two partial results; RESULT(a, n), the end result over n elements.
#define MAP(V, x) (x)
#define RESULT(a, n) (a)
#if defined(OP_sum) || defined(OP_sum_all) || defined(OP_mean) || defined(OP_mean_all)
#define START ((T)0)
#define STEP(V, a, x) ((a) + (x))
#elif defined(OP_prod) || defined(OP_prod_all)
#define START ((T)1)
#define STEP(V, a, x) ((a) * (x))
#elif defined(OP_amax) || defined(OP_max_all)
#define START LOWEST
#define STEP(V, a, x) (((x) > (a)) | ((x) != (x)) ? (x) : (a))
#elif defined(OP_amin) || defined(OP_min_all)
#define START HIGHEST
#define STEP(V, a, x) (((x) < (a)) | ((x) != (x)) ? (x) : (a))
#elif defined(OP_any) || defined(OP_any_all)
#define START ((T)0)
#define STEP(V, a, x) ((x) != (V)(0) ? (V)(1) : (a))
#elif defined(OP_all) || defined(OP_all_all)
#define START ((T)1)
#define STEP(V, a, x) ((x) == (V)(0) ? (V)(0) : (a))
#elif defined(OP_var) || defined(OP_std)
#define START ((T)0)
#define STEP(V, a, x) ((a) + (x))
#undef MAP
#define MAP(V, x) (squares ? ((x) - (V)(shift)) * ((x) - (V)(shift)) : (x))
#endif
#if defined(OP_mean) || defined(OP_mean_all)
#undef RESULT
#define RESULT(a, n) ((a) / (T)(n))
#endif

// Place of the row-major index `i` over `dims`.
static inline long place_of(const dims_t* dims, long i) {
  long place = 0;
  for (int d = (int)dims->rank - 1; d >= 0; --d) {
    place += (i % dims->shape[d]) * dims->stride[d];
    i /= dims->shape[d];
  }
  return place;
}

static inline long kept_place(const layout_t* kept, int operand, long i) {
  long place = 0;
  for (int d = (int)kept->rank - 1; d >= 0; --d) {
    place += (i % kept->shape[d]) * kept->stride[operand][d];
    i /= kept->shape[d];
  }
  return place;
}

#if FORM == 0 || FORM == 3
static inline T join_lanes(TV a) {
  T values[LANES], total = START;
  VSTORE(a, 0, values);
  for (int lane = 0; lane < LANES; ++lane) total = STEP(T, total, values[lane]);
  return total;
}

// `count` elements from `place` on, `stride` apart.
static inline T reduce_line(const __global char* in, long place, long count, long stride, T shift, int squares) {
  T total = START;
  long i = 0;
  if (stride == 1 && count >= LANES) {
    TV lanes = (TV)(START);
    for (; i + LANES <= count; i += LANES) {
      const TV x = LOADV(IN_TYPE, in, place + i);
      lanes = STEP(TV, lanes, MAP(TV, x));
    }
    total = join_lanes(lanes);
  }
  while (i < count) {
    const long end = min(i + CHAIN, count);
    T part = START;
    for (; i < end; ++i) {
      const T x = (T)LOAD(IN_TYPE, in, place + i * stride);
      part = STEP(T, part, MAP(T, x));
    }
    total = STEP(T, total, part);
  }
  return total;
}

// Blocks [from, to) of the range of the result at `place`; each line of `inner` elements has `lines` blocks.
static inline T reduce_blocks(const __global char* in, long place, long from, long to, long lines, long inner, long stride,
                              const dims_t* outer, T shift, int squares) {
  T total = START;
  for (long b = from; b < to; ++b) {
    const long begin = (b % lines) * BLOCK;
    const long at = place + place_of(outer, b / lines) + begin * stride;
    const T part = reduce_line(in, at, min((long)BLOCK, inner - begin), stride, shift, squares);
    total = STEP(T, total, part);
  }
  return total;
}
#endif

#if FORM == 0
// A result, or with several splits a partial one in row `split` of the scratch memory.
#define REDUCE_KERNEL(name, line_stride)                                                                             \
  __kernel void name(const __global char* in, ulong in_offset, __global char* out, ulong out_offset, long results,   \
                     long splits, long items, long inner, long stride, layout_t kept, dims_t outer) {                \
    const long piece = get_global_id(0);                                                                             \
    if (piece >= results * splits) return;                                                                           \
    const long result = piece / splits, split = piece % splits;                                                      \
    const long lines = (inner + BLOCK - 1) / BLOCK;                                                                  \
    const long blocks = inner == 0 ? 0 : items / inner * lines;                                                      \
    const T total = reduce_blocks(in + in_offset, kept_place(&kept, 0, result), split * blocks / splits,             \
                                  (split + 1) * blocks / splits, lines, inner, line_stride, &outer, (T)0, 0);        \
    if (splits > 1)                                                                                                  \
      ((__global T*)(out + out_offset))[split * results + result] = total;                                           \
    else                                                                                                             \
      STORE(OUT_TYPE, out + out_offset, kept_place(&kept, 1, result), RESULT(total, items));                         \
  }

#ifdef KERNEL_reduce_rows
REDUCE_KERNEL(reduce_rows, 1)
#endif
#ifdef KERNEL_reduce_strided
REDUCE_KERNEL(reduce_strided, stride)
#endif

#ifdef KERNEL_reduce_columns
#define WIDTH (LANES * VECTORS)
// WIDTH neighbouring results at a time, for a dense innermost kept dimension of at least that many. The
// last group of a row begins early enough to be whole; elements computed twice come out the same.
__kernel void reduce_columns(const __global char* in, ulong in_offset, __global char* out, ulong out_offset, long results,
                             long splits, long items, long inner, long stride, layout_t kept, dims_t outer) {
  if (results == 0) return;
  const int last = (int)kept.rank - 1;
  const long width = kept.shape[last];
  const long groups = (width + WIDTH - 1) / WIDTH;
  const long piece = get_global_id(0);
  if (piece >= results / width * groups * splits) return;
  const long split = piece % splits, group = piece / splits % groups;
  const long result = piece / splits / groups * width + min(group * WIDTH, width - WIDTH);
  const long lines = (inner + BLOCK - 1) / BLOCK;
  const long blocks = inner == 0 ? 0 : items / inner * lines;
  const long place = kept_place(&kept, 0, result);
  TV total[VECTORS], lanes[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) total[v] = (TV)(START);
  for (long b = split * blocks / splits; b < (split + 1) * blocks / splits; ++b) {
    const long begin = (b % lines) * BLOCK;
    const long count = min((long)BLOCK, inner - begin);
    const long at = place + place_of(&outer, b / lines) + begin * stride;
    for (long i = 0; i < count;) {
      const long end = min(i + CHAIN, count);
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) lanes[v] = (TV)(START);
      for (; i < end; ++i) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
          const TV x = LOADV(IN_TYPE, in + in_offset, at + i * stride + LANES * v);
          lanes[v] = STEP(TV, lanes[v], x);
        }
      }
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) total[v] = STEP(TV, total[v], lanes[v]);
    }
  }
  const long target = kept_place(&kept, 1, result);
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    if (splits > 1) {
      VSTORE(total[v], 0, (__global T*)(out + out_offset) + split * results + result + LANES * v);
      continue;
    }
    T values[LANES];
    VSTORE(total[v], 0, values);
    for (int lane = 0; lane < LANES; ++lane)
      STORE(OUT_TYPE, out + out_offset, target + (LANES * v + lane) * kept.stride[1][last], RESULT(values[lane], items));
  }
}
#endif

#ifdef KERNEL_reduce_finish
__kernel void reduce_finish(const __global char* scratch, ulong scratch_offset, __global char* out, ulong out_offset,
                            long results, long splits, long items, layout_t kept) {
  const long result = get_global_id(0);
  if (result >= results) return;
  T total = START;
  for (long split = 0; split < splits; ++split) {
    const T part = ((const __global T*)(scratch + scratch_offset))[split * results + result];
    total = STEP(T, total, part);
  }
  STORE(OUT_TYPE, out + out_offset, kept_place(&kept, 1, result), RESULT(total, items));
}
#endif
#endif

#if FORM == 3
__kernel void reduce_variance(const __global char* in, ulong in_offset, __global char* out, ulong out_offset, T correction,
                              long results, long items, long inner, long stride, layout_t kept, dims_t outer) {
  const long result = get_global_id(0);
  if (result >= results) return;
  const long lines = (inner + BLOCK - 1) / BLOCK;
  const long blocks = inner == 0 ? 0 : items / inner * lines;
  const long place = kept_place(&kept, 0, result);
  const T mean = reduce_blocks(in + in_offset, place, 0, blocks, lines, inner, stride, &outer, (T)0, 0) / (T)items;
  const T squares = reduce_blocks(in + in_offset, place, 0, blocks, lines, inner, stride, &outer, mean, 1);
  const T freedom = (T)items - correction;
  T value = squares / (freedom > 0 ? freedom : (T)0);
#ifdef OP_std
  value = sqrt(value);
#endif
  STORE(OUT_TYPE, out + out_offset, kept_place(&kept, 1, result), value);
}
#endif

#if FORM == 1 || FORM == 2
#if defined(OP_max) || defined(OP_argmax)
#define BETTER(x, best) ((x) > (best))
#else
#define BETTER(x, best) ((x) < (best))
#endif
// LANES lanes along a dense line: the extremum first, then the first place that has it.
static inline long find_in_line(const __global char* in, long place, long items, T* value) {
  TV lanes = LOADV(IN_TYPE, in, place);
  long i = LANES;
  for (; i + LANES <= items; i += LANES) {
    const TV x = LOADV(IN_TYPE, in, place + i);
    lanes = BETTER(x, lanes) | (x != x) ? x : lanes;
  }
  T parts[LANES];
  VSTORE(lanes, 0, parts);
  T best = parts[0];
  for (int lane = 1; lane < LANES; ++lane) best = BETTER(parts[lane], best) | (parts[lane] != parts[lane]) ? parts[lane] : best;
  for (; i < items; ++i) {
    const T x = (T)LOAD(IN_TYPE, in, place + i);
    best = BETTER(x, best) | (x != x) ? x : best;
  }
  *value = best;
  const int lost = best != best;
  for (i = 0; i + LANES <= items; i += LANES) {
    const TV x = LOADV(IN_TYPE, in, place + i);
    if (any(lost ? x != x : x == (TV)(best))) break;
  }
  for (; i < items - 1; ++i) {
    const T x = (T)LOAD(IN_TYPE, in, place + i);
    if (lost ? x != x : x == best) break;
  }
  return i;
}

// The first of equal elements wins, and the first NaN over all others.
__kernel void reduce_index(const __global char* in, ulong in_offset, __global char* out, ulong out_offset,
#if FORM == 1
                           __global char* indices, ulong indices_offset,
#endif
                           long results, long items, layout_t kept, dims_t reduced) {
  const long result = get_global_id(0);
  if (result >= results) return;
  const long place = kept_place(&kept, 0, result);
  const long step = reduced.rank == 1 ? reduced.stride[0] : 0;
  T best = (T)LOAD(IN_TYPE, in + in_offset, place);
  long index = 0;
  if (step == 1 && items >= LANES) {
    index = find_in_line(in + in_offset, place, items, &best);
  } else {
    for (long i = 1; i < items; ++i) {
      const T x = (T)LOAD(IN_TYPE, in + in_offset, place + (reduced.rank == 1 ? i * step : place_of(&reduced, i)));
      const int wins = (BETTER(x, best) | (x != x)) & (best == best);
      best = wins ? x : best;
      index = wins ? i : index;
    }
  }
#if FORM == 1
  STORE(OUT_TYPE, out + out_offset, kept_place(&kept, 1, result), best);
  ((__global long*)(indices + indices_offset))[kept_place(&kept, 2, result)] = index;
#else
  ((__global long*)(out + out_offset))[kept_place(&kept, 1, result)] = index;
#endif
}
#endif
