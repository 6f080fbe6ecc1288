// The reference tier against values computed by hand: strides, broadcasting, dtypes, rounding, refusals.
#include <algorithm>
#include <cmath>

#include "reference_args.h"

using namespace reference_test;
using ral::reference::find;

TEST(names) {
  const std::vector<std::string> ops = ral::reference::ops();
  CHECK(std::is_sorted(ops.begin(), ops.end()));
  CHECK(ops.size() > 250);
  for (const std::string& op : ops) CHECK(find(op) != nullptr);
  CHECK(find("aten::no_such_thing") == nullptr);
  CHECK(find("") == nullptr);
}

TEST(broadcast_and_strides) {
  const F32 row({3}, {1, 2, 3}), column({2, 1}, {10, 20});
  F32 out({2, 3}, std::vector<float>(6));
  RUNS("aten::add.Tensor", {row, column, number(2)}, {out});
  CHECK_VALUES(out, 21, 22, 23, 41, 42, 43);
  // Both operands of stride 0, the output's dims reversed in memory and offset by one.
  const F32 one({2, 3}, {5}, {0, 0});
  F32 gaps({2, 3}, std::vector<float>(7, -1), {1, 2}, 1);
  RUNS("aten::mul.Tensor", {one, row}, {gaps});
  CHECK_VALUES(gaps, -1, 5, 5, 10, 10, 15, 15);
}

