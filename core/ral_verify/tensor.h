// Tensors in host memory, and the arguments and outputs of one call of a kernel.
#pragma once
#include <complex>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ral/plugin.h"

namespace ral_verify {

using Dims = std::vector<int64_t>;

// Strides and offset in elements; `bytes` is the whole memory that the tensor lies in. dtype -1: an absent tensor of a list.
struct Tensor {
  ral_dtype dtype = -1;
  Dims shape, strides;
  int64_t offset = 0;
  std::vector<char> bytes;

  int64_t count() const;
  int64_t held(size_t guard = 0) const;  // elements of the whole memory before the guard
  bool contiguous() const;
};

// One value of the plugin ABI, with what it points to. `tensors` holds one for a TENSOR.
struct Argument {
  ral_value_tag tag = RAL_VALUE_NONE;
  std::vector<Tensor> tensors;
  int64_t i = 0;         // INT, BOOL, DTYPE
  double d = 0, im = 0;  // DOUBLE, COMPLEX, HOST_SCALAR
  ral_dtype dtype = -1;  // HOST_SCALAR
  Dims ints;
  std::vector<int32_t> bools;
  std::string text;
};

// Bytes after each output's last element, full of kPoison, which no kernel may write.
constexpr size_t kGuard = 64;
constexpr char kPoison = 0x7B;

int64_t product(const Dims& dims);
Dims dense_strides(const Dims& shape);
Tensor dense(ral_dtype dtype, const Dims& shape, char fill, size_t guard = 0);
std::string shape_text(const Dims& dims);  // "[2, 3]"

bool is_floating(ral_dtype dtype);  // real ones
bool is_complex(ral_dtype dtype);
bool is_unsigned(ral_dtype dtype);             // bool is not
double epsilon(ral_dtype dtype);               // distance from 1 to the next number; floating and complex types only
ral_dtype promoted(ral_dtype a, ral_dtype b);  // PyTorch's promoteTypes, without unsigned types of more than 8 bits
ral_dtype accumulate_type(ral_dtype dtype);    // float32 for half types
ral_dtype real_type(ral_dtype dtype);          // float32 for complex64

// Element `at`, counted in elements of `bytes`. Reads are exact for floating types; stores truncate.
double read_real(const Tensor& tensor, int64_t at);
int64_t read_integer(const Tensor& tensor, int64_t at);
std::complex<double> read_complex(const Tensor& tensor, int64_t at);
void store(Tensor& tensor, int64_t at, double value);
void store_complex(Tensor& tensor, int64_t at, std::complex<double> value);

// Where each tensor's memory lies: a host address or a handle, and the byte that corresponds to bytes[0].
struct Place {
  void* data;
  uint64_t offset;
};

// The ral_value[] of a call. `places` lists one place a tensor, in the order of the arguments. Points into `arguments`.
class Packed {
 public:
  Packed(const std::vector<Argument>& arguments, const std::vector<Place>& places, int device_index);
  Packed(const Packed&) = delete;
  const ral_value* data() const { return values_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }

 private:
  std::vector<ral_value> values_;
  std::deque<ral_tensor> tensors_;
  std::deque<std::vector<const ral_tensor*>> lists_;
};

}  // namespace ral_verify
