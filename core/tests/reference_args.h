// Arguments of reference kernels for the tests: tensors with their memory, numbers, lists, and the call.
#pragma once
#include <complex>
#include <cstdint>
#include <deque>
#include <limits>

#include "check.h"
#include "ral/reference.h"

namespace reference_test {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
using Dims = std::vector<int64_t>;

template <class T>
constexpr ral_dl_type kType = {0, 0, 1};
template <>
constexpr ral_dl_type kType<bool> = {6, 8, 1};
template <>
constexpr ral_dl_type kType<uint8_t> = {1, 8, 1};
template <>
constexpr ral_dl_type kType<int8_t> = {0, 8, 1};
template <>
constexpr ral_dl_type kType<int32_t> = {0, 32, 1};
template <>
constexpr ral_dl_type kType<int64_t> = {0, 64, 1};
template <>
constexpr ral_dl_type kType<uint64_t> = {1, 64, 1};
template <>
constexpr ral_dl_type kType<float> = {2, 32, 1};
template <>
constexpr ral_dl_type kType<double> = {2, 64, 1};
template <>
constexpr ral_dl_type kType<std::complex<float>> = {5, 64, 1};
constexpr ral_dl_type kHalf = {2, 16, 1}, kBFloat = {4, 16, 1};

inline ral_dtype dtype_of(ral_dl_type type) {
  const std::vector<std::pair<ral_dl_type, ral_dtype>> table = {
      {kType<bool>, RAL_BOOL},     {kType<uint8_t>, RAL_UINT8},  {kType<int8_t>, RAL_INT8},
      {kType<int32_t>, RAL_INT32}, {kType<int64_t>, RAL_INT64},  {kType<uint64_t>, RAL_UINT64},
      {kType<float>, RAL_FLOAT32}, {kType<double>, RAL_FLOAT64}, {kType<std::complex<float>>, RAL_COMPLEX64},
      {kHalf, RAL_FLOAT16},        {kBFloat, RAL_BFLOAT16}};
  for (const auto& [dl, dtype] : table)
    if (dl.code == type.code && dl.bits == type.bits) return dtype;
  return -1;
}

// A tensor and its memory. Dense, unless strides are given.
template <class T>
struct Tensor {
  Tensor(Dims shape, std::vector<T> values, Dims strides = {}, uint64_t offset = 0, ral_dl_type type = kType<T>)
      : shape_(std::move(shape)), strides_(std::move(strides)), values_(std::move(values)), type_(type) {
    int64_t unit = 1;
    if (strides_.empty()) {
      strides_.resize(shape_.size());
      for (size_t d = shape_.size(); d-- > 0; unit *= shape_[d]) strides_[d] = unit;
    }
    tensor_ = {values_.data(),  {12, 0},           static_cast<int32_t>(shape_.size()), type_, shape_.data(),
               strides_.data(), offset * sizeof(T)};
  }
  Tensor(const Tensor&) = delete;
  ral_value value() const {
    ral_value v{};
    v.tag = RAL_VALUE_TENSOR;
    v.dtype = dtype_of(type_);
    v.u.tensor = &tensor_;
    return v;
  }
  operator ral_value() const { return value(); }
  const ral_tensor* tensor() const { return &tensor_; }
  const std::vector<T>& values() const { return values_; }

 private:
  Dims shape_, strides_;
  std::vector<T> values_;
  ral_dl_type type_;
  ral_tensor tensor_;
};
using F32 = Tensor<float>;
using I64 = Tensor<int64_t>;
using Bits = Tensor<uint16_t>;

inline ral_value none() {
  ral_value v{};
  v.dtype = -1;
  return v;
}
inline ral_value number(int64_t i) {
  ral_value v = none();
  v.tag = RAL_VALUE_INT;
  v.u.i = i;
  return v;
}
inline ral_value real(double d) {
  ral_value v = none();
  v.tag = RAL_VALUE_DOUBLE;
  v.u.d = d;
  return v;
}
inline ral_value truth(bool b) {
  ral_value v = none();
  v.tag = RAL_VALUE_BOOL;
  v.u.b = b;
  return v;
}
inline ral_value text(const char* s) {
  ral_value v = none();
  v.tag = RAL_VALUE_STRING;
  v.u.string = s;
  return v;
}
inline ral_value ints(Dims list) {
  static std::deque<Dims> kept;
  kept.push_back(std::move(list));
  ral_value v = none();
  v.tag = RAL_VALUE_INT_LIST;
  v.u.ints.items = kept.back().data();
  v.u.ints.count = kept.back().size();
  return v;
}

inline ral_value flags(std::vector<int32_t> items) {
  static std::deque<std::vector<int32_t>> kept;
  kept.push_back(std::move(items));
  ral_value v = none();
  v.tag = RAL_VALUE_BOOL_LIST;
  v.u.bools.items = kept.back().data();
  v.u.bools.count = kept.back().size();
  return v;
}

inline ral_value list(std::vector<const ral_tensor*> tensors) {
  static std::deque<std::vector<const ral_tensor*>> kept;
  kept.push_back(std::move(tensors));
  ral_value v = none();
  v.tag = RAL_VALUE_TENSOR_LIST;
  v.u.tensors.items = kept.back().data();
  v.u.tensors.count = kept.back().size();
  return v;
}

inline ral_status run(const char* op, const std::vector<ral_value>& args, const std::vector<ral_value>& outs,
                      std::string* why = nullptr) {
  const ral::reference::Kernel kernel = ral::reference::find(op);
  if (!kernel) {
    check::fail(__FILE__, __LINE__, std::string("no kernel ") + op);
    return RAL_ERROR_INTERNAL;
  }
  return kernel(args.data(), static_cast<uint32_t>(args.size()), outs.data(), static_cast<uint32_t>(outs.size()), why);
}

template <class T>
std::string shown(const std::vector<T>& values) {
  std::ostringstream out;
  for (const T& v : values) out << +v << ' ';
  return out.str();
}

}  // namespace reference_test

#define RUNS(...) CHECK_EQ(run(__VA_ARGS__), RAL_SUCCESS)
#define CHECK_VALUES(tensor, ...) CHECK_EQ(shown((tensor).values()), shown(decltype((tensor).values()){__VA_ARGS__}))
