// Tensors in host memory: elements of every type, and their form in the plugin ABI.
#include "tensor.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "ral/status.h"

namespace ral_verify {

namespace {

constexpr ral_dl_type kTypes[RAL_DTYPE_COUNT] = {{6, 8, 1},  {1, 8, 1},   {0, 8, 1},  {0, 16, 1}, {0, 32, 1},
                                                 {0, 64, 1}, {2, 16, 1},  {4, 16, 1}, {2, 32, 1}, {2, 64, 1},
                                                 {5, 64, 1}, {5, 128, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}};

template <class T>
T load(const Tensor& tensor, int64_t at) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(Tensor& tensor, int64_t at, T value) {
  std::memcpy(tensor.bytes.data() + at * sizeof(T), &value, sizeof(T));
}

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = std::ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  return bits >> 15 ? -value : value;
}

// Truncates; numbers below the smallest normal one become 0. Finite test inputs are all within range.
uint16_t to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7E00;
  if (std::isinf(value)) return sign | 0x7C00;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  if (value == 0 || exponent < -13) return sign;
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 1023));
}

float from_bfloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t to_bfloat(double value) {
  const float narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (int64_t n : dims) all *= n;
  return all;
}

Dims dense_strides(const Dims& shape) {
  Dims strides(shape.size());
  int64_t unit = 1;
  for (size_t d = shape.size(); d-- > 0; unit *= shape[d]) strides[d] = unit;
  return strides;
}

Tensor dense(ral_dtype dtype, const Dims& shape, char fill, size_t guard) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = dense_strides(shape);
  tensor.bytes.assign(product(shape) * ral::dtype_size(dtype) + guard, fill);
  return tensor;
}

ral_dtype real_type(ral_dtype dtype) {
  return dtype == RAL_COMPLEX64 ? RAL_FLOAT32 : dtype == RAL_COMPLEX128 ? RAL_FLOAT64 : dtype;
}

std::string shape_text(const Dims& dims) {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d) text += (d ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}

int64_t Tensor::count() const { return product(shape); }

int64_t Tensor::held(size_t guard) const {
  return static_cast<int64_t>((bytes.size() - guard) / ral::dtype_size(dtype));
}

bool Tensor::contiguous() const {
  int64_t unit = 1;
  for (size_t d = shape.size(); d-- > 0; unit *= shape[d])
    if (shape[d] != 1 && strides[d] != unit && count() > 0) return false;
  return true;
}

bool is_floating(ral_dtype dtype) { return dtype >= RAL_FLOAT16 && dtype <= RAL_FLOAT64; }
bool is_complex(ral_dtype dtype) { return dtype == RAL_COMPLEX64 || dtype == RAL_COMPLEX128; }
bool is_unsigned(ral_dtype dtype) { return dtype == RAL_UINT8 || dtype >= RAL_UINT16; }

double epsilon(ral_dtype dtype) {
  switch (dtype) {
    case RAL_FLOAT16: return std::ldexp(1, -10);
    case RAL_BFLOAT16: return std::ldexp(1, -7);
    case RAL_FLOAT32:
    case RAL_COMPLEX64: return std::ldexp(1, -23);
    default: return std::ldexp(1, -52);
  }
}

ral_dtype promoted(ral_dtype a, ral_dtype b) {
  if (a > b) std::swap(a, b);  // bool, integers, floating and complex types come in this order
  if (a == b || b <= RAL_UINT8) return b;
  if (a == RAL_UINT8 && b == RAL_INT8) return RAL_INT16;
  if (a == RAL_FLOAT16 && b == RAL_BFLOAT16) return RAL_FLOAT32;
  if (a == RAL_FLOAT64 && b == RAL_COMPLEX64) return RAL_COMPLEX128;
  return b;
}

ral_dtype accumulate_type(ral_dtype dtype) {
  return dtype == RAL_FLOAT16 || dtype == RAL_BFLOAT16 ? RAL_FLOAT32 : dtype;
}

double read_real(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype) {
    case RAL_FLOAT16: return from_half(load<uint16_t>(tensor, at));
    case RAL_BFLOAT16: return from_bfloat(load<uint16_t>(tensor, at));
    case RAL_FLOAT32: return load<float>(tensor, at);
    case RAL_FLOAT64: return load<double>(tensor, at);
    default: return static_cast<double>(read_integer(tensor, at));
  }
}

