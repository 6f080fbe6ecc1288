// elementwise.cl - one expression per operator over a0 .. a5, the schema arguments in order, already in
// the compute type T. The plugin defines: EXPRESSION (one of E_... below), OUT_TYPE, OUT_BOOL, MODE, and
// for each argument HAS_n, PARAM_n, VALUE_n(i), STRIDE_n(d), INNER_n.

// ---- Functions of T ----

#if T_FLOAT
#if T_F32
#define M_EXP(x) exp_1(x)
#define M_EXP2(x) exp2_1(x)
#define M_EXPM1(x) expm1_1(x)
#define M_LOG(x) log_1(x)
#define M_LOG1P(x) log1p_1(x)
#define M_TANH(x) tanh_1(x)
#define M_ERF(x) erf_1(x)
#else
#define M_EXP(x) exp(x)
#define M_EXP2(x) exp2(x)
#define M_EXPM1(x) expm1(x)
#define M_LOG(x) log(x)
#define M_LOG1P(x) log1p(x)
#define M_TANH(x) tanh(x)
#define M_ERF(x) erf(x)
#endif
#define K(x) ((T)(x))
#define SIGMOID(x) (K(1) / (K(1) + M_EXP(-(x))))

static inline T gelu_of(T x) {
#if MODE == 1
  const T inner = K(0.79788456080286535588) * (x + K(0.044715) * x * x * x);
  return K(0.5) * x * (K(1) + M_TANH(inner));
#else
  return x * K(0.5) * (K(1) + M_ERF(x * K(0.70710678118654752440)));
#endif
}

static inline T gelu_slope(T x) {
#if MODE == 1
  const T beta = K(0.79788456080286535588), kappa = K(0.044715);
  const T t = M_TANH(beta * (x + kappa * x * x * x));
  return K(0.5) * (K(1) + t) + K(0.5) * x * (K(1) - t * t) * beta * (K(1) + K(3) * kappa * x * x);
#else
  const T cdf = K(0.5) * (K(1) + M_ERF(x * K(0.70710678118654752440)));
  return cdf + x * M_EXP(K(-0.5) * x * x) * K(0.39894228040143267794);
#endif
}

static inline T silu_slope(T x) {
  const T s = SIGMOID(x);
  return s * (K(1) + x * (K(1) - s));
}

static inline T remainder_of(T a, T b) {
  const T m = fmod(a, b);
  return (m != 0) & ((b < 0) != (m < 0)) ? m + b : m;
}

// Python's floor division, as PyTorch does it.
static inline T floor_division(T a, T b) {
  const T m = fmod(a, b);
  T q = (a - m) / b;
  q = (m != 0) & ((b < 0) != (m < 0)) ? q - K(1) : q;
  const T below = floor(q);
  const T whole = q - below > K(0.5) ? below + K(1) : below;
  const T result = q != 0 ? whole : copysign(K(0), a / b);
  return b == 0 ? a / b : result;
}

static inline T softplus_of(T x, T beta, T threshold) {
  const T z = x * beta;
  return z > threshold ? x : M_LOG1P(M_EXP(z)) / beta;
}

static inline T softplus_slope(T grad, T z) { return grad * z / (z + K(1)); }

static inline T lerp_of(T a, T b, T w) {
  const T d = b - a;
  return fabs(w) < K(0.5) ? a + w * d : b - d * (K(1) - w);
}
#else
#define K(x) ((T)(x))
#endif

static inline T larger(T a, T b) { return (a > b) | (a != a) ? a : b; }    // NaN wins
static inline T smaller(T a, T b) { return (a < b) | (a != a) ? a : b; }

static inline T hard_gate(T x) { return smaller(larger(x + K(3), K(0)), K(6)); }

// ---- Expressions ----

#define ALPHA(n) (HAS_##n ? a##n : K(1))

