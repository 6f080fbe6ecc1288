// matmul.cpp - matrix products: mm, bmm, addmm, baddbmm, mv, addmv and dot, all as
//   out[b, m, n] = alpha * sum over k of A[b, m, k] * B[b, k, n] + beta * D[b, m, n]
// with any strides. Large ones pack both operands into panels and run a register tile over them; small
// ones go element by element.
#include <algorithm>
#include <unordered_map>

#include "plan.h"

namespace ralcl {
namespace {

struct Op {
  bool adds;  // the first argument is D, and beta and alpha follow the matrices
  int left;   // rank of A
  int right;  // rank of B
};

const std::unordered_map<std::string, Op>& ops() {
  static const std::unordered_map<std::string, Op> table = {
      {"mm", {false, 2, 2}}, {"bmm", {false, 3, 3}}, {"addmm", {true, 2, 2}}, {"baddbmm", {true, 3, 3}},
      {"mv", {false, 2, 1}}, {"dot", {false, 1, 1}}, {"addmv", {true, 2, 1}},
  };
  return table;
}

constexpr int64_t kTileWork = 32 * 32 * 32;  // multiplications from which packing pays

// A matrix of a batch: element [b, r, c] is at b * batch + r * row + c * column.
struct Matrix {
  int64_t batch = 0, row = 0, column = 0;
};

struct Product {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Matrix a, b, d, out;
  const ral_tensor* left = nullptr;
  const ral_tensor* right = nullptr;
  const ral_value* added = nullptr;  // null where beta is 0
  double alpha = 1, beta = 0;
  int64_t alpha_whole = 1, beta_whole = 0;
};

ral_status unsupported(const Call& call, const std::string& why) {
  return fail(RAL_ERROR_UNSUPPORTED, call.kernel.name + ": " + why);
}

// Strides of a broadcast tensor over [batch, m, n].
bool spread(const ral_tensor& tensor, int rank, const Product& p, Matrix& out) {
  const int64_t wanted[3] = {p.batch, p.m, p.n};
  int64_t strides[3] = {0, 0, 0};
  if (tensor.ndim > rank) return false;
  // A vector result (mv) has its elements along m.
  const int last = rank == 1 ? 1 : 2;
  for (int i = 0; i < tensor.ndim; ++i) {
    const int at = last - i, d = tensor.ndim - 1 - i;
    if (tensor.shape[d] == wanted[at])
      strides[at] = tensor.shape[d] == 1 ? 0 : tensor.strides[d];
    else if (tensor.shape[d] != 1)
      return false;
  }
  out = {strides[0], strides[1], strides[2]};
  return true;
}

ral_status read_scalars(const Call& call, Product& p) {
  p.beta = 1;
  p.beta_whole = 1;
  const ral_value* beta = argument(call, 3);
  const ral_value* alpha = argument(call, 4);
  if (beta && beta->tag != RAL_VALUE_NONE && !scalar_value(*beta, p.beta, p.beta_whole))
    return unsupported(call, "a beta that is no number");
  if (alpha && alpha->tag != RAL_VALUE_NONE && !scalar_value(*alpha, p.alpha, p.alpha_whole))
    return unsupported(call, "an alpha that is no number");
  return RAL_SUCCESS;
}

ral_status read_product(const Call& call, Product& p) {
  const Op& op = *static_cast<const Op*>(call.kernel.op);
  const uint32_t first = op.adds ? 1 : 0;
  if (call.out_count != 1 || !is_tensor(call.outs[0]) || call.arg_count < first + 2)
    return unsupported(call, "arguments that no kernel takes");
  for (uint32_t i = 0; i < first + 2; ++i)
    if (!is_tensor(call.args[i])) return unsupported(call, "arguments that no kernel takes");
  const ral_value& left = call.args[first];
  const ral_value& right = call.args[first + 1];
  p.left = left.u.tensor;
  p.right = right.u.tensor;
  const ral_dtype type = call.outs[0].dtype;
  if (left.dtype != right.dtype || left.dtype != type || type == RAL_BOOL || !usable(call.device, type))
    return unsupported(call, "mixed or unusable data types");
  const ral_tensor& a = *p.left;
  const ral_tensor& b = *p.right;
  if (a.ndim != op.left || b.ndim != op.right) return unsupported(call, "ranks that no kernel takes");
  int d = 0;
  if (op.left == 3) {
    p.batch = a.shape[0];
    p.a.batch = a.strides[0];
    p.b.batch = b.strides[0];
    d = 1;
  }
  if (op.left >= 2) {
    p.m = a.shape[d];
    p.a.row = a.strides[d++];
  }
  p.k = a.shape[d];
  p.a.column = a.strides[d];
  const int e = op.right == 3 ? 1 : 0;
  if (b.shape[e] != p.k || (op.right == 3 && b.shape[0] != p.batch)) return unsupported(call, "shapes that do not fit");
  p.b.row = b.strides[e];
  if (op.right >= 2) {
    p.n = b.shape[e + 1];
    p.b.column = b.strides[e + 1];
  }
  const int rank = op.left == 3 ? 3 : op.right == 2 ? 2 : op.left == 2 ? 1 : 0;
  const ral_tensor& out = *call.outs[0].u.tensor;
  if (out.ndim != rank || element_count(out) != p.batch * p.m * p.n || !spread(out, rank, p, p.out))
    return unsupported(call, "the output's shape does not fit");
  if (!op.adds) return RAL_SUCCESS;
  const ral_status status = read_scalars(call, p);
  if (status != RAL_SUCCESS) return status;
  if (!usable(call.device, call.args[0].dtype)) return unsupported(call, "a data type that this device cannot load");
  if (p.beta == 0) return RAL_SUCCESS;
  p.added = &call.args[0];
  return spread(*call.args[0].u.tensor, rank, p, p.d) ? RAL_SUCCESS : unsupported(call, "shapes that do not broadcast");
}

// Tile of one work-item: rows, and columns in vectors. 8 x 2 vectors fill 32 registers, 6 x 2 fill 16.
void tile_of(const Device& device, int64_t& rows, int64_t& vectors) {
  rows = device.vector_bytes == 64 ? 8 : 6;
  vectors = 2;
}

struct Dimensions {
  int64_t batch, m, n, k;
  Matrix a, b, out, d;
};

void finish_arguments(const Call& call, const Product& p, ral_dtype compute, Plan& plan) {
  plan.buffer(*call.outs[0].u.tensor);
  if (p.added) plan.buffer(*p.added->u.tensor);
  plan.scalar(compute, p.alpha, p.alpha_whole);
  plan.scalar(compute, p.beta, p.beta_whole);
  plan.value(Dimensions{p.batch, p.m, p.n, p.k, p.a, p.b, p.out, p.d});
}

void plan_tiles(const Call& call, const Product& p, ral_dtype compute, Plan& plan) {
  int64_t rows = 0, vectors = 0;
  tile_of(call.device, rows, vectors);
  const int64_t columns = vectors * lanes_of(call.device, compute);
  const auto m_panels = static_cast<int64_t>(divide_up(static_cast<size_t>(p.m), static_cast<size_t>(rows)));
  const auto n_panels = static_cast<int64_t>(divide_up(static_cast<size_t>(p.n), static_cast<size_t>(columns)));
  const uint64_t size = item_size(compute);
  const uint64_t a_bytes = (static_cast<uint64_t>(p.batch * m_panels * rows * p.k) * size + 127) & ~uint64_t{127};
  plan.workspace = a_bytes + static_cast<uint64_t>(p.batch * n_panels * columns * p.k) * size;
  const Dimensions dims{p.batch, p.m, p.n, p.k, p.a, p.b, p.out, p.d};
  constexpr int64_t kPackDepth = 256;  // k values of a panel that one work-item packs; matmul.cl has the same
  const size_t depths = divide_up(static_cast<size_t>(p.k), kPackDepth);
  plan.begin3("matmul_pack_a", 3, static_cast<size_t>(m_panels), depths, static_cast<size_t>(p.batch), 1);
  plan.buffer(*p.left);
  plan.scratch(call, 0);
  plan.value(dims);
  plan.begin3("matmul_pack_b", 3, static_cast<size_t>(n_panels), depths, static_cast<size_t>(p.batch), 1);
  plan.buffer(*p.right);
  plan.scratch(call, a_bytes);
  plan.value(dims);
  // Each work-item keeps one panel of B in its cache for several panels of A.
  const int64_t wanted = static_cast<int64_t>(call.device.info.compute_units) * 8;
  const int64_t chunks =
      std::clamp<int64_t>(wanted / (n_panels * p.batch) + 1, divide_up(static_cast<size_t>(m_panels), 16), m_panels);
  const auto chunk = static_cast<int64_t>(divide_up(static_cast<size_t>(m_panels), static_cast<size_t>(chunks)));
  plan.begin3("matmul_tiles", 3, divide_up(static_cast<size_t>(m_panels), static_cast<size_t>(chunk)),
              static_cast<size_t>(n_panels), static_cast<size_t>(p.batch), 1);
  plan.scratch(call, 0);
  plan.scratch(call, a_bytes);
  finish_arguments(call, p, compute, plan);
  plan.value(chunk);
}

ral_status plan(const Call& call, Plan& plan) {
  Product p;
  const ral_status status = read_product(call, p);
  if (status != RAL_SUCCESS) return status;
  const ral_dtype type = call.outs[0].dtype;
  const ral_dtype compute = compute_type(type);
  plan.key = static_cast<uint64_t>(type) | static_cast<uint64_t>(p.added ? p.added->dtype : 31) << 5;
  const int64_t results = p.batch * p.m * p.n;
  if (results == 0) return RAL_SUCCESS;
  if (p.m >= 4 && p.n >= 8 && p.k >= 4 && results * p.k >= kTileWork) {
    plan_tiles(call, p, compute, plan);
    return RAL_SUCCESS;
  }
  const bool long_rows = results * p.k / 4096 < 4 * static_cast<int64_t>(call.device.info.compute_units);
  const size_t local = !call.device.cpu || results >= 1024 ? std::min<size_t>(64, call.device.max_group)
                       : long_rows                         ? 8
                                                           : 1;
  plan.begin("matmul_direct", divide_up(static_cast<size_t>(results), local), local);
  plan.buffer(*p.left);
  plan.buffer(*p.right);
  finish_arguments(call, p, compute, plan);
  return RAL_SUCCESS;
}

void preamble(const Call& call, const Plan&, std::string& out) {
  Product p;
  if (read_product(call, p) != RAL_SUCCESS) return;
  const ral_dtype compute = compute_type(call.outs[0].dtype);
  int64_t rows = 0, vectors = 0;
  tile_of(call.device, rows, vectors);
  common_preamble(call.device, compute, out);
  define(out, "TYPE", short_name(call.outs[0].dtype));
  define(out, "TYPE_IS_T", compute == call.outs[0].dtype ? "1" : "0");
  if (p.added) define(out, "ADDED_TYPE", short_name(p.added->dtype));
  define(out, "ROWS", std::to_string(rows));
  define(out, "VECTORS", std::to_string(vectors));
}

}  // namespace

const Family kMatmul = {"matmul.cl",
                        [](const std::string& symbol) -> const void* {
                          auto found = ops().find(symbol);
                          return found == ops().end() ? nullptr : &found->second;
                        },
                        plan, preamble};

}  // namespace ralcl
