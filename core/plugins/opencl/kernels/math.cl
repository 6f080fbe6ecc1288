// math.cl - float functions without branches, so that the compiler can vectorise over them (the drivers'
// own exp, erf and the like do not vectorise on CPUs). The plugin includes this file twice: for one lane
// (F = float, I = int, suffix 1) and for LANES of them (float8 and int8, say, suffix v).
// Errors against float64, asserted by core/tests/opencl_plugin/test_math.py: at most 3 units in the last place.

#define FN(name) JOIN(name, F_SUFFIX)
#define AS_F JOIN(as_, F)
#define AS_I JOIN(as_, I)
#define TO_I JOIN(convert_, I)
#define TO_F JOIN(convert_, F)

// The nearest whole number, for |x| < 2^21: adding 1.5 * 2^23 leaves no room for a fraction.
static inline F FN(nearest_)(F x) { return (x + (F)(12582912.0f)) - (F)(12582912.0f); }

// 2^k for whole k in [-300, 300], in two factors so that neither leaves the normal range by itself.
static inline F FN(scale_)(F value, F k) {
  const I whole = TO_I(k);
  const I first = whole >> 1;
  const I second = whole - first;
  return value * AS_F((first + 127) << 23) * AS_F((second + 127) << 23);
}

// e^r for |r| <= ln(2)/2: Taylor's series to the 7th power.
static inline F FN(exp_core_)(F r) {
  F p = (F)(1.98412698e-4f);
  p = fma(p, r, (F)(1.38888889e-3f));
  p = fma(p, r, (F)(8.33333333e-3f));
  p = fma(p, r, (F)(4.16666667e-2f));
  p = fma(p, r, (F)(1.66666667e-1f));
  p = fma(p, r, (F)(0.5f));
  p = fma(p, r, (F)(1.0f));
  return fma(p, r, (F)(1.0f));
}

static inline F FN(exp_)(F x) {
  x = x > (F)(89.0f) ? (F)(89.0f) : x;
  x = x < (F)(-104.0f) ? (F)(-104.0f) : x;
  const F k = FN(nearest_)(x * (F)(1.44269504f));
  F r = fma(k, (F)(-6.93145752e-1f), x);
  r = fma(k, (F)(-1.42860677e-6f), r);
  return FN(scale_)(FN(exp_core_)(r), k);
}

static inline F FN(exp2_)(F x) {
  x = x > (F)(129.0f) ? (F)(129.0f) : x;
  x = x < (F)(-151.0f) ? (F)(-151.0f) : x;
  const F k = FN(nearest_)(x);
  return FN(scale_)(FN(exp_core_)((x - k) * (F)(0.693147181f)), k);
}

// Near 0 by series, elsewhere exp(x) - 1 loses nothing.
static inline F FN(expm1_)(F x) {
  F p = (F)(2.48015873e-5f);
  p = fma(p, x, (F)(1.98412698e-4f));
  p = fma(p, x, (F)(1.38888889e-3f));
  p = fma(p, x, (F)(8.33333333e-3f));
  p = fma(p, x, (F)(4.16666667e-2f));
  p = fma(p, x, (F)(1.66666667e-1f));
  p = fma(p, x, (F)(0.5f));
  p = fma(p * x, x, x);
  const F large = FN(exp_)(x) - (F)(1.0f);
  return fabs(x) < (F)(0.5f) ? p : large;
}

// Logarithm: x = 2^e * m with m in [2/3, 4/3); series of log(1 + f) around f = m - 1.
static inline F FN(log_)(F x) {
  const F tiny = x < (F)(1.17549435e-38f) ? (F)(-23.0f) : (F)(0.0f);
  const F y = x < (F)(1.17549435e-38f) ? x * (F)(8388608.0f) : x;
  const I bits = AS_I(y);
  const I e = (bits - (I)(0x3f2aaaab)) & (I)(0xff800000);
  const F f = AS_F(bits - e) - (F)(1.0f);
  const F k = fma(TO_F(e), (F)(1.1920929e-7f), tiny);
  const F s = f * f;
  F p = fma((F)(-0.130310059f), f, (F)(0.140869141f));
  F q = fma((F)(-0.121483892f), f, (F)(0.139814854f));
  q = fma(p, s, q);
  q = fma(q, f, (F)(-0.166846126f));
  q = fma(q, f, (F)(0.200120345f));
  q = fma(q, f, (F)(-0.249996200f));
  q = fma(q, f, (F)(0.333331972f));
  q = fma(q, f, (F)(-0.500000000f));
  q = fma(q, s, f);
  F result = fma(k, (F)(0.693147182f), q);
  result = x == (F)(INFINITY) ? x : result;
  result = x == (F)(0.0f) ? (F)(-INFINITY) : result;
  return (x < (F)(0.0f)) | (x != x) ? (F)(NAN) : result;
}

static inline F FN(log1p_)(F x) {
  const F u = (F)(1.0f) + x;
  const F corrected = FN(log_)(u) * (x / (u - (F)(1.0f)));
  F result = u == (F)(1.0f) ? x : corrected;
  result = x == (F)(INFINITY) ? x : result;
  return x == (F)(-1.0f) ? (F)(-INFINITY) : result;
}

static inline F FN(sigmoid_)(F x) { return (F)(1.0f) / ((F)(1.0f) + FN(exp_)(-x)); }

static inline F FN(tanh_)(F x) {
  const F z = x * x;
  F p = (F)(-5.70498872e-3f);
  p = fma(p, z, (F)(2.06390888e-2f));
  p = fma(p, z, (F)(-5.37397155e-2f));
  p = fma(p, z, (F)(1.33314422e-1f));
  p = fma(p, z, (F)(-3.33332819e-1f));
  const F small = fma(p * z, x, x);
  const F e = FN(exp_)((F)(-2.0f) * fabs(x));
  const F large = copysign(((F)(1.0f) - e) / ((F)(1.0f) + e), x);
  return fabs(x) < (F)(0.625f) ? small : large;
}

// Two polynomials: around 0, and in 1 - exp(p(|x|)) beyond 0.93.
static inline F FN(erf_)(F x) {
  const F t = fabs(x) > (F)(4.0f) ? (F)(4.0f) : fabs(x);
  const F s = t * t;
  F r = fma((F)(-1.72853470e-5f), t, (F)(3.83197126e-4f));
  const F u = fma((F)(-3.88396438e-3f), t, (F)(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, (F)(-1.06777877e-1f));
  r = fma(r, t, (F)(-6.34846687e-1f));
  r = fma(r, t, (F)(-1.28717512e-1f));
  r = fma(r, t, -t);
  const F large = copysign((F)(1.0f) - FN(exp_)(r), x);
  F p = (F)(-5.96761703e-4f);
  p = fma(p, s, (F)(4.99119423e-3f));
  p = fma(p, s, (F)(-2.67681349e-2f));
  p = fma(p, s, (F)(1.12819925e-1f));
  p = fma(p, s, (F)(-3.76125336e-1f));
  p = fma(p, s, (F)(1.28379166e-1f));
  const F small = fma(p, x, x);
  const F result = t > (F)(0.927734375f) ? large : small;
  return x != x ? x : result;
}

#undef FN
#undef AS_F
#undef AS_I
#undef TO_I
#undef TO_F
