// Patterns made into calls: the arguments, the outputs that they ask for, and which calls make up an aspect.
#include "cases.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ral/status.h"

namespace ral_verify {

namespace {

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

std::vector<const Tensor*> tensors_of(const std::vector<Argument>& arguments) {
  std::vector<const Tensor*> all;
  for (const Argument& argument : arguments)
    for (const Tensor& tensor : argument.tensors)
      if (tensor.dtype >= 0) all.push_back(&tensor);
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
    case Shape::Given: break;  // by the pattern
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
  if (op.shape == Shape::LayerNorm && output > 0) return accumulate_type(dtype);
  switch (op.type) {
    case Type::Same: return dtype;
    case Type::Bool: return RAL_BOOL;
    case Type::BoolOrByte: return dtype == RAL_UINT8 ? RAL_UINT8 : RAL_BOOL;
    case Type::Float: return dtype < RAL_FLOAT16 || is_unsigned(dtype) ? ral_dtype{RAL_FLOAT32} : dtype;
    case Type::Sum: return dtype < RAL_FLOAT16 || is_unsigned(dtype) ? ral_dtype{RAL_INT64} : dtype;
    case Type::Real: return real_type(dtype);
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
    if (op.shape == Shape::Given && !tensor->shape.empty() && tensor->shape[0])
      most = std::max(most, static_cast<double>(tensor->count() / tensor->shape[0]));
    const double outputs = static_cast<double>(std::max<int64_t>(1, call.outputs[0].count()));
    most = std::max(most, static_cast<double>(tensor->count()) / outputs);
  }
  return most;
}

// What a case is made of.
struct Plan {
  std::string pattern, arrangement;
  std::vector<Operand> operands;
  Aspect aspect = Aspect::Values;
  Special special = Special::None;
  ral_dtype result = -1;  // what the outputs' types follow from; -1: the tested type
};

Case make_case(const Op& op, ral_dtype dtype, const Plan& plan) {
  const std::vector<Operand>& operands = plan.operands;
  Case call;
  call.aspect = plan.aspect;
  call.name = "(" + inputs_of(plan.pattern) + "), " + ral::dtype_name(dtype) + ", " + plan.arrangement;
  if (plan.aspect != Aspect::Values) call.name += std::string(", ") + aspect_name(plan.aspect);
  call.arguments = make_arguments(op, dtype, plan.pattern, operands, plan.special, op.name + call.name);
  const ral_dtype result = plan.result < 0 ? dtype : plan.result;
  for (const std::string& word : outputs_of(plan.pattern)) call.outputs.push_back(make_output(word, result));
  if (op.shape != Shape::Given) {
    const std::vector<Dims> shapes = output_shapes(op, call.arguments);
    for (size_t i = 0; i < shapes.size(); ++i)
      call.outputs.push_back(dense(output_type(op, result, i), shapes[i], kPoison, kGuard));
  }
  // An element-wise result is laid out as its inputs are.
  const bool follows = op.shape == Shape::Broadcast && operands[0].layout == Layout::Transposed;
  if (follows && call.outputs[0].shape == operands[0].shape) {
    const Dims& shape = call.outputs[0].shape;
    call.outputs[0].strides = dense_strides(Dims(shape.rbegin(), shape.rend()));
    std::reverse(call.outputs[0].strides.begin(), call.outputs[0].strides.end());
  }
  call.terms = terms(op, call);
  call.judged = call.outputs.size();
  if (dtype == RAL_BOOL && wants_distinct(op) && call.judged == 2) call.judged = 1;
  for (const std::string& word : outputs_of(plan.pattern))
    if (word.back() == '?') --call.judged;
  return call;
}

bool is_elementwise(const Op& op) { return std::string(op.patterns).find('[') == std::string::npos; }

std::vector<std::string> patterns_of(const Op& op) { return words_of(op.patterns, " | "); }

void add_elementwise(std::vector<Case>& cases, const Op& op, ral_dtype dtype, int max_rank, bool main_type) {
  const std::vector<std::string> patterns = patterns_of(op);
  for (size_t p = 0; p < patterns.size(); ++p) {
    size_t left = main_type && p == 0 ? arrangements().size() : p == 0 ? 2 : 1;
    for (const Arrangement& each : arrangements()) {
      if (left-- == 0) break;
      if (static_cast<int>(each.operands[0].shape.size()) > max_rank) continue;
      cases.push_back(make_case(op, dtype, {patterns[p], each.name, each.operands}));
    }
  }
}

struct NamedLayout {
  Layout layout;
  const char* name;
};
constexpr NamedLayout kLayouts[] = {{Layout::Dense, "contiguous"},
                                    {Layout::Transposed, "transposed"},
                                    {Layout::Sliced, "sliced"},
                                    {Layout::Offset, "at an offset"},
                                    {Layout::Expanded, "expanded"}};

void add_others(std::vector<Case>& cases, const Op& op, ral_dtype dtype, bool main_type) {
  const std::vector<std::string> patterns = patterns_of(op);
  for (size_t p = 0; p < patterns.size() && (main_type || p < 2); ++p) {
    size_t left = main_type ? std::size(kLayouts) : p == 0 ? 2 : 1;
    for (const NamedLayout& each : kLayouts) {
      if (left-- == 0) break;
      if (wants_distinct(op) && each.layout == Layout::Expanded) continue;  // equal rows tie
      if (inputs_of(patterns[p]).find("[0") != std::string::npos && each.layout != Layout::Dense) continue;
      cases.push_back(make_case(op, dtype, {patterns[p], each.name, {{{}, each.layout}}}));
    }
  }
}

// ---- NaN and infinity ----------------------------------------------------------------------------

bool name_has(const Op& op, const char* part) { return std::strstr(op.name, part) != nullptr; }

// PyTorch's scalar and vector code give these operators different results for NaN or infinities.
bool is_unsettled(const Op& op) {
  static const std::set<std::string> names = {"elu_backward",   "hardtanh_backward",   "hardswish_backward",
                                              "logit_backward", "hardshrink_backward", "softshrink_backward"};
  return names.count(op.name) > 0;
}

// Infinities have no settled mean and variance, nor gelu and power; a convolution's or a resampling's zero weights may
// spread a NaN.
Special special_of(const Op& op) {
  if (is_unsettled(op) || name_has(op, "convolution") || name_has(op, "upsample")) return Special::None;
  const std::string name = op.name;
  if (name == "gelu" || name == "pow.Tensor_Scalar") return Special::NanOnly;
  if (is_elementwise(op)) return Special::Everywhere;
  return name_has(op, "norm") || name_has(op, "_mean") || op.shape == Shape::DimsLast ? Special::NanOnly : Special::Few;
}

void add_special(Selection& selection, const Op& op, const std::vector<ral_dtype>& types) {
  const Special special = special_of(op);
  if (special == Special::None)
    return selection.leave_out(Aspect::Special, "PyTorch leaves open what NaN and infinity become");
  bool first = true;
  for (ral_dtype dtype : types) {
    if (!is_floating(dtype)) continue;
    std::vector<std::string> patterns = patterns_of(op);
    if (!first) patterns.resize(1);
    first = false;
    for (const std::string& pattern : patterns) {
      if (inputs_of(pattern).find("[0") != std::string::npos) continue;
      const Operand operand{{33, 65}, Layout::Dense};
      selection.cases.push_back(make_case(
          op, dtype, {pattern, is_elementwise(op) ? "rank 2" : "contiguous", {operand}, Aspect::Special, special}));
    }
  }
  if (first) selection.leave_out(Aspect::Special, "the manifest entry lists no floating type", true);
}

// ---- In place ------------------------------------------------------------------------------------

// Has the operator a form that writes its first tensor?
bool has_in_place(const Op& op) {
  static const std::set<std::string> others = {"cumsum",
                                               "tril",
                                               "triu",
                                               "addmm",
                                               "baddbmm",
                                               "addmv",
                                               "scatter.src",
                                               "scatter.value",
                                               "index_add",
                                               "index_copy",
                                               "scatter_add",
                                               "scatter_reduce.two",
                                               "index_put",
                                               "masked_scatter",
                                               "scatter.reduce",
                                               "scatter.value_reduce",
                                               "index_fill.int_Scalar",
                                               "index_fill.int_Tensor"};
  return is_elementwise(op) ? op.shape == Shape::Broadcast && op.patterns[0] == 'T' : others.count(op.name) > 0;
}

// The same call with the first tensor's memory as its output's. False where the output is another kind of tensor.
bool make_in_place(Case& call) {
  Tensor& self = call.arguments[0].tensors[0];
  if (call.outputs.size() != 1 || call.outputs[0].dtype != self.dtype || call.outputs[0].shape != self.shape)
    return false;
  self.bytes.resize(self.bytes.size() + kGuard, kPoison);
  call.outputs[0] = self;
  call.in_place = true;
  return true;
}

void add_in_place(Selection& selection, const Op& op, const std::vector<ral_dtype>& types, int max_rank) {
  if (!has_in_place(op)) return selection.leave_out(Aspect::InPlace, "the operator has no in-place form");
  const std::vector<Arrangement> elementwise = {
      {"rank 2", {{{33, 65}, Layout::Dense}}},
      {"rank 2, transposed", {{{65, 33}, Layout::Transposed}}},
      {"rank 3, sliced", {{{7, 5, 40}, Layout::Sliced}, {{7, 5, 40}, Layout::Dense}}},
      {"broadcast", {{{4, 3, 50}, Layout::Offset}, {{3, 50}, Layout::Dense}, {{1}, Layout::Dense}}}};
  const std::vector<Arrangement> others = {{"contiguous", {{{}, Layout::Dense}}},
                                           {"transposed", {{{}, Layout::Transposed}}},
                                           {"sliced", {{{}, Layout::Sliced}}}};
  size_t found = 0;
  for (size_t t = 0; t < types.size(); ++t)
    for (const std::string& pattern : patterns_of(op)) {
      const size_t before = found;
      for (const Arrangement& each : is_elementwise(op) ? elementwise : others) {
        if (inputs_of(pattern).find("[0") != std::string::npos) continue;
        if (static_cast<int>(each.operands[0].shape.size()) > max_rank) continue;
        Case call = make_case(op, types[t], {pattern, each.name, each.operands, Aspect::InPlace});
        if (!make_in_place(call)) continue;
        selection.cases.push_back(std::move(call));
        if (++found > before && t > 0) break;
      }
      if (found > before) break;  // one pattern a type
    }
  if (!found) selection.leave_out(Aspect::InPlace, "the result is of another type than its first tensor");
}

// ---- Two types, and numbers of the host ----------------------------------------------------------

// Operators whose last tensor may be of another type than the first, or a number.
bool promotes(const Op& op) {
  static const std::set<std::string> names = {"add.Tensor",
                                              "sub.Tensor",
                                              "rsub.Tensor",
                                              "mul.Tensor",
                                              "div.Tensor",
                                              "div.Tensor_mode",
                                              "maximum",
                                              "minimum",
                                              "fmax",
                                              "fmin",
                                              "atan2",
                                              "copysign.Tensor",
                                              "fmod.Tensor",
                                              "remainder.Tensor",
                                              "pow.Tensor_Tensor",
                                              "addcmul",
                                              "addcdiv",
                                              "where.self",
                                              "eq.Tensor",
                                              "ne.Tensor",
                                              "lt.Tensor",
                                              "le.Tensor",
                                              "gt.Tensor",
                                              "ge.Tensor",
                                              "bitwise_and.Tensor",
                                              "bitwise_or.Tensor",
                                              "bitwise_xor.Tensor",
                                              "logical_and",
                                              "logical_or",
                                              "logical_xor"};
  return names.count(op.name) > 0;
}

// The pattern with `with` in place of its last word that begins with one of `kinds`; "" where there is none.
std::string replaced(const std::string& pattern, const char* kinds, const std::string& with, bool first = false) {
  std::vector<std::string> words = words_of(pattern, " ");
  size_t at = words.size();
  for (size_t i = 1; i < words.size(); ++i)
    if (std::strchr(kinds, words[i][0]) && (at == words.size() || !first)) at = i;
  if (at == words.size()) return "";
  words[at] = with;
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool holds(const std::vector<ral_dtype>& types, ral_dtype dtype) {
  return std::find(types.begin(), types.end(), dtype) != types.end();
}

void add_mixed(Selection& selection, const Op& op, const std::vector<ral_dtype>& types) {
  static const std::pair<ral_dtype, ral_dtype> pairs[] = {
      {RAL_FLOAT32, RAL_INT64},   {RAL_INT64, RAL_FLOAT32},    {RAL_FLOAT32, RAL_FLOAT16}, {RAL_FLOAT16, RAL_BFLOAT16},
      {RAL_FLOAT32, RAL_FLOAT64}, {RAL_INT32, RAL_INT64},      {RAL_UINT8, RAL_INT8},      {RAL_INT64, RAL_BFLOAT16},
      {RAL_COMPLEX64, RAL_INT32}, {RAL_FLOAT32, RAL_COMPLEX64}};
  if (!promotes(op)) return selection.leave_out(Aspect::Mixed, "the operator takes tensors of one type");
  const std::string pattern = patterns_of(op)[0];
  size_t found = 0;
  for (const auto& [a, b] : pairs) {
    if (!holds(types, a) || !holds(types, b)) continue;
    Plan plan{replaced(pattern, "T", std::string("T:") + ral::dtype_name(b)), "rank 2", {{{33, 65}, Layout::Dense}}};
    plan.aspect = Aspect::Mixed;
    plan.result = promoted(a, b);
    selection.cases.push_back(make_case(op, a, plan));
    if (found++ > 0) continue;
    plan.arrangement = "broadcast";
    plan.operands = {{{4, 3, 50}, Layout::Dense}, {{3, 50}, Layout::Dense}, {{1}, Layout::Dense}};
    selection.cases.push_back(make_case(op, a, plan));
  }
  if (!found) selection.leave_out(Aspect::Mixed, "the manifest entry lists no two types that are tried together", true);
}

void add_number(Selection& selection, const Op& op, ral_dtype dtype, ral_dtype result, const std::string& pattern) {
  if (pattern.empty()) return;
  Plan plan{pattern, "rank 2", {{{33, 65}, Layout::Dense}}};
  plan.aspect = Aspect::Numbers;
  plan.result = result;
  selection.cases.push_back(make_case(op, dtype, plan));
}

// Numbers of three kinds: in a tensor's place (x + 1.5, or a 0-dim tensor of the host), and as a Scalar.
void add_numbers(Selection& selection, const Op& op, const std::vector<ral_dtype>& types) {
  static const std::set<std::string> one_tensor = {"masked_fill.Tensor", "fill.Tensor", "lerp.Tensor",
                                                   "clamp_min.Tensor", "clamp_max.Tensor"};
  const bool in_tensors_place = promotes(op) || one_tensor.count(op.name);
  const bool is_scalar = is_elementwise(op) && name_has(op, ".Scalar") && op.patterns[0] == 'T';
  if (!in_tensors_place && !is_scalar)
    return selection.leave_out(Aspect::Numbers, "the operator takes no number in a tensor's place");
  const std::string pattern = patterns_of(op)[0];
  const bool floats = holds(types, RAL_FLOAT32), complexes = holds(types, RAL_COMPLEX64);
  const auto put = [&](const char* number) {
    return in_tensors_place
               ? replaced(pattern, "TZ", std::string("H:") + number)
               : replaced(pattern, "id", std::string(number).substr(std::string(number).find(':') + 1), true);
  };
  const size_t before = selection.cases.size();
  const bool keeps = !promotes(op) && in_tensors_place;  // the result is of the first tensor's type
  for (ral_dtype dtype : {RAL_FLOAT32, RAL_INT64, RAL_BFLOAT16, RAL_COMPLEX64}) {
    if (!holds(types, dtype)) continue;
    if (in_tensors_place) {
      add_number(selection, op, dtype, dtype, put("int64:2"));
      if (is_floating(dtype)) add_number(selection, op, dtype, dtype, put("float64:1.5"));
      if (dtype == RAL_INT64 && floats && !keeps) add_number(selection, op, dtype, RAL_FLOAT32, put("float64:1.5"));
    } else if (is_floating(dtype)) {
      add_number(selection, op, dtype, dtype, put("float64:d1.5"));
    }
    if (dtype == RAL_COMPLEX64)
      add_number(selection, op, dtype, dtype, put(in_tensors_place ? "complex128:1.5,-0.5" : "complex128:c1.5,-0.5"));
    if (dtype == RAL_FLOAT32 && complexes && !keeps)
      add_number(selection, op, dtype, RAL_COMPLEX64,
                 put(in_tensors_place ? "complex128:1.5,-0.5" : "complex128:c1.5,-0.5"));
  }
  if (selection.cases.size() == before)
    selection.leave_out(Aspect::Numbers, "the manifest entry lists none of the types that are tried with numbers",
                        true);
}

}  // namespace

const char* aspect_name(Aspect aspect) {
  switch (aspect) {
    case Aspect::Values: return "values";
    case Aspect::Complex: return "complex types";
    case Aspect::Special: return "NaN and infinity";
    case Aspect::InPlace: return "in place";
    case Aspect::Mixed: return "mixed types";
    case Aspect::Numbers: return "host numbers";
  }
  return "";
}

Selection select_cases(const Op& op, const std::vector<ral_dtype>& types, int max_rank) {
  Selection selection;
  bool complex = false;
  for (ral_dtype dtype : types) {
    const size_t before = selection.cases.size();
    if (is_elementwise(op))
      add_elementwise(selection.cases, op, dtype, max_rank, dtype == types[0]);
    else
      add_others(selection.cases, op, dtype, dtype == types[0]);
    if (!is_complex(dtype)) continue;
    complex = true;
    for (size_t i = before; i < selection.cases.size(); ++i) selection.cases[i].aspect = Aspect::Complex;
  }
  if (!complex) selection.leave_out(Aspect::Complex, "the manifest entry lists no complex type", true);
  add_special(selection, op, types);
  add_in_place(selection, op, types, max_rank);
  add_mixed(selection, op, types);
  add_numbers(selection, op, types);
  return selection;
}

Case speed_case(const Op& op) {
  const std::string pattern = *op.speed ? op.speed : patterns_of(op)[0];
  return make_case(op, RAL_FLOAT32, {pattern, "1 M elements", {{{1024, 1024}, Layout::Dense}}});
}

}  // namespace ral_verify
