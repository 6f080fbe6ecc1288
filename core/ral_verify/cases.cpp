// Patterns made into arguments, and the outputs that they ask for.
#include "cases.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>

#include "ral/status.h"

namespace ral_verify {

namespace {

enum class Layout { Dense, Transposed, Sliced, Offset, Expanded };

struct Operand {
  Dims shape;
  Layout layout;
};

// The operands of one element-wise case; the last stands for all further tensors.
struct Arrangement {
  const char* name;
  std::vector<Operand> operands;
};

const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all = {
      {"rank 2", {{{33, 65}, Layout::Dense}}},
      {"rank 3, mixed strides",
       {{{7, 5, 40}, Layout::Sliced}, {{7, 5, 40}, Layout::Dense}, {{7, 5, 40}, Layout::Transposed}}},
      {"rank 2, transposed", {{{65, 33}, Layout::Transposed}}},
      {"rank 2, at an offset", {{{3, 250}, Layout::Offset}}},
      {"broadcast", {{{4, 3, 50}, Layout::Expanded}, {{3, 50}, Layout::Expanded}, {{1}, Layout::Dense}}},
      {"rank 1", {{{1031}, Layout::Dense}}},
      {"rank 0", {{{}, Layout::Dense}}},
      {"rank 0 second", {{{5, 6}, Layout::Transposed}, {{}, Layout::Dense}}},
      {"rank 6", {{{2, 1, 3, 2, 4, 3}, Layout::Transposed}, {{2, 1, 3, 2, 4, 3}, Layout::Dense}}},
      {"rank 8", {{{2, 1, 3, 2, 2, 1, 2, 3}, Layout::Dense}}},
      {"empty", {{{0, 4}, Layout::Dense}}},
  };
  return all;
}

class Draw {
 public:
  explicit Draw(const std::string& seed) : engine_(std::hash<std::string>()(seed)) {}

  void fill(Tensor& tensor, double low, double high) {
    const int64_t count = static_cast<int64_t>(tensor.bytes.size() / ral::dtype_size(tensor.dtype));
    const bool is_unsigned = tensor.dtype == RAL_UINT8 || tensor.dtype >= RAL_UINT16;
    for (int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(engine_() >> 11) / 9007199254740992.0;
      if (tensor.dtype == RAL_BOOL)
        store(tensor, i, unit < 0.5);
      else if (is_floating(tensor.dtype))
        store(tensor, i, low + unit * (high - low));
      else if (low >= 0)
        store(tensor, i, 1 + static_cast<int>(unit * 9));
      else
        store(tensor, i, static_cast<int>(unit * (is_unsigned ? 10 : 19)) - (is_unsigned ? 0 : 9));
    }
  }

  // Whole numbers, each once, in any order: no ties. At most 200 fit into 8 bits.
  void fill_distinct(Tensor& tensor) {
    std::vector<int> numbers(tensor.bytes.size() / ral::dtype_size(tensor.dtype));
    const bool is_unsigned = tensor.dtype == RAL_UINT8 || tensor.dtype >= RAL_UINT16;
    std::iota(numbers.begin(), numbers.end(), is_unsigned ? 0 : -static_cast<int>(numbers.size() / 2));
    for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[engine_() % i]);
    for (size_t i = 0; i < numbers.size(); ++i) store(tensor, static_cast<int64_t>(i), numbers[i]);
  }

 private:
  std::mt19937_64 engine_;
};

