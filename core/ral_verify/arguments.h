// Arguments of one call, made from a pattern of the table of operators.
#pragma once
#include <string>
#include <vector>

#include "ops.h"
#include "tensor.h"

namespace ral_verify {

enum class Layout { Dense, Transposed, Sliced, Offset, Expanded };

// A tensor argument whose pattern gives no shape; every tensor takes the layout.
struct Operand {
  Dims shape;
  Layout layout;
};

// NaN and infinities among the floating inputs. Few: one of each a tensor, for operators that join many elements into one.
enum class Special { None, Everywhere, Few, NanOnly };

std::vector<std::string> words_of(const std::string& text, const std::string& separator);
// Without the outputs behind "->".
std::string inputs_of(const std::string& pattern);
// The words behind "->".
std::vector<std::string> outputs_of(const std::string& pattern);

// `operands` lists what the first tensors look like; the last stands for all further ones. The values are drawn anew
// for each `seed`, the same in every run.
std::vector<Argument> make_arguments(const Op& op, ral_dtype dtype, const std::string& pattern,
                                     const std::vector<Operand>& operands, Special special, const std::string& seed);
// An output of the explicit form "T[2,3]": T the tested type, V what it is summed in, R its real
// parts' type, I int64, B bool.
Tensor make_output(const std::string& word, ral_dtype dtype);

// Are the values of an operator's first tensor all distinct, as indices are a result?
bool wants_distinct(const Op& op);

}  // namespace ral_verify