int64_t read_integer(const Tensor& tensor, int64_t at) {
  switch (tensor.dtype) {
    case RAL_BOOL:
    case RAL_UINT8: return load<uint8_t>(tensor, at);
    case RAL_INT8: return load<int8_t>(tensor, at);
    case RAL_INT16: return load<int16_t>(tensor, at);
    case RAL_INT32: return load<int32_t>(tensor, at);
    case RAL_UINT16: return load<uint16_t>(tensor, at);
    case RAL_UINT32: return load<uint32_t>(tensor, at);
    default: return load<int64_t>(tensor, at);
  }
}

std::complex<double> read_complex(const Tensor& tensor, int64_t at) {
  if (tensor.dtype == RAL_COMPLEX64) return load<std::complex<float>>(tensor, at);
  return load<std::complex<double>>(tensor, at);
}

void store_complex(Tensor& tensor, int64_t at, std::complex<double> value) {
  if (tensor.dtype == RAL_COMPLEX64) return put(tensor, at, std::complex<float>(value));
  put(tensor, at, value);
}

void store(Tensor& tensor, int64_t at, double value) {
  if (is_complex(tensor.dtype)) return store_complex(tensor, at, value);
  switch (tensor.dtype) {
    case RAL_FLOAT16: return put(tensor, at, to_half(value));
    case RAL_BFLOAT16: return put(tensor, at, to_bfloat(value));
    case RAL_FLOAT32: return put(tensor, at, static_cast<float>(value));
    case RAL_FLOAT64: return put(tensor, at, value);
    default: {
      const auto whole = static_cast<int64_t>(value);
      std::memcpy(tensor.bytes.data() + at * ral::dtype_size(tensor.dtype), &whole, ral::dtype_size(tensor.dtype));
    }
  }
}

Packed::Packed(const std::vector<Argument>& arguments, const std::vector<Place>& places, int device_index) {
  size_t next = 0;
  const auto add_tensor = [&](const Tensor& tensor) -> const ral_tensor* {
    const Place& place = places[next++];
    if (tensor.dtype < 0) return nullptr;
    ral_tensor form{};
    form.data = place.data;
    form.device = {12, device_index};
    form.ndim = static_cast<int32_t>(tensor.shape.size());
    form.dtype = kTypes[tensor.dtype];
    form.shape = const_cast<int64_t*>(tensor.shape.data());
    form.strides = const_cast<int64_t*>(tensor.strides.data());
    form.byte_offset = place.offset + tensor.offset * ral::dtype_size(tensor.dtype);
    tensors_.push_back(form);
    return &tensors_.back();
  };
  for (const Argument& argument : arguments) {
    ral_value value{};
    value.tag = argument.tag;
    value.dtype = -1;
    switch (argument.tag) {
      case RAL_VALUE_TENSOR:
        value.dtype = argument.tensors[0].dtype;
        value.u.tensor = add_tensor(argument.tensors[0]);
        break;
      case RAL_VALUE_TENSOR_LIST:
        lists_.emplace_back();
        for (const Tensor& tensor : argument.tensors) lists_.back().push_back(add_tensor(tensor));
        value.u.tensors = {lists_.back().data(), lists_.back().size()};
        break;
      case RAL_VALUE_INT: value.u.i = argument.i; break;
      case RAL_VALUE_BOOL: value.u.b = static_cast<int32_t>(argument.i); break;
      case RAL_VALUE_DTYPE: value.dtype = static_cast<ral_dtype>(argument.i); break;
      case RAL_VALUE_DOUBLE: value.u.d = argument.d; break;
      case RAL_VALUE_HOST_SCALAR:
        value.dtype = argument.dtype;
        value.i64 = static_cast<int64_t>(argument.d);
        [[fallthrough]];
      case RAL_VALUE_COMPLEX: value.u.complex = {argument.d, argument.im}; break;
      case RAL_VALUE_BOOL_LIST: value.u.bools = {argument.bools.data(), argument.bools.size()}; break;
      case RAL_VALUE_INT_LIST: value.u.ints = {argument.ints.data(), argument.ints.size()}; break;
      case RAL_VALUE_STRING: value.u.string = argument.text.c_str(); break;
      default: break;
    }
    values_.push_back(value);
  }
}

}  // namespace ral_verify
