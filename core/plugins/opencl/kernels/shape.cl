// shape.cl - kernels that move elements (by their bits: BITS is an unsigned type of their size) and the
// cumulative sum. The plugin defines OP_<symbol>, OUT_TYPE, IN_TYPE and BITS. Operands: output, input.

#define OUT_BITS ((__global BITS*)(out + out_offset))
#define IN_BITS ((const __global BITS*)(in + in_offset))

#ifdef KERNEL_shape_copy
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void shape_copy(
    __global char* out, ulong out_offset, const __global char* in, ulong in_offset, long count, layout_t lay) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long rest = i, to = 0, from = 0;
  for (int d = (int)lay.rank - 1; d >= 0; --d) {
    const long index = rest % lay.shape[d];
    rest /= lay.shape[d];
    to += index * lay.stride[0][d];
    from += index * lay.stride[1][d];
  }
  OUT_BITS[to] = IN_BITS[from];
}
#endif

#ifdef OP_triu
#define INSIDE(row, column) ((column) - (row) >= diagonal)
#else
#define INSIDE(row, column) ((column) - (row) <= diagonal)
#endif

#ifdef KERNEL_shape_triangle
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void shape_triangle(
    __global char* out, ulong out_offset, const __global char* in, ulong in_offset, long count, long diagonal, layout_t lay) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int last = (int)lay.rank - 1;
  const long column = i % lay.shape[last], row = i / lay.shape[last] % lay.shape[last - 1];
  long rest = i, to = 0, from = 0;
  for (int d = last; d >= 0; --d) {
    const long index = rest % lay.shape[d];
    rest /= lay.shape[d];
    to += index * lay.stride[0][d];
    from += index * lay.stride[1][d];
  }
  OUT_BITS[to] = INSIDE(row, column) ? IN_BITS[from] : (BITS)0;
}
#endif

#ifdef KERNEL_shape_cumsum
__kernel void shape_cumsum(__global char* out, ulong out_offset, const __global char* in, ulong in_offset, long rows, long size,
                           long out_stride, long in_stride, layout_t kept) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  long rest = row, to = 0, from = 0;
  for (int d = (int)kept.rank - 1; d >= 0; --d) {
    const long index = rest % kept.shape[d];
    rest /= kept.shape[d];
    to += index * kept.stride[0][d];
    from += index * kept.stride[1][d];
  }
  T total = 0;
  for (long i = 0; i < size; ++i) {
    total += (T)LOAD(IN_TYPE, in + in_offset, from + i * in_stride);
    STORE(OUT_TYPE, out + out_offset, to + i * out_stride, total);
  }
}
#endif