// Memory for a tensor of that shape and layout, not yet filled.
Tensor arranged(ral_dtype dtype, const Dims& shape, Layout layout) {
  Tensor tensor = dense(dtype, shape, 0);
  const size_t size = ral::dtype_size(dtype);
  if (shape.empty()) return tensor;
  switch (layout) {
    case Layout::Dense: break;
    case Layout::Transposed: {
      Dims reversed(shape.rbegin(), shape.rend());
      tensor.strides = dense_strides(reversed);
      std::reverse(tensor.strides.begin(), tensor.strides.end());
      break;
    }
    case Layout::Sliced: {  // every second element of wider rows
      if (!tensor.count()) break;
      Dims wide = shape;
      wide.back() = 2 * shape.back() + 3;
      tensor.strides = dense_strides(wide);
      tensor.strides.back() = 2;
      tensor.offset = 3;
      tensor.bytes.assign(product(wide) * size, 0);
      break;
    }
    case Layout::Offset:
      tensor.offset = 5;
      tensor.bytes.assign((product(shape) + 5) * size, 0);
      break;
    case Layout::Expanded: {
      Dims one = shape;
      one[0] = 1;
      tensor.strides = dense_strides(one);
      tensor.strides[0] = 0;
      tensor.bytes.assign(product(one) * size, 0);
      break;
    }
  }
  return tensor;
}

Dims numbers_in(const std::string& list) {
  Dims numbers;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(std::atoll(word.c_str()));
  return numbers;
}

// The bracketed lists of a token: "L[3,4][2,4]".
std::vector<Dims> lists_in(const std::string& token) {
  std::vector<Dims> lists;
  for (size_t at = token.find('['); at != std::string::npos; at = token.find('[', at + 1))
    lists.push_back(numbers_in(token.substr(at + 1, token.find(']', at) - at - 1)));
  return lists;
}

std::vector<std::string> patterns_of(const Op& op) {
  std::vector<std::string> patterns;
  const std::string all = op.patterns;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(" | ", begin), all.size());
    patterns.push_back(all.substr(begin, end - begin));
    begin = end + 3;
  }
  return patterns;
}

bool has_indices(const Op& op) { return op.shape == Shape::ValueIndex || op.type == Type::Index; }

struct Builder {
  const Op& op;
  ral_dtype dtype;
  Draw draw;
  size_t tensors = 0;

  Tensor tensor(ral_dtype type, const Dims& shape, Layout layout) {
    Tensor made = arranged(type, shape, layout);
    const bool later = tensors++ > 0 && op.later_low != -100;
    if (has_indices(op) && type != RAL_BOOL && made.bytes.size() / ral::dtype_size(type) <= 4096)
      draw.fill_distinct(made);
    else
      draw.fill(made, later ? op.later_low : op.low, op.high);
    return made;
  }

  Argument argument(const std::string& token, const Operand& operand) {
    Argument made;
    const std::string rest = token.substr(1);
    const std::vector<Dims> shapes = lists_in(token);
    switch (token[0]) {
      case 'T':
      case 'B':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {
            tensor(token[0] == 'B' ? RAL_BOOL : dtype, shapes.empty() ? operand.shape : shapes[0], operand.layout)};
        break;
      case 'Z':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {tensor(dtype, {}, Layout::Dense)};
        break;
      case 'L':
        made.tag = RAL_VALUE_TENSOR_LIST;
        for (const Dims& shape : shapes) made.tensors.push_back(tensor(dtype, shape, operand.layout));
        break;
      case 'D':
        made.tag = RAL_VALUE_DTYPE;
        made.i = dtype;
        break;
      case 'i':
      case 'b':
        made.tag = token[0] == 'i' ? RAL_VALUE_INT : RAL_VALUE_BOOL;
        made.i = std::atoll(rest.c_str());
        break;
      case 'd':
        made.tag = RAL_VALUE_DOUBLE;
        made.d = std::atof(rest.c_str());
        break;
      case 's':
        made.tag = RAL_VALUE_STRING;
        made.text = token.substr(2);
        break;
      case 'l':
        made.tag = RAL_VALUE_INT_LIST;
        made.ints = shapes[0];
        break;
      default: break;  // n
    }
    return made;
  }

  std::vector<Argument> arguments(const std::string& pattern, const std::vector<Operand>& operands) {
    std::vector<Argument> made;
    std::istringstream words(pattern);
    for (std::string token; words >> token;)
      made.push_back(argument(token, operands[std::min(tensors, operands.size() - 1)]));
    return made;
  }
};