TEST(rank_zero_and_empty) {
  const F32 a({}, {2}), b({}, {3}), nothing({0, 3}, {});
  F32 out({}, {0}), empty({0, 3}, {}), sums({3}, {7, 7, 7});
  RUNS("aten::sub.Tensor", {a, b, number(1)}, {out});
  CHECK_VALUES(out, -1);
  RUNS("aten::exp", {nothing}, {empty});
  RUNS("aten::sum.dim_IntList", {nothing, ints({0}), truth(false), none()}, {sums});
  CHECK_VALUES(sums, 0, 0, 0);
  RUNS("aten::sum", {a, none()}, {out});
  CHECK_VALUES(out, 2);
  std::string why;
  CHECK_EQ(run("aten::amax", {nothing, ints({0}), truth(false)}, {sums}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "no elements");
}

TEST(in_place) {
  F32 a({2, 2}, {1, 2, 3, 4});
  RUNS("aten::mul.Scalar", {a, real(0.5)}, {a});
  CHECK_VALUES(a, 0.5f, 1, 1.5f, 2);
  RUNS("aten::addmm", {a, a, a, real(1), real(1)}, {a});  // every operand is the output too
  CHECK_VALUES(a, 2.25f, 3.5f, 5.25f, 7.5f);
}

TEST(float16_rounding) {
  // To nearest even from the double: 2049 is halfway between 2048 and 2050; a little more goes up.
  const Tensor<double> in({8}, {2049, 2049.0000001, 2051, 65519.99, 65520, 5.9604644775390625e-08, 2.98e-08, -0.0});
  Bits out({8}, std::vector<uint16_t>(8), {}, 0, kHalf);
  RUNS("aten::_to_copy", {in}, {out});
  CHECK_VALUES(out, 0x6800, 0x6801, 0x6802, 0x7bff, 0x7c00, 0x0001, 0x0000, 0x8000);
  // Subnormals: 1.5 of the smallest unit is a tie and goes to the even 2; 1024 units are the smallest normal number.
  const double unit = std::ldexp(1, -24);
  const Tensor<double> small({5}, {1.5 * unit, 2.5 * unit, 0.5 * unit, 1023.5 * unit, kNan});
  Bits bits({5}, std::vector<uint16_t>(5), {}, 0, kHalf);
  RUNS("aten::_to_copy", {small}, {bits});
  CHECK_VALUES(bits, 0x0002, 0x0002, 0x0000, 0x0400, 0x7e00);
  // One rounding, not two: by way of float, 1 + 2^-11 + 2^-40 would be a tie and go down.
  const Tensor<double> twice({1}, {1 + std::ldexp(1, -11) + std::ldexp(1, -40)});
  Bits once({1}, {0}, {}, 0, kHalf);
  RUNS("aten::_to_copy", {twice}, {once});
  CHECK_VALUES(once, 0x3c01);
}

TEST(bfloat16_rounding) {
  const F32 in({6}, {1.00390625f, 1.01171875f, 3.3895314e38f, 3.4e38f, 1e-40f, -1.5f});
  Bits out({6}, std::vector<uint16_t>(6), {}, 0, kBFloat);
  RUNS("aten::copy", {out, in, truth(false)}, {out});
  CHECK_VALUES(out, 0x3f80, 0x3f82, 0x7f7f, 0x7f80, 0x0001, 0xbfc0);
  F32 back({6}, std::vector<float>(6));
  RUNS("aten::_to_copy", {out}, {back});
  CHECK_EQ(back.values()[0], 1.0f);
  CHECK_EQ(back.values()[3], std::numeric_limits<float>::infinity());
}

TEST(integers) {
  const Tensor<int8_t> a({4}, {100, -128, 7, -7}), b({4}, {100, -1, -2, 2});
  Tensor<int8_t> out({4}, std::vector<int8_t>(4));
  RUNS("aten::add.Tensor", {a, b, number(1)}, {out});  // wraps
  CHECK_VALUES(out, -56, 127, 5, -5);
  RUNS("aten::div.Tensor_mode", {a, b, text("floor")}, {out});
  CHECK_VALUES(out, 1, -128, -4, -4);
  RUNS("aten::div.Tensor_mode", {a, b, text("trunc")}, {out});
  CHECK_VALUES(out, 1, -128, -3, -3);
  RUNS("aten::remainder.Tensor", {a, b}, {out});
  CHECK_VALUES(out, 0, 0, -1, 1);
  RUNS("aten::fmod.Tensor", {a, b}, {out});
  CHECK_VALUES(out, 0, 0, 1, -1);
  I64 total({}, {0});
  RUNS("aten::sum", {a, none()}, {total});  // not in int8
  CHECK_VALUES(total, -28);
  const Tensor<uint64_t> big({2}, {UINT64_MAX, 1});
  Tensor<uint64_t> highest({}, {0});
  RUNS("aten::max", {big}, {highest});
  CHECK(highest.values()[0] == UINT64_MAX);
  F32 quotient({2}, {0, 0});
  RUNS("aten::div.Tensor", {I64({2}, {1, 7}), I64({2}, {2, 2})}, {quotient});
  CHECK_VALUES(quotient, 0.5f, 3.5f);
}

TEST(booleans) {
  // Sources are bytes: std::vector<bool> has no data().
  Tensor<uint8_t> a({4}, {0, 0, 1, 1}, {}, 0, kType<bool>), b({4}, {0, 1, 0, 1}, {}, 0, kType<bool>);
  Tensor<uint8_t> out({4}, {9, 9, 9, 9}, {}, 0, kType<bool>);
  RUNS("aten::add.Tensor", {a, b, number(1)}, {out});
  CHECK_VALUES(out, 0, 1, 1, 1);
  RUNS("aten::bitwise_not", {a}, {out});
  CHECK_VALUES(out, 1, 1, 0, 0);
  const F32 x({4}, {0, -0.0f, static_cast<float>(kNan), 2});
  RUNS("aten::logical_not", {x}, {out});
  CHECK_VALUES(out, 1, 1, 0, 0);
}

TEST(comparison_in_the_common_type) {
  // 0.1 is compared as float32, as PyTorch does; and int64 against float32 as float32.
  const F32 x({1}, {0.1f}), y({1}, {16777216});
  Tensor<uint8_t> out({1}, {9}, {}, 0, kType<bool>);
  RUNS("aten::eq.Scalar", {x, real(0.1)}, {out});
  CHECK_VALUES(out, 1);
  RUNS("aten::eq.Tensor", {I64({1}, {16777217}), y}, {out});
  CHECK_VALUES(out, 1);
}

TEST(nan_and_halves) {
  const F32 a({4}, {1, static_cast<float>(kNan), 3, 0}), b({4}, {2, 5, static_cast<float>(kNan), -1});
  F32 out({4}, std::vector<float>(4));
  RUNS("aten::maximum", {a, b}, {out});
  CHECK(out.values()[0] == 2 && std::isnan(out.values()[1]) && std::isnan(out.values()[2]));
  RUNS("aten::fmax", {a, b}, {out});
  CHECK_VALUES(out, 2, 5, 3, 0);
  RUNS("aten::clamp_min", {a, number(2)}, {out});
  CHECK(out.values()[0] == 2 && std::isnan(out.values()[1]));
  F32 value({}, {0});
  I64 place({}, {0});
  RUNS("aten::max.dim", {a, number(0), truth(false)}, {value, place});
  CHECK(std::isnan(value.values()[0]));
  CHECK_VALUES(place, 1);
  const F32 halves({4}, {0.5f, 1.5f, 2.5f, -0.5f});
  RUNS("aten::round", {halves}, {out});
  CHECK_VALUES(out, 0, 2, 2, -0.0f);
}

TEST(reductions_keep_dims_or_not) {
  const F32 in({2, 3}, {1, 2, 3, 4, 5, 6});
  F32 rows({2}, {0, 0}), kept({1, 3}, {0, 0, 0}), strided({2}, {0, 9, 0}, {2});
  RUNS("aten::sum.dim_IntList", {in, ints({-1}), truth(false), none()}, {rows});
  CHECK_VALUES(rows, 6, 15);
  RUNS("aten::mean.dim", {in, ints({0}), truth(true), none()}, {kept});
  CHECK_VALUES(kept, 2.5f, 3.5f, 4.5f);
  RUNS("aten::var.correction", {in, ints({1}), none(), truth(false)}, {strided});
  CHECK_VALUES(strided, 1, 9, 1);
  I64 place({}, {0});
  RUNS("aten::argmax", {in, none(), truth(false)}, {place});
  CHECK_VALUES(place, 5);
}

TEST(products) {
  const F32 a({2, 3}, {1, 2, 3, 4, 5, 6}), turned({3, 2}, {1, 3, 5, 2, 4, 6}, {1, 3});
  F32 out({2, 2}, std::vector<float>(4));
  RUNS("aten::mm", {a, turned}, {out});  // turned is {{1, 2}, {3, 4}, {5, 6}}
  CHECK_VALUES(out, 22, 28, 49, 64);
  const F32 bias({2}, {static_cast<float>(kNan), 1});
  RUNS("aten::addmm", {bias, a, turned, number(0), number(1)}, {out});  // beta 0: the bias is not read
  CHECK_VALUES(out, 22, 28, 49, 64);
  const F32 none_in({2, 0}, {}), none_out({0, 2}, {});
  RUNS("aten::mm", {none_in, none_out}, {out});
  CHECK_VALUES(out, 0, 0, 0, 0);
}

TEST(indexing) {
  const F32 in({2, 3}, {1, 2, 3, 4, 5, 6});
  const I64 index({2}, {2, 0}), negative({2}, {-1, 0});
  F32 out({2, 2}, std::vector<float>(4));
  RUNS("aten::index_select", {in, number(1), index}, {out});
  CHECK_VALUES(out, 3, 1, 6, 4);
  const ral_value places = list({nullptr, negative.tensor()});
  RUNS("aten::index.Tensor", {in, places}, {out});
  CHECK_VALUES(out, 3, 1, 6, 4);
  F32 put({2, 3}, std::vector<float>(6));
  RUNS("aten::index_put", {in, places, F32({}, {10}), truth(true)}, {put});
  CHECK_VALUES(put, 11, 2, 13, 14, 5, 16);
  F32 sums({3}, {0, 0, 0});
  RUNS("aten::scatter_add", {F32({3}, {1, 1, 1}), number(0), I64({4}, {0, 2, 2, 2}), F32({4}, {1, 2, 3, 4})}, {sums});
  CHECK_VALUES(sums, 2, 1, 10);
}

TEST(stable_sort) {
  const F32 in({5}, {2, static_cast<float>(kNan), 1, 2, 1});
  F32 values({5}, std::vector<float>(5));
  I64 places({5}, std::vector<int64_t>(5));
  RUNS("aten::sort.stable", {in, truth(true), number(0), truth(false)}, {values, places});
  CHECK_VALUES(places, 2, 4, 0, 3, 1);
  RUNS("aten::sort.stable", {in, truth(true), number(0), truth(true)}, {values, places});
  CHECK_VALUES(places, 1, 0, 3, 2, 4);
}

TEST(convolution_by_hand) {
  const F32 in({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), weight({1, 1, 2, 2}, {1, 0, 0, 1}), bias({1}, {100});
  F32 out({1, 1, 2, 2}, std::vector<float>(4));
  const ral_value one = ints({1, 1}), zero = ints({0, 0});
  RUNS("aten::convolution", {in, weight, bias, one, zero, one, truth(false), zero, number(1)}, {out});
  CHECK_VALUES(out, 106, 108, 112, 114);
  F32 large({1, 1, 3, 3}, std::vector<float>(9));
  const F32 small({1, 1, 2, 2}, {1, 2, 3, 4});
  RUNS("aten::convolution", {small, weight, none(), one, zero, one, truth(true), zero, number(1)}, {large});
  CHECK_VALUES(large, 1, 2, 0, 3, 5, 2, 0, 3, 4);
}

TEST(gradients_of_a_complex_convolution) {
  // Of one element each: dx = dy conj(w), dw = dy conj(x).
  using C = std::complex<float>;
  using C64 = Tensor<C>;
  const C64 dy({1, 1, 1}, {C(1, 1)}), x({1, 1, 1}, {C(1, 2)}), w({1, 1, 1}, {C(3, -1)});
  C64 dx({1, 1, 1}, {0}), dw({1, 1, 1}, {0}), db({1}, {0});
  const ral_value one = ints({1}), zero = ints({0});
  RUNS("aten::convolution_backward", {dy, x, w, one, one, zero, one, truth(false), zero, number(1), flags({1, 1, 1})},
       {dx, dw, db});
  CHECK_EQ(dx.values()[0], C(2, 4));
  CHECK_EQ(dw.values()[0], C(3, -1));
  CHECK_EQ(db.values()[0], C(1, 1));
}

TEST(fourier) {
  const F32 in({4}, {1, 2, 3, 4});
  Tensor<std::complex<float>> out({3}, std::vector<std::complex<float>>(3));
  RUNS("aten::_fft_r2c", {in, ints({0}), number(0), truth(true)}, {out});
  CHECK_EQ(out.values()[0], std::complex<float>(10, 0));
  CHECK_EQ(out.values()[1], std::complex<float>(-2, 2));
  F32 back({4}, std::vector<float>(4));
  RUNS("aten::_fft_c2r", {out, ints({0}), number(2), number(4)}, {back});
  CHECK_VALUES(back, 1, 2, 3, 4);
}

TEST(host_scalars) {
  ral_value scalar{};
  scalar.tag = RAL_VALUE_HOST_SCALAR;
  scalar.dtype = RAL_INT64;
  scalar.i64 = (int64_t{1} << 53) + 1;  // not exact as a double
  scalar.u.complex = {9007199254740992.0, 0};
  I64 out({2}, {0, 0});
  RUNS("aten::add.Tensor", {I64({2}, {1, 2}), scalar, number(1)}, {out});
  CHECK_VALUES(out, 9007199254740994, 9007199254740995);
}

TEST(refused_before_anything_is_written) {
  const I64 a({3}, {6, 7, 8}), zero({3}, {2, 0, 2});
  I64 out({3}, {-1, -1, -1});
  F32 floats({2}, {-1, -1});
  std::string why;
  CHECK_EQ(run("aten::div.Tensor_mode", {a, zero, text("floor")}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "division by zero");
  CHECK_EQ(run("aten::gather", {a, number(0), I64({3}, {0, 1, 3})}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "index 3 is out of range for size 3");
  CHECK_EQ(run("aten::add.Tensor", {a, I64({2}, {1, 2}), number(1)}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "shape [2] does not broadcast to [3]");
  CHECK_EQ(run("aten::sum.dim_IntList", {a, ints({3}), truth(false), none()}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "dim 3 is out of range");
  const Tensor<std::complex<float>> complex({2}, {1, 2});
  CHECK_EQ(run("aten::maximum", {complex, complex}, {floats}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "aten::maximum has no kernel for complex64");
  CHECK_EQ(run("aten::add.Tensor", {}, {floats}), RAL_ERROR_UNSUPPORTED);
  CHECK_EQ(run("aten::add.Tensor", {floats, floats, number(1)}, {}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_VALUES(out, -1, -1, -1);
  CHECK_VALUES(floats, -1, -1);
}

TEST(c_entry) {
  const F32 a({2}, {1, 4});
  F32 out({2}, {0, 0});
  const ral_value args[] = {a}, outs[] = {out};
  char why[16] = "unchanged";
  CHECK_EQ(ral_reference_run("aten::sqrt", args, 1, outs, 1, why, sizeof why), RAL_SUCCESS);
  CHECK_EQ(std::string(why), "");
  CHECK_VALUES(out, 1, 2);
  CHECK_EQ(ral_reference_run("aten::nothing", args, 1, outs, 1, why, sizeof why), RAL_ERROR_UNSUPPORTED);
  CHECK_EQ(std::string(why), "no reference ke");
  CHECK_EQ(ral_reference_run("aten::nothing", args, 1, outs, 1, nullptr, 0), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(ral_reference_ops(), "aten::sqrt\n");
}

int main(int argc, char** argv) { return check::main(argc, argv); }