#define E_add a0 + ALPHA(2) * a1
#define E_sub a0 - ALPHA(2) * a1
#define E_rsub a1 - ALPHA(2) * a0
#define E_mul a0 * a1
#define E_mul3 a0 * a1 * a2
#define E_square a0 * a0
#define E_neg -a0
#define E_relu a0 <= 0 ? K(0) : a0
#define E_sign (T)((a0 > 0) - (a0 < 0))
#define E_hardtanh smaller(larger(a0, a1), a2)
#define E_threshold a0 <= a1 ? a2 : a0
#define E_threshold_backward a1 <= a2 ? K(0) : a0
#define E_maximum larger(a0, a1)
#define E_minimum smaller(a0, a1)
#define E_fmax (a0 >= a1) | (a1 != a1) ? a0 : a1
#define E_fmin (a0 <= a1) | (a1 != a1) ? a0 : a1
#if HAS_1 && HAS_2
#define E_clamp smaller(larger(a0, a1), a2)
#elif HAS_1
#define E_clamp larger(a0, a1)
#else
#define E_clamp smaller(a0, a2)
#endif
#define E_clamp_min larger(a0, a1)
#define E_clamp_max smaller(a0, a1)
#define E_addcmul a0 + a3 * a1 * a2
#define E_where a0 != 0 ? a1 : a2
#define E_masked_fill a1 != 0 ? a2 : a0
#define E_eq a0 == a1
#define E_ne a0 != a1
#define E_lt a0 < a1
#define E_le a0 <= a1
#define E_gt a0 > a1
#define E_ge a0 >= a1
#define E_logical_and (a0 != 0) & (a1 != 0)
#define E_logical_or (a0 != 0) | (a1 != 0)
#define E_logical_xor (a0 != 0) ^ (a1 != 0)
#define E_logical_not a0 == 0
#define E_isnan a0 != a0
#define E_fill a1
#define E_zero K(0)
#define E_copy a1
#define E_cast a0

#if T_FLOAT
#define E_abs fabs(a0)
#define E_isinf fabs(a0) == INFINITY
#define E_isfinite fabs(a0) < INFINITY
#define E_signbit signbit(a0) != 0
#define E_div a0 / a1
#if MODE == 1
#define E_div_mode trunc(a0 / a1)
#elif MODE == 2
#define E_div_mode floor_division(a0, a1)
#else
#define E_div_mode a0 / a1
#endif
#define E_reciprocal K(1) / a0
#define E_sqrt sqrt(a0)
#define E_rsqrt K(1) / sqrt(a0)
#define E_exp M_EXP(a0)
#define E_exp2 M_EXP2(a0)
#define E_expm1 M_EXPM1(a0)
#define E_log M_LOG(a0)
#define E_log2 log2(a0)
#define E_log10 log10(a0)
#define E_log1p M_LOG1P(a0)
#define E_sin sin(a0)
#define E_cos cos(a0)
#define E_tan tan(a0)
#define E_asin asin(a0)
#define E_acos acos(a0)
#define E_atan atan(a0)
#define E_sinh sinh(a0)
#define E_cosh cosh(a0)
#define E_tanh M_TANH(a0)
#define E_asinh asinh(a0)
#define E_acosh acosh(a0)
#define E_atanh atanh(a0)
#define E_sigmoid SIGMOID(a0)
#define E_silu a0 / (K(1) + M_EXP(-a0))
#define E_mish a0 * M_TANH(softplus_of(a0, K(1), K(20)))
#define E_gelu gelu_of(a0)
#define E_erf M_ERF(a0)
#define E_erfc erfc(a0)
#define E_floor floor(a0)
#define E_ceil ceil(a0)
#define E_round rint(a0)
#define E_trunc trunc(a0)
#define E_frac a0 - trunc(a0)
#define E_leaky_relu a0 > 0 ? a0 : a0 * a1
#define E_prelu a0 > 0 ? a0 : a0 * a1
#define E_elu a0 <= 0 ? M_EXPM1(a0 * a3) * (a1 * a2) : a0 * a2
#define E_hardswish a0 * hard_gate(a0) / K(6)
#define E_hardsigmoid hard_gate(a0) / K(6)
#define E_softplus softplus_of(a0, a1, a2)
#define E_fmod fmod(a0, a1)
#define E_remainder remainder_of(a0, a1)
#if MODE == 1
#define E_pow a0 * a0
#elif MODE == 2
#define E_pow a0 * a0 * a0
#elif MODE == 3
#define E_pow sqrt(a0)
#elif MODE == 4
#define E_pow a0
#elif MODE == 5
#define E_pow K(1) / a0
#elif MODE == 6
#define E_pow K(1) / (a0 * a0)
#elif MODE == 7
#define E_pow K(1) / sqrt(a0)
#else
#define E_pow pow(a0, a1)
#endif
#define E_atan2 atan2(a0, a1)
#define E_hypot hypot(a0, a1)
#define E_copysign copysign(a0, a1)
#define E_lerp lerp_of(a0, a1, a2)
#define E_addcdiv a0 + a3 * (a1 / a2)
#define E_sigmoid_backward a0 * (K(1) - a1) * a1
#define E_tanh_backward a0 * (K(1) - a1 * a1)
#define E_gelu_backward a0 * gelu_slope(a1)
#define E_silu_backward a0 * silu_slope(a1)
#define E_leaky_relu_backward a1 > 0 ? a0 : a0 * a2
#define E_hardtanh_backward (a1 > a2) & (a1 < a3) ? a0 : K(0)
#define E_hardsigmoid_backward (a1 > K(-3)) & (a1 < K(3)) ? a0 / K(6) : K(0)
#define E_hardswish_backward a1 <= K(-3) ? K(0) : a1 >= K(3) ? a0 : a0 * (a1 / K(3) + K(0.5))
#define E_softplus_backward a1 * a2 > a3 ? a0 : softplus_slope(a0, M_EXP(a1 * a2))
// a4: whether a5 is elu's result instead of its input
#define E_elu_backward a5 <= 0 ? (a4 != 0 ? a0 * a3 * (a5 + a1 * a2) : a0 * a3 * (a1 * a2) * M_EXP(a5 * a3)) : a0 * a2
#else
#define E_abs a0 < 0 ? -a0 : a0
#define E_isinf 0
#define E_isfinite 1
#define E_bitwise_and a0 & a1
#define E_bitwise_or a0 | a1
#define E_bitwise_xor a0 ^ a1
#if OUT_BOOL
#define E_bitwise_not a0 == 0
#else
#define E_bitwise_not ~a0
#endif
#endif