std::vector<const Tensor*> tensors_of(const std::vector<Argument>& arguments) {
  std::vector<const Tensor*> all;
  for (const Argument& argument : arguments)
    for (const Tensor& tensor : argument.tensors) all.push_back(&tensor);
  return all;
}

Dims broadcast(const std::vector<const Tensor*>& tensors) {
  Dims shape;
  for (const Tensor* tensor : tensors) {
    const Dims& other = tensor->shape;
    if (other.size() > shape.size()) shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t d = 0; d < other.size(); ++d) {
      int64_t& size = shape[shape.size() - other.size() + d];
      if (size == 1) size = other[d];
    }
  }
  return shape;
}

Dims reduced(const Dims& shape, const Argument& dims, bool keep) {
  Dims chosen = dims.ints;
  if (dims.tag == RAL_VALUE_INT) chosen = {dims.i};
  std::vector<bool> gone(shape.size(), chosen.empty());
  for (int64_t d : chosen)
    if (!shape.empty()) gone[d < 0 ? d + static_cast<int64_t>(shape.size()) : d] = true;
  Dims left;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!gone[d]) left.push_back(shape[d]);
    if (gone[d] && keep) left.push_back(1);
  }
  return left;
}

std::vector<Dims> output_shapes(const Op& op, const std::vector<Argument>& arguments) {
  const std::vector<const Tensor*> tensors = tensors_of(arguments);
  const Dims& first = tensors[0]->shape;
  const auto keep = [&](size_t i) { return arguments[i].i != 0; };
  switch (op.shape) {
    case Shape::Broadcast: return {broadcast(tensors)};
    case Shape::First: return {first};
    case Shape::All: return {{}};
    case Shape::Dims:
    case Shape::Dim: return {reduced(first, arguments[1], keep(2))};
    case Shape::DimsLast: return {reduced(first, arguments[1], keep(3))};
    case Shape::ValueIndex: {
      const Dims shape = reduced(first, arguments[1], keep(2));
      return {shape, shape};
    }
    case Shape::LayerNorm: {
      Dims shape = first;
      std::fill(shape.end() - static_cast<int64_t>(arguments[1].ints.size()), shape.end(), 1);
      return {first, shape, shape};
    }
    case Shape::Matmul: {
      Dims shape = tensors[tensors.size() - 2]->shape;
      shape.back() = tensors.back()->shape.back();
      return {shape};
    }
    case Shape::Vector: return {{tensors[tensors.size() - 2]->shape[0]}};
    case Shape::Cat: {
      Dims shape = first;
      const int64_t dim = arguments[1].i < 0 ? arguments[1].i + static_cast<int64_t>(shape.size()) : arguments[1].i;
      for (size_t i = 1; i < tensors.size(); ++i) shape[dim] += tensors[i]->shape[dim];
      return {shape};
    }
  }
  return {};
}

ral_dtype output_type(const Op& op, ral_dtype dtype, size_t output) {
  if (op.shape == Shape::ValueIndex && output == 1) return RAL_INT64;
  if (op.shape == Shape::LayerNorm && output > 0 && dtype != RAL_FLOAT64) return RAL_FLOAT32;
  switch (op.type) {
    case Type::Same: return dtype;
    case Type::Bool: return RAL_BOOL;
    case Type::BoolOrByte: return dtype == RAL_UINT8 ? RAL_UINT8 : RAL_BOOL;
    case Type::Float: return is_floating(dtype) ? dtype : RAL_FLOAT32;
    case Type::Sum: return is_floating(dtype) ? dtype : RAL_INT64;
    case Type::Number: return dtype == RAL_BOOL ? RAL_INT64 : dtype;
    case Type::Index: return RAL_INT64;
  }
  return dtype;
}

