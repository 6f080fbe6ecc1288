// Arguments of a call, and what becomes of a refusal.
#include <cstring>
#include <new>

#include "internal.h"

namespace ral::reference {
namespace {

ral_dtype dtype_of(ral_dl_type type) {
  static constexpr ral_dl_type table[RAL_DTYPE_COUNT] = {{6, 8, 1},  {1, 8, 1},   {0, 8, 1},  {0, 16, 1}, {0, 32, 1},
                                                         {0, 64, 1}, {2, 16, 1},  {4, 16, 1}, {2, 32, 1}, {2, 64, 1},
                                                         {5, 64, 1}, {5, 128, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}};
  for (ral_dtype d = 0; d < RAL_DTYPE_COUNT; ++d)
    if (table[d].code == type.code && table[d].bits == type.bits && type.lanes == 1) return d;
  refuse("a tensor has DLPack type code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits");
}

View view_of(const ral_tensor& tensor) {
  if (tensor.ndim > kMaxRank) refuse("rank " + std::to_string(tensor.ndim) + " > " + std::to_string(kMaxRank));
  View view{static_cast<char*>(tensor.data) + tensor.byte_offset, dtype_of(tensor.dtype),
            Dims(tensor.shape, tensor.shape + tensor.ndim), Dims(tensor.strides, tensor.strides + tensor.ndim)};
  const int64_t size = static_cast<int64_t>(dtype_size(view.dtype));
  for (int64_t& stride : view.strides) stride *= size;
  if (!tensor.data && view.count() > 0) refuse("a tensor has no memory");
  return view;
}

[[noreturn]] void refuse_argument(uint32_t i, const char* wanted) {
  refuse("argument " + std::to_string(i) + " is not " + wanted);
}

}  // namespace

void refuse(const std::string& why) { throw Refused{why}; }

const ral_value* Call::value(uint32_t i) const {
  return i < arg_count_ && args_[i].tag != RAL_VALUE_NONE ? &args_[i] : nullptr;
}

bool Call::is_tensor(uint32_t i) const {
  const ral_value* v = value(i);
  return v && (v->tag == RAL_VALUE_TENSOR || v->tag == RAL_VALUE_HOST_SCALAR);
}

View Call::tensor(uint32_t i) const {
  if (!is_tensor(i)) refuse_argument(i, "a tensor");
  const ral_value& v = args_[i];
  if (v.tag == RAL_VALUE_TENSOR) return view_of(*v.u.tensor);
  scalars_.emplace_back();
  char* place = scalars_.back().data();
  in_domain(domain_of(v.dtype), [&](auto zero) {
    using T = decltype(zero);
    storer<T>(v.dtype)(place, number<T>(v));
  });
  return {place, v.dtype, {}, {}};
}

std::optional<View> Call::tensor_if(uint32_t i) const {
  return given(i) ? std::optional<View>(tensor(i)) : std::nullopt;
}

std::vector<std::optional<View>> Call::tensors(uint32_t i) const {
  const ral_value* v = value(i);
  if (!v || v->tag != RAL_VALUE_TENSOR_LIST) refuse_argument(i, "a list of tensors");
  std::vector<std::optional<View>> out(v->u.tensors.count);
  for (size_t k = 0; k < out.size(); ++k)
    if (v->u.tensors.items[k]) out[k] = view_of(*v->u.tensors.items[k]);
  return out;
}

View Call::out(uint32_t i) const {
  if (i >= out_count_ || outs_[i].tag != RAL_VALUE_TENSOR) refuse("output " + std::to_string(i) + " is not a tensor");
  return view_of(*outs_[i].u.tensor);
}

int64_t Call::integer(uint32_t i, int64_t otherwise) const { return number<Int>(*this, i, otherwise); }
double Call::real(uint32_t i, double otherwise) const { return number<Real>(*this, i, otherwise); }
bool Call::flag(uint32_t i, bool otherwise) const { return number<Int>(*this, i, otherwise) != 0; }

Dims Call::ints(uint32_t i) const {
  const ral_value* v = value(i);
  if (!v) return {};
  if (v->tag == RAL_VALUE_INT) return {v->u.i};
  if (v->tag != RAL_VALUE_INT_LIST) refuse_argument(i, "a list of integers");
  return Dims(v->u.ints.items, v->u.ints.items + v->u.ints.count);
}

std::string Call::string(uint32_t i, const char* otherwise) const {
  const ral_value* v = value(i);
  if (!v) return otherwise;
  if (v->tag != RAL_VALUE_STRING) refuse_argument(i, "a string");
  return v->u.string;
}

ral_status guarded(std::string* why, const std::function<void()>& f) noexcept {
  const auto say = [&](const std::string& text) {
    if (why) *why = text;
  };
  try {
    f();
    return RAL_SUCCESS;
  } catch (const Refused& refused) {
    say(refused.why);
    return RAL_ERROR_UNSUPPORTED;
  } catch (const std::bad_alloc&) {
    say("no memory for the computation");
    return RAL_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    say(error.what());
    return RAL_ERROR_INTERNAL;
  }
}

}  // namespace ral::reference
