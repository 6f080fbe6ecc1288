// The reference tier's operators whose arguments or results are of more than one size: sparse operands, results whose
// size depends on values, pooling and grid samples. Values computed by hand.
#include <cmath>

#include "reference_args.h"

using namespace reference_test;
using ral::reference::find_sizing;
using ral::reference::Result;

namespace {

std::vector<Result> sized(const char* op, const std::vector<ral_value>& args) {
  std::vector<Result> results;
  std::string why;
  const auto sizing = find_sizing(op);
  CHECK(sizing != nullptr);
  if (sizing) CHECK_EQ(sizing(args.data(), static_cast<uint32_t>(args.size()), &results, &why), RAL_SUCCESS);
  return results;
}

}  // namespace

#define CHECK_DIMS(dims, ...) CHECK_EQ(shown(dims), shown(Dims{__VA_ARGS__}))

// [[0, 2, 0], [1, 0, 3]]
TEST(sparse_rows_or_columns_times_dense) {
  const I64 pointers({3}, {0, 1, 3}), columns({3}, {1, 0, 2});
  const F32 values({3}, {2, 1, 3}), dense({3, 2}, {1, 2, 3, 4, 5, 6});
  const ral_value csr = list({pointers.tensor(), columns.tensor(), values.tensor()});
  F32 out({2, 2}, {9, 9, 9, 9});
  RUNS("aten::mm", {csr, dense}, {out});
  CHECK_VALUES(out, 6, 8, 16, 20);
  const F32 added({2}, {100, 200});
  RUNS("aten::addmm", {added, csr, dense, real(1), real(2)}, {out});
  CHECK_VALUES(out, 112, 216, 132, 240);
  const F32 nan({2}, {static_cast<float>(kNan), 1}), left({1, 2}, {10, 1});
  RUNS("aten::addmm", {nan, csr, dense, number(0), number(1)}, {out});  // beta 0: it is not read
  CHECK_VALUES(out, 6, 8, 16, 20);
  F32 row({1, 3}, {9, 9, 9});
  RUNS("aten::mm", {left, csr}, {row});  // sparse on the right
  CHECK_VALUES(row, 1, 20, 3);
  const I64 column_pointers({4}, {0, 1, 2, 3}), rows({3}, {1, 0, 1});
  const F32 by_column({3}, {1, 2, 3});
  RUNS("aten::mm", {list({nullptr, column_pointers.tensor(), rows.tensor(), by_column.tensor()}), dense}, {out});
  CHECK_VALUES(out, 6, 8, 16, 20);
  F32 vector({2}, {9, 9});
  RUNS("aten::mv", {csr, F32({3}, {1, 10, 100})}, {vector});
  CHECK_VALUES(vector, 20, 301);
}

TEST(sparse_coordinates_add_up) {
  // The element at (0, 1) is there twice; the values have a stride.
  const Tensor<int32_t> indices({2, 3}, {0, 1, 0, 1, 0, 1});
  const F32 values({3}, {1, -1, 5, -1, 2}, {2}), dense({2, 1}, {10, 1});
  const ral_value coo = list({indices.tensor(), values.tensor()});
  F32 out({2, 1}, {9, 9});
  RUNS("aten::mm", {coo, dense}, {out});
  CHECK_VALUES(out, 3, 50);
  const F32 none_stored({0}, {});
  const I64 nowhere({2, 0}, {});
  RUNS("aten::mm", {list({nowhere.tensor(), none_stored.tensor()}), dense}, {out});
  CHECK_VALUES(out, 0, 0);
}