// How many numbers are added up for one of the result, at most.
double terms(const Op& op, const Case& call) {
  if (op.shape == Shape::Broadcast) return 1;
  double most = 1;
  for (const Tensor* tensor : tensors_of(call.arguments)) {
    for (int64_t size : tensor->shape) most = std::max(most, static_cast<double>(size));
    const double outputs = static_cast<double>(std::max<int64_t>(1, call.outputs[0].count()));
    most = std::max(most, static_cast<double>(tensor->count()) / outputs);
  }
  return most;
}

Case make_case(const Op& op, ral_dtype dtype, const std::string& pattern, const std::string& arrangement,
               const std::vector<Operand>& operands) {
  Case call;
  call.name = "(" + pattern + "), " + ral::dtype_name(dtype) + ", " + arrangement;
  Builder builder{op, dtype, Draw(op.name + call.name)};
  call.arguments = builder.arguments(pattern, operands);
  const std::vector<Dims> shapes = output_shapes(op, call.arguments);
  for (size_t i = 0; i < shapes.size(); ++i)
    call.outputs.push_back(dense(output_type(op, dtype, i), shapes[i], kPoison, kGuard));
  // An element-wise result is laid out as its inputs are.
  const bool follows = op.shape == Shape::Broadcast && operands[0].layout == Layout::Transposed;
  if (follows && call.outputs[0].shape == operands[0].shape) {
    const Dims& shape = call.outputs[0].shape;
    call.outputs[0].strides = dense_strides(Dims(shape.rbegin(), shape.rend()));
    std::reverse(call.outputs[0].strides.begin(), call.outputs[0].strides.end());
  }
  call.terms = terms(op, call);
  call.judged = op.shape == Shape::ValueIndex && dtype == RAL_BOOL ? 1 : call.outputs.size();
  return call;
}

void add_elementwise(std::vector<Case>& cases, const Op& op, ral_dtype dtype, int max_rank, bool main_type) {
  const std::vector<std::string> patterns = patterns_of(op);
  for (size_t p = 0; p < patterns.size(); ++p) {
    size_t left = main_type && p == 0 ? arrangements().size() : p == 0 ? 2 : 1;
    for (const Arrangement& each : arrangements()) {
      if (left-- == 0) break;
      if (static_cast<int>(each.operands[0].shape.size()) > max_rank) continue;
      cases.push_back(make_case(op, dtype, patterns[p], each.name, each.operands));
    }
  }
}

void add_others(std::vector<Case>& cases, const Op& op, ral_dtype dtype, bool main_type) {
  const std::vector<std::pair<Layout, const char*>> layouts = {{Layout::Dense, "contiguous"},
                                                               {Layout::Transposed, "transposed"},
                                                               {Layout::Sliced, "sliced"},
                                                               {Layout::Offset, "at an offset"},
                                                               {Layout::Expanded, "expanded"}};
  const std::vector<std::string> patterns = patterns_of(op);
  for (size_t p = 0; p < patterns.size() && (main_type || p < 2); ++p) {
    const size_t kept = main_type ? layouts.size() : p == 0 ? 2 : 1;
    for (size_t l = 0; l < kept; ++l) {
      if (has_indices(op) && layouts[l].first == Layout::Expanded) continue;  // equal rows tie
      if (patterns[p].find("[0") != std::string::npos && l > 0) continue;     // empty: no layout to speak of
      cases.push_back(make_case(op, dtype, patterns[p], layouts[l].second, {{{}, layouts[l].first}}));
    }
  }
}

}  // namespace

std::vector<Case> cases_of(const Op& op, ral_dtype dtype, int max_rank, bool main_type) {
  std::vector<Case> cases;
  if (std::string(op.patterns).find('[') == std::string::npos)
    add_elementwise(cases, op, dtype, max_rank, main_type);
  else
    add_others(cases, op, dtype, main_type);
  return cases;
}

Case speed_case(const Op& op) {
  const std::string pattern = *op.speed ? op.speed : patterns_of(op)[0];
  return make_case(op, RAL_FLOAT32, pattern, "1 M elements", {{{1024, 1024}, Layout::Dense}});
}

}  // namespace ral_verify
