// matmul.cl - out[b, m, n] = alpha * sum over k of A[b, m, k] * B[b, k, n] + beta * D[b, m, n]. The plugin
// defines TYPE (of A, B and the output), TYPE_IS_T, ROWS and VECTORS (the register tile is ROWS x
// LANES * VECTORS) and, where D counts, ADDED_TYPE.
//
// Packed operands: A in panels of ROWS rows, element [panel][k][row]; B in panels of COLUMNS columns,
// element [panel][k][column]; both in T, padded with zeros.

#define COLUMNS (LANES * VECTORS)
#define PACK_DEPTH 256

// Element [b, r, c] of a matrix is at b * batch + r * row + c * column.
typedef struct {
  long batch, row, column;
} matrix_t;

typedef struct {
  long batch, m, n, k;
  matrix_t a, b, out, d;
} product_t;

#ifdef KERNEL_matmul_pack_a
__kernel void matmul_pack_a(const __global char* in, ulong in_offset, __global char* packed, ulong packed_offset, product_t p) {
  if (p.k == 0) return;
  const long panel = get_global_id(0), first = get_global_id(1) * PACK_DEPTH, batch = get_global_id(2);
  const long panels = (p.m + ROWS - 1) / ROWS;
  const long end = min(first + PACK_DEPTH, p.k);
  __global T* target = (__global T*)(packed + packed_offset) + (batch * panels + panel) * p.k * ROWS;
  for (int r = 0; r < ROWS; ++r) {
    const long row = panel * ROWS + r;
    const long place = batch * p.a.batch + row * p.a.row;
    for (long k = first; k < end; ++k)
      target[k * ROWS + r] = row < p.m ? (T)LOAD(TYPE, in + in_offset, place + k * p.a.column) : (T)0;
  }
}
#endif

#ifdef KERNEL_matmul_pack_b
__kernel void matmul_pack_b(const __global char* in, ulong in_offset, __global char* packed, ulong packed_offset, product_t p) {
  if (p.k == 0) return;
  const long panel = get_global_id(0), first = get_global_id(1) * PACK_DEPTH, batch = get_global_id(2);
  const long panels = (p.n + COLUMNS - 1) / COLUMNS;
  const long end = min(first + PACK_DEPTH, p.k);
  const long column = panel * COLUMNS;
  const long place = batch * p.b.batch + column * p.b.column;
  __global T* target = (__global T*)(packed + packed_offset) + (batch * panels + panel) * p.k * COLUMNS;
  if (column + COLUMNS <= p.n && p.b.column == 1) {
    for (long k = first; k < end; ++k)
      for (int v = 0; v < VECTORS; ++v)
        VSTORE(LOADV(TYPE, in + in_offset, place + k * p.b.row + LANES * v), 0, target + k * COLUMNS + LANES * v);
    return;
  }
  for (int c = 0; c < COLUMNS; ++c)
    for (long k = first; k < end; ++k)
      target[k * COLUMNS + c] = column + c < p.n ? (T)LOAD(TYPE, in + in_offset, place + k * p.b.row + c * p.b.column) : (T)0;
}
#endif

#ifdef ADDED_TYPE
#define ADDED_PARAMETER const __global char *added, ulong added_offset,
#define FINISHED(x, b, r, c)                                                                              \
  (alpha * (x) + beta * (T)LOAD(ADDED_TYPE, added + added_offset, (b) * p.d.batch + (r) * p.d.row + (c) * p.d.column))
#else
#define ADDED_PARAMETER
#define FINISHED(x, b, r, c) (alpha * (x))
#endif

#define OUT_PLACE(b, r, c) ((b) * p.out.batch + (r) * p.out.row + (c) * p.out.column)

#ifdef KERNEL_matmul_tiles
__kernel void matmul_tiles(const __global char* packed_a, ulong a_offset, const __global char* packed_b, ulong b_offset,
                           __global char* out, ulong out_offset, ADDED_PARAMETER T alpha, T beta, product_t p, long chunk) {
  if (p.k == 0) return;
  const long batch = get_global_id(2), n_panel = get_global_id(1);
  const long m_panels = (p.m + ROWS - 1) / ROWS, n_panels = (p.n + COLUMNS - 1) / COLUMNS;
  const __global T* b = (const __global T*)(packed_b + b_offset) + (batch * n_panels + n_panel) * p.k * COLUMNS;
  const long last = min((long)(get_global_id(0) + 1) * chunk, m_panels);
  const long column = n_panel * COLUMNS;
  for (long m_panel = get_global_id(0) * chunk; m_panel < last; ++m_panel) {
    const __global T* a = (const __global T*)(packed_a + a_offset) + (batch * m_panels + m_panel) * p.k * ROWS;
    TV tile[ROWS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) tile[r][v] = (TV)((T)0);
    for (long k = 0; k < p.k; ++k) {
      TV line[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) line[v] = VLOAD(0, b + k * COLUMNS + LANES * v);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const TV left = (TV)(a[k * ROWS + r]);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v)
#if T_FLOAT
          tile[r][v] = fma(left, line[v], tile[r][v]);
#else
          tile[r][v] += left * line[v];
#endif
      }
    }
    const long row = m_panel * ROWS;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (row + r >= p.m) continue;
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
        const long first = column + LANES * v;
        T values[LANES];
        VSTORE(tile[r][v], 0, values);
        const int count = (int)min((long)LANES, p.n - first);
        for (int c = 0; c < count; ++c)
          STORE(TYPE, out + out_offset, OUT_PLACE(batch, row + r, first + c), FINISHED(values[c], batch, row + r, first + c));
      }
    }
  }
}
#endif

#ifdef KERNEL_matmul_direct
// One result a work-item; several lanes where both operands are dense along k.
__kernel void matmul_direct(const __global char* left, ulong a_offset, const __global char* right, ulong b_offset,
                            __global char* out, ulong out_offset, ADDED_PARAMETER T alpha, T beta, product_t p) {
  const long result = get_global_id(0);
  if (result >= p.batch * p.m * p.n) return;
  const long column = result % p.n, row = result / p.n % p.m, batch = result / p.n / p.m;
  const long a_at = batch * p.a.batch + row * p.a.row, b_at = batch * p.b.batch + column * p.b.column;
  T total = 0;
  long k = 0;
  if (p.a.column == 1 && p.b.row == 1 && p.k >= LANES) {
    TV lanes = (TV)((T)0);
    for (; k + LANES <= p.k; k += LANES)
      lanes += LOADV(TYPE, left + a_offset, a_at + k) * LOADV(TYPE, right + b_offset, b_at + k);
    T values[LANES];
    VSTORE(lanes, 0, values);
    for (int lane = 0; lane < LANES; ++lane) total += values[lane];
  }
  while (k < p.k) {  // in short chains of additions, which lose fewer digits
    const long end = min(k + 128, p.k);
    T part = 0;
    for (; k < end; ++k)
      part += (T)LOAD(TYPE, left + a_offset, a_at + k * p.a.column) * (T)LOAD(TYPE, right + b_offset, b_at + k * p.b.row);
    total += part;
  }
  STORE(TYPE, out + out_offset, OUT_PLACE(batch, row, column), FINISHED(total, batch, row, column));
}
#endif