TEST(sparse_operands_that_are_refused) {
  const I64 pointers({3}, {0, 1, 2}), falling({3}, {0, 2, 1}), columns({2}, {1, 0}), far({2}, {1, 2});
  const F32 values({2}, {2, 1}), dense({2, 2}, {1, 2, 3, 4});
  F32 out({2, 2}, {7, 7, 7, 7});
  const auto csr = [&](const I64& p, const I64& c) { return list({p.tensor(), c.tensor(), values.tensor()}); };
  std::string why;
  CHECK_EQ(run("aten::mm", {csr(pointers, far), dense}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "an index outside the sparse operand");
  CHECK_EQ(run("aten::mm", {csr(falling, columns), dense}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "column pointers");
  CHECK_EQ(run("aten::mm", {csr(pointers, columns), csr(pointers, columns)}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "two sparse operands");
  CHECK_EQ(run("aten::mm", {list({values.tensor()}), dense}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_EQ(run("aten::exp", {csr(pointers, columns)}, {out}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_VALUES(out, 7, 7, 7, 7);
}

TEST(places_of_what_is_not_zero) {
  const F32 in({2, 3}, {0, 2, 0, static_cast<float>(kNan), 0, -1});
  const std::vector<Result> results = sized("aten::nonzero", {in});
  CHECK_EQ(results.size(), size_t{1});
  CHECK_EQ(results[0].dtype, RAL_INT64);
  CHECK_DIMS(results[0].shape, 3, 2);
  CHECK_DIMS(results[0].strides, 1, 3);  // column after column
  I64 out(results[0].shape, std::vector<int64_t>(6), results[0].strides);
  RUNS("aten::nonzero", {in}, {out});
  CHECK_VALUES(out, 0, 1, 1, 1, 0, 2);
  I64 small({2, 2}, {7, 7, 7, 7});
  std::string why;
  CHECK_EQ(run("aten::nonzero", {in}, {small}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "no room for 3");
  CHECK_VALUES(small, 7, 7, 7, 7);
  CHECK_DIMS(sized("aten::nonzero", {F32({}, {1})})[0].shape, 1, 0);
}

TEST(masked_elements) {
  const F32 in({3, 1}, {1, 2, 3});
  const Tensor<uint8_t> mask({2}, {0, 1}, {}, 0, kType<bool>);
  CHECK_DIMS(sized("aten::masked_select", {in, mask})[0].shape, 3);
  F32 out({3}, {0, 0, 0});
  RUNS("aten::masked_select", {in, mask}, {out});
  CHECK_VALUES(out, 1, 2, 3);
  std::vector<Result> results;
  std::string why;
  const ral_value wrong[] = {in, in};
  CHECK_EQ(find_sizing("aten::masked_select")(wrong, 2, &results, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "other than bool");
  CHECK(results.empty());
}

TEST(distinct_elements) {
  const F32 in({2, 3}, {3, 1, 3, static_cast<float>(kNan), 1, 1});
  const std::vector<ral_value> args = {in, truth(true), truth(true), truth(true)};
  const std::vector<Result> results = sized("aten::_unique2", args);
  CHECK_EQ(results.size(), size_t{3});
  CHECK_DIMS(results[0].shape, 3);
  CHECK_DIMS(results[1].shape, 2, 3);
  CHECK_DIMS(results[2].shape, 3);
  F32 values({3}, {0, 0, 0});
  I64 inverse({2, 3}, std::vector<int64_t>(6)), counts({3}, {0, 0, 0});
  RUNS("aten::_unique2", args, {values, inverse, counts});
  CHECK(values.values()[0] == 1 && values.values()[1] == 3 && std::isnan(values.values()[2]));
  CHECK_VALUES(inverse, 1, 0, 1, 2, 0, 0);
  CHECK_VALUES(counts, 3, 2, 1);
  CHECK_DIMS(sized("aten::_unique2", {in, truth(true), truth(false), truth(false)})[1].shape, 0);
}

TEST(sizing_of_what_has_a_known_size) {
  CHECK(find_sizing("aten::add.Tensor") == nullptr);
  CHECK(find_sizing("aten::no_such_thing") == nullptr);
}

TEST(volumes_are_pooled) {
  const F32 in({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  F32 out({1, 1, 1, 1}, {0}), back({1, 2, 2, 2}, std::vector<float>(8));
  I64 place({1, 1, 1, 1}, {0});
  const ral_value two = ints({2, 2, 2}), one = ints({1, 1, 1}), zero = ints({0, 0, 0});
  RUNS("aten::max_pool3d_with_indices", {in, two, two, zero, one, truth(false)}, {out, place});
  CHECK_VALUES(out, 8);
  CHECK_VALUES(place, 7);
  RUNS("aten::avg_pool3d", {in, two, two, zero, truth(false), truth(true), none()}, {out});
  CHECK_VALUES(out, 4.5f);
  RUNS("aten::avg_pool3d_backward", {out, in, two, two, zero, truth(false), truth(true), number(9)}, {back});
  CHECK_VALUES(back, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f);
  RUNS("aten::max_unpool3d", {out, place, two, two, zero}, {back});
  CHECK_VALUES(back, 0, 0, 0, 0, 0, 0, 0, 4.5f);
  const I64 beyond({1, 1, 1, 1}, {8});
  std::string why;
  CHECK_EQ(run("aten::max_unpool3d", {out, beyond, two, two, zero}, {back}, &why), RAL_ERROR_UNSUPPORTED);
  CHECK_HAS(why, "an index outside the plane");
}

TEST(samples_of_a_grid) {
  // Corner, middle, a quarter and outside of the row 10 20 30, whose ends are -1 and 1.
  const F32 in({1, 1, 1, 3}, {10, 20, 30}), grid({1, 1, 4, 2}, {-1, 0, 0, 0, 0.5f, 0, 3, 0});
  F32 out({1, 1, 1, 4}, {0, 0, 0, 0});
  RUNS("aten::grid_sampler_2d", {in, grid, number(0), number(0), truth(true)}, {out});
  CHECK_VALUES(out, 10, 20, 25, 0);
  RUNS("aten::grid_sampler_2d", {in, grid, number(0), number(1), truth(true)}, {out});
  CHECK_VALUES(out, 10, 20, 25, 30);
  RUNS("aten::grid_sampler_2d", {in, grid, number(0), number(2), truth(true)}, {out});  // 3 is mirrored to -1
  CHECK_VALUES(out, 10, 20, 25, 10);
}

int main(int argc, char** argv) { return check::main(argc, argv); }
