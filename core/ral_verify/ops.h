// How to call each operator: argument patterns, the range of its inputs, and what its outputs look like.
#pragma once
#include <cstddef>
#include <string>

namespace ral_verify {

// Shapes of the outputs.
enum class Shape {
  Broadcast,   // element-wise: all tensors broadcast together
  First,       // as the first tensor
  All,         // 0-dim
  Dims,        // argument 1 lists the reduced dims (none: all), keepdim follows
  DimsLast,    // the same, keepdim is argument 3
  Dim,         // argument 1 is the reduced dim (none: all), keepdim follows
  ValueIndex,  // Dim, and a second output of indices
  LayerNorm,   // result, mean, rstd
  Matmul,      // (m, k) x (k, n), batches before; the factors are the last two tensors
  Vector,      // (m, k) x (k)
  Cat,         // argument 0 lists tensors, argument 1 the dim
  Given        // by the pattern, behind "->"
};

// Types of the outputs, from the tested type.
enum class Type {
  Same,
  Bool,
  BoolOrByte,  // bool, but uint8 for uint8
  Float,       // float32 for integers and bool
  Sum,         // int64 for integers and bool
  Number,      // int64 for bool
  Real,        // float32 for complex64
  Index        // int64
};

// Patterns are separated by " | ", arguments by blanks:
//   T  tensor of the tested type   T[6,40]  of that shape   L[3,4][2,4]  list of tensors   Z  0-dim tensor
//   B  bool tensor   D  the tested type   i3  d0.5  b1  c1.5,-2  s:tanh  l[0,1]  m101: list of bools  n: not given
//   T:int64  tensor of another type   H:float64:1.5  0-dim tensor of the host
//   V[3]  tensor of what the tested type is summed in, 0.5 to 1.5
//   I6[2,3]  int64 tensor of 0 to 5   X6[2,3]  the same, none twice along a dim   O(I6[3];n)  list with absent tensors
//   -> T[2,3] I[2] V[3] R[3] B[2]  the outputs, where `shape` is Given; the last ones may be "V[3]?": any content
struct Op {
  const char* name;  // without "aten::"
  const char* patterns;
  Shape shape = Shape::Broadcast;
  Type type = Type::Same;
  double low = -3, high = 3;  // floats; integers lie within -9 .. 9, not below 0 where low >= 0
  double later_low = -100;    // of the tensors after the first; -100: low
  const char* speed = "";     // pattern of about 1 M elements; "": the first pattern on [1024, 1024]
};

extern const Op kModelOps[];  // layers, indexing, sorting, losses
extern const size_t kModelOpCount;

// nullptr for an operator that the suite has no arguments for. `name` is "aten::add.Tensor".
const Op* find_op(const std::string& name);

}  // namespace ral_verify
