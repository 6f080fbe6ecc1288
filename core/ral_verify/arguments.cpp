// Patterns read, memory laid out, values drawn.
#include "arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "ral/status.h"

namespace ral_verify {

namespace {

class Draw {
 public:
  explicit Draw(const std::string& seed) : engine_(std::hash<std::string>()(seed)) {}

  double unit() { return static_cast<double>(engine_() >> 11) / 9007199254740992.0; }

  void fill(Tensor& tensor, double low, double high) {
    for (int64_t i = 0; i < tensor.held(); ++i) {
      const double drawn = unit();
      if (tensor.dtype == RAL_BOOL)
        store(tensor, i, drawn < 0.5);
      else if (is_complex(tensor.dtype))
        store_complex(tensor, i, {low + drawn * (high - low), 2 * unit() - 1});
      else if (is_floating(tensor.dtype))
        store(tensor, i, low + drawn * (high - low));
      else if (low >= 0)
        store(tensor, i, 1 + static_cast<int>(drawn * 9));
      else
        store(tensor, i, is_unsigned(tensor.dtype) ? static_cast<int>(drawn * 10) : static_cast<int>(drawn * 19) - 9);
    }
  }

  // Whole numbers, each once, in any order: no ties. At most 200 fit into 8 bits.
  void fill_distinct(Tensor& tensor) {
    std::vector<int> numbers(tensor.held());
    std::iota(numbers.begin(), numbers.end(), is_unsigned(tensor.dtype) ? 0 : -static_cast<int>(numbers.size() / 2));
    for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[engine_() % i]);
    for (size_t i = 0; i < numbers.size(); ++i) store(tensor, static_cast<int64_t>(i), numbers[i]);
  }

  // 0 to before `bound`.
  void fill_indices(Tensor& tensor, int64_t bound) {
    for (int64_t i = 0; i < tensor.held(); ++i) store(tensor, i, std::floor(unit() * static_cast<double>(bound)));
  }

  void add_special(Tensor& tensor, Special special) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    const double all[] = {nan, inf, -inf, -0.0};
    const int64_t count = tensor.held();
    if (special == Special::None || !is_floating(tensor.dtype) || count == 0) return;
    if (special == Special::Everywhere) {
      for (int64_t i = 0; i < count; ++i)
        if (engine_() % 4 == 0 || count < 4) store(tensor, i, all[engine_() % 4]);
      return;
    }
    store(tensor, count / 5, nan);
    if (special == Special::NanOnly || count < 5) return;
    store(tensor, count / 2, inf);
    store(tensor, count * 4 / 5, -inf);
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

// The text behind the token's `at`-th colon: "H:float64:1.5".
std::string part(const std::string& token, size_t at) {
  const std::vector<std::string> parts = words_of(token, ":");
  return at < parts.size() ? parts[at] : "";
}

ral_dtype type_in(const std::string& token, ral_dtype otherwise) {
  ral_dtype named = otherwise;
  const std::string name = part(token, 1);
  return name.empty() || !ral::dtype_from_name(name, &named) ? otherwise : named;
}

struct Builder {
  const Op& op;
  ral_dtype dtype;
  Special special;
  Draw draw;
  size_t tensors = 0;

  Tensor tensor(ral_dtype type, const Dims& shape, Layout layout) {
    Tensor made = arranged(type, shape, layout);
    const bool later = tensors++ > 0 && op.later_low != -100;
    if (wants_distinct(op) && type != RAL_BOOL && made.held() <= 4096)
      draw.fill_distinct(made);
    else
      draw.fill(made, later ? op.later_low : op.low, op.high);
    // Behind a weight or index, zeros of a padding may or may not meet a NaN.
    if (special == Special::Everywhere || tensors == 1 || op.shape != Shape::Given) draw.add_special(made, special);
    return made;
  }

  // I: "I6[2,3]" holds 0 to 5. X: the same with every index at most once along each dim.
  Tensor indices(const std::string& token, Layout layout) {
    Tensor made = arranged(RAL_INT64, lists_in(token)[0], layout == Layout::Expanded ? Layout::Dense : layout);
    const int64_t bound = std::atoll(token.c_str() + 1);
    ++tensors;
    if (token[0] == 'I') {
      draw.fill_indices(made, bound);
      return made;
    }
    Dims at(made.shape.size(), 0);
    for (int64_t i = 0; i < made.count(); ++i) {
      int64_t place = made.offset, sum = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        place += at[d] * made.strides[d];
        sum += at[d];
      }
      store(made, place, static_cast<double>(sum % bound));
      for (size_t d = at.size(); d-- > 0 && ++at[d] == made.shape[d];) at[d] = 0;
    }
    return made;
  }

