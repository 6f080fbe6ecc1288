// plan.h - how a call of an operator becomes kernel launches. A family of operators (element-wise,
// reductions, ...) looks at the call and fills a Plan: the program it needs and the steps to enqueue.
// Preparing, measuring scratch memory and launching all use the same plan.
#pragma once

#include <cstring>
#include <string>

#include "device.h"

namespace ralcl {

constexpr int kMaxRank = 8;
constexpr int kMaxOperands = 5;

struct Call {
  Device& device;
  const ral_kernel_s& kernel;
  const ral_value* args;
  uint32_t arg_count;
  const ral_value* outs;
  uint32_t out_count;
  const ral_tensor* workspace;  // null while preparing
};

// One parameter of a source kernel: a buffer (two parameters: pointer and byte offset) or plain bytes.
struct Argument {
  bool is_buffer;
  uint16_t size;
  uint16_t at;  // place of the bytes in the arena; of a buffer: of its 8-byte offset
  void* handle;
};

struct Step {
  const char* kernel;
  int dims;
  size_t global[3];
  size_t local[3];
  int first_argument;
  int argument_count;
};

class Plan {
 public:
  static constexpr int kMaxSteps = 10;
  // Everything that tells two programs of one kernel entry apart.
  uint64_t key = 0;
  // Scratch memory, bytes.
  uint64_t workspace = 0;
  bool overflow = false;  // more steps or arguments than fit: the call is not supported
  int step_count = 0;
  int argument_count = 0;

  void begin(const char* kernel, size_t groups, size_t local) { begin3(kernel, 1, groups, 1, 1, local); }
  void begin3(const char* kernel, int dims, size_t x, size_t y, size_t z, size_t local) {
    if (step_count == kMaxSteps) {
      overflow = true;
      return;
    }
    steps[step_count++] = {kernel, dims, {x * local, y, z}, {local, 1, 1}, argument_count, 0};
  }
  void buffer(void* handle, uint64_t offset) {
    Argument* argument = add(&offset, sizeof offset);
    if (!argument) return;
    argument->is_buffer = true;
    argument->handle = handle;
  }
  void buffer(const ral_tensor& tensor) { buffer(tensor.data, tensor.byte_offset); }
  void scratch(const Call& call, uint64_t offset) {
    buffer(call.workspace ? call.workspace->data : nullptr,
           (call.workspace ? call.workspace->byte_offset : 0) + offset);
  }
  template <class T>
  void value(const T& bytes) {
    add(&bytes, sizeof bytes);
  }
  // A number in the compute type of the kernel.
  void scalar(ral_dtype type, double real, int64_t whole);

  const Step& step(int i) const { return steps[i]; }
  const Argument& argument(int i) const { return arguments[i]; }
  const void* bytes(const Argument& argument) const { return arena + argument.at; }

 private:
  static constexpr int kMaxArguments = 128;
  static constexpr int kArena = 6144;

  Argument* add(const void* data, size_t size) {
    const size_t place = (used + 7) & ~size_t{7};
    if (argument_count == kMaxArguments || place + size > kArena || step_count == 0) {
      overflow = true;
      return nullptr;
    }
    std::memcpy(arena + place, data, size);
    used = place + size;
    arguments[argument_count] = {false, static_cast<uint16_t>(size), static_cast<uint16_t>(place), nullptr};
    ++steps[step_count - 1].argument_count;
    return &arguments[argument_count++];
  }

  size_t used = 0;
  Step steps[kMaxSteps];
  Argument arguments[kMaxArguments];
  char arena[kArena];
};

// A family of operators that share one source file.
struct Family {
  const char* file;  // "elementwise.cl"
  // Whether `symbol` is one of the family's; what it finds out is kept in ral_kernel_s::op.
  const void* (*find)(const std::string& symbol);
  ral_status (*plan)(const Call& call, Plan& plan);
  // The macro definitions that specialise the source for this call.
  void (*preamble)(const Call& call, const Plan& plan, std::string& out);
};

extern const Family kElementwise;
extern const Family kReduction;
extern const Family kSoftmax;
extern const Family kNorm;
extern const Family kMatmul;
extern const Family kShape;

extern const ral_kernel_table kKernelTable;

// ---- Values and types ----

// The name of a dtype in the .cl sources ("f32"); null for complex types.
const char* short_name(ral_dtype type);
uint32_t item_size(ral_dtype type);
// The type that kernels compute in for operands of `type`: itself, float for the small floats, int for
// integers of up to 32 bits, long above.
ral_dtype compute_type(ral_dtype type);
const char* compute_name(ral_dtype compute);
inline bool is_float(ral_dtype type) { return type >= RAL_FLOAT16 && type <= RAL_FLOAT64; }
inline bool is_complex(ral_dtype type) { return type == RAL_COMPLEX64 || type == RAL_COMPLEX128; }
// Whether kernels of this device can load, store and compute `type`.
bool usable(const Device& device, ral_dtype type);
// `value` rounded to the precision of `type`.
double rounded_to(ral_dtype type, double value);

inline bool is_tensor(const ral_value& value) { return value.tag == RAL_VALUE_TENSOR && value.u.tensor; }
inline const ral_value* argument(const Call& call, uint32_t i) { return i < call.arg_count ? &call.args[i] : nullptr; }
// A plain or host scalar as both kinds of number; false where the value is none.
bool scalar_value(const ral_value& value, double& real, int64_t& whole);
int64_t element_count(const ral_tensor& tensor);
bool is_contiguous(const ral_tensor& tensor);

// Lanes of a vector of the compute type.
int64_t lanes_of(const Device& device, ral_dtype compute);
// Common first lines of a preamble: compute type, its flags, lane types, device features.
void common_preamble(const Device& device, ral_dtype compute, std::string& out);
void define(std::string& out, const char* name, const std::string& value);
void define(std::string& out, const std::string& name, const std::string& value);

// ---- Layouts ----

// Shape and strides of several operands over one index space, as the .cl sources see it (layout_t).
struct Layout {
  int64_t rank;
  int64_t shape[kMaxRank];
  int64_t stride[kMaxOperands][kMaxRank];
};

// Drop dimensions of size 1 and merge neighbours that are contiguous in every operand.
void coalesce(Layout& layout, int operands);
// Order dimensions so that the strides of operand 0 fall.
void sort_by_first(Layout& layout, int operands);

inline size_t divide_up(size_t value, size_t by) { return (value + by - 1) / by; }

}  // namespace ralcl

// What a kernel entry of the manifest, or a kernel of the compile table, is.
struct ral_kernel_s {
  ral_kernel_s() = default;
  virtual ~ral_kernel_s() = default;
  std::string name;                       // for messages and compile reports
  const ralcl::Family* family = nullptr;  // null: a kernel of the compile table
  const void* op = nullptr;               // the family's own description
};