// ---- The three ways through memory ----

#define PARAMS PARAM_0 PARAM_1 PARAM_2 PARAM_3 PARAM_4 PARAM_5

// Compute the element whose places in the operands are i0 .. i5 and store it at `at`.
#define COMPUTE(at, i0, i1, i2, i3, i4, i5)                                                    \
  {                                                                                            \
    const T a0 = VALUE_0(i0), a1 = VALUE_1(i1), a2 = VALUE_2(i2);                              \
    const T a3 = VALUE_3(i3), a4 = VALUE_4(i4), a5 = VALUE_5(i5);                              \
    STORE(OUT_TYPE, out + out_offset, at, (T)(EXPRESSION));                                    \
  }

#ifdef KERNEL_elementwise_contiguous
// Every operand dense, in the same order.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void elementwise_contiguous(
    __global char* out, ulong out_offset, PARAMS long count) {
  const long i = get_global_id(0);
  if (i < count) COMPUTE(i, i, i, i, i, i, i)
}
#endif

#ifdef KERNEL_elementwise_rows
// For CPUs: a work-item computes `height` rows of `length` neighbours of the innermost dimension. Strides
// along it (OUT_INNER, INNER_n) that are 0 or 1 are known when building, so that the loop vectorises; the
// pragma says that elements do not depend on each other, in-place calls included.
__kernel void elementwise_rows(__global char* out, ulong out_offset, PARAMS long rows, long length, long height, layout_t lay) {
  if (rows == 0) return;
  const int last = (int)lay.rank - 1;
  const long inner = lay.shape[last];
  const long pieces = (inner + length - 1) / length;
  const long piece = get_global_id(0);
  const long begin = piece % pieces * length, end = min(begin + length, inner);
  const long first = piece / pieces * height, limit = min(first + height, rows);
  for (long row = first; row < limit; ++row) {
    long rest = row, at = 0, i0 = 0, i1 = 0, i2 = 0, i3 = 0, i4 = 0, i5 = 0;
    for (int d = last - 1; d >= 0; --d) {
      const long index = rest % lay.shape[d];
      rest /= lay.shape[d];
      at += index * lay.stride[0][d];
      i0 += index * STRIDE_0(d);
      i1 += index * STRIDE_1(d);
      i2 += index * STRIDE_2(d);
      i3 += index * STRIDE_3(d);
      i4 += index * STRIDE_4(d);
      i5 += index * STRIDE_5(d);
    }
#pragma clang loop vectorize(assume_safety) interleave(enable)
    for (long i = begin; i < end; ++i)
      COMPUTE(at + i * OUT_INNER, i0 + i * INNER_0, i1 + i * INNER_1, i2 + i * INNER_2, i3 + i * INNER_3, i4 + i * INNER_4,
              i5 + i * INNER_5)
  }
}
#endif

#ifdef KERNEL_elementwise_flat
// Short rows: each item finds its own place.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void elementwise_flat(
    __global char* out, ulong out_offset, PARAMS long count, layout_t lay) {
  const long i = get_global_id(0);
  if (i >= count) return;
  long rest = i;
  long at = 0, i0 = 0, i1 = 0, i2 = 0, i3 = 0, i4 = 0, i5 = 0;
  for (int d = (int)lay.rank - 1; d >= 0; --d) {
    const long index = rest % lay.shape[d];
    rest /= lay.shape[d];
    at += index * lay.stride[0][d];
    i0 += index * STRIDE_0(d);
    i1 += index * STRIDE_1(d);
    i2 += index * STRIDE_2(d);
    i3 += index * STRIDE_3(d);
    i4 += index * STRIDE_4(d);
    i5 += index * STRIDE_5(d);
  }
  COMPUTE(at, i0, i1, i2, i3, i4, i5)
}
#endif