  // "O(I5[3];n)": a list in which tensors may be absent.
  std::vector<Tensor> optional_tensors(const std::string& token, Layout layout) {
    std::vector<Tensor> made;
    for (const std::string& word : words_of(token.substr(2, token.size() - 3), ";"))
      made.push_back(word == "n" ? Tensor() : indices(word, layout));
    return made;
  }

  Argument argument(const std::string& token, const Operand& operand) {
    Argument made;
    const std::string rest = token.substr(1);
    const std::vector<Dims> shapes = lists_in(token);
    const Dims& shape = shapes.empty() ? operand.shape : shapes[0];
    switch (token[0]) {
      case 'T':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {tensor(type_in(token, dtype), shape, operand.layout)};
        break;
      case 'B':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {tensor(RAL_BOOL, shape, operand.layout)};
        break;
      case 'V':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {arranged(accumulate_type(dtype), shape, operand.layout)};
        draw.fill(made.tensors[0], 0.5, 1.5);
        ++tensors;
        break;
      case 'I':
      case 'X':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {indices(token, operand.layout)};
        break;
      case 'Z':
        made.tag = RAL_VALUE_TENSOR;
        made.tensors = {tensor(dtype, {}, Layout::Dense)};
        break;
      case 'L':
        made.tag = RAL_VALUE_TENSOR_LIST;
        for (const Dims& each : shapes) made.tensors.push_back(tensor(dtype, each, operand.layout));
        break;
      case 'O':
        made.tag = RAL_VALUE_TENSOR_LIST;
        made.tensors = optional_tensors(token, operand.layout);
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
      case 'm':
        made.tag = RAL_VALUE_BOOL_LIST;
        for (const char c : rest) made.bools.push_back(c == '1');
        break;
      case 'd':
        made.tag = RAL_VALUE_DOUBLE;
        made.d = std::atof(rest.c_str());
        break;
      case 'c':
        made.tag = RAL_VALUE_COMPLEX;
        made.d = std::atof(rest.c_str());
        made.im = std::atof(rest.c_str() + rest.find(',') + 1);
        break;
      case 'H': {
        const std::string value = part(token, 2);
        made.tag = RAL_VALUE_HOST_SCALAR;
        made.dtype = type_in(token, dtype);
        made.d = std::atof(value.c_str());
        if (is_complex(made.dtype)) made.im = std::atof(value.c_str() + value.find(',') + 1);
        break;
      }
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
};

}  // namespace

std::vector<std::string> words_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return words;
}

std::string inputs_of(const std::string& pattern) { return pattern.substr(0, pattern.find(" -> ")); }

std::vector<std::string> outputs_of(const std::string& pattern) {
  const size_t at = pattern.find(" -> ");
  return at == std::string::npos ? std::vector<std::string>() : words_of(pattern.substr(at + 4), " ");
}

std::vector<Argument> make_arguments(const Op& op, ral_dtype dtype, const std::string& pattern,
                                     const std::vector<Operand>& operands, Special special, const std::string& seed) {
  Builder builder{op, dtype, special, Draw(seed)};
  std::vector<Argument> made;
  for (const std::string& token : words_of(inputs_of(pattern), " "))
    made.push_back(builder.argument(token, operands[std::min(builder.tensors, operands.size() - 1)]));
  return made;
}

Tensor make_output(const std::string& word, ral_dtype dtype) {
  const ral_dtype type = word[0] == 'I'   ? ral_dtype{RAL_INT64}
                         : word[0] == 'B' ? ral_dtype{RAL_BOOL}
                         : word[0] == 'V' ? accumulate_type(dtype)
                         : word[0] == 'R' ? real_type(dtype)
                                          : dtype;
  return dense(type, lists_in(word)[0], kPoison, kGuard);
}

bool wants_distinct(const Op& op) {
  return op.shape == Shape::ValueIndex || op.type == Type::Index ||
         std::string(op.patterns).find("] I[") != std::string::npos;
}

}  // namespace ral_verify
