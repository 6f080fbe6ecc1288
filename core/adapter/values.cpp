// Arguments as ral_value[], outputs by shape inference.
#include "values.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

namespace torch_fl {
namespace {

bool set_scalar(const at::Scalar& s, ral_value* out) {
  if (s.isComplex()) {
    out->u.complex.re = s.toComplexDouble().real();
    out->u.complex.im = s.toComplexDouble().imag();
  } else if (s.isFloatingPoint()) {
    out->u.complex.re = s.toDouble();
  } else {
    out->i64 = s.isBoolean() ? static_cast<int64_t>(s.toBool()) : s.toLong();
    out->u.complex.re = static_cast<double>(out->i64);
  }
  return true;
}

ral_dl_type dl_type(at::ScalarType type) {
  const auto bits = static_cast<uint8_t>(c10::elementSize(type) * 8);
  uint8_t code = 0;
  if (type == at::kBool) {
    code = 6;
  } else if (type == at::kBFloat16) {
    code = 4;
  } else if (c10::isComplexType(type)) {
    code = 5;
  } else if (c10::isFloatingType(type)) {
    code = 2;
  } else if (!c10::isSignedType(type)) {
    code = 1;
  }
  return {code, bits, 1};
}

c10::IValue to_meta(const c10::IValue& value, const ArgInfo& info, at::Tensor* meta) {
  if (value.isTensor() && is_ral(value.toTensor())) {
    *meta = alias_as_meta(value.toTensor());
    return *meta;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorList()) out.push_back(is_ral(t) ? alias_as_meta(t) : t);
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList())
      out.push_back(t && is_ral(*t) ? std::optional<at::Tensor>(alias_as_meta(*t)) : t);
    return out;
  }
  if (info.device && value.isDevice()) return c10::Device(c10::kMeta);
  return value;
}
}  // namespace

bool Values::add(const c10::IValue& value, const ArgInfo& info) {
  ral_value out{};
  out.dtype = -1;
  written_ = info.written || info.quiet;
  if (value.isNone() || info.generator) {
    out.tag = RAL_VALUE_NONE;
  } else if (value.isTensor()) {
    const auto& t = value.toTensor();
    if (!t.defined()) {
      out.tag = RAL_VALUE_NONE;
    } else if (is_ral(t)) {
      const auto* tensor = add_tensor(t);
      if (!tensor) return false;
      out.tag = RAL_VALUE_TENSOR;
      out.dtype = to_ral_dtype(t.scalar_type());
      out.u.tensor = tensor;
    } else if (t.dim() == 0 && t.device().is_cpu()) {
      if (!set_scalar(t.item(), &out)) return false;
      out.tag = RAL_VALUE_HOST_SCALAR;
      out.dtype = to_ral_dtype(t.scalar_type());
    } else {
      return false;
    }
  } else if (value.isTensorList()) {
    lists_.emplace_back();
    auto& items = lists_.back();
    for (const at::Tensor& t : value.toTensorList()) {
      const auto* tensor = is_ral(t) ? add_tensor(t) : nullptr;
      if (!tensor) return false;
      items.push_back(tensor);
    }
    out.tag = RAL_VALUE_TENSOR_LIST;
    out.u.tensors.items = items.data();
    out.u.tensors.count = items.size();
  } else if (value.isOptionalTensorList()) {
    lists_.emplace_back();
    auto& items = lists_.back();
    for (const std::optional<at::Tensor> t : value.toOptionalTensorList()) {
      const bool given = t && t->defined();
      const auto* tensor = given && is_ral(*t) ? add_tensor(*t) : nullptr;
      if (given && !tensor) return false;
      items.push_back(tensor);
    }
    out.tag = RAL_VALUE_TENSOR_LIST;
    out.u.tensors.items = items.data();
    out.u.tensors.count = items.size();
  } else if (info.dtype && value.isInt()) {
    out.tag = RAL_VALUE_DTYPE;
    out.dtype = to_ral_dtype(static_cast<at::ScalarType>(value.toInt()));
  } else if (value.isBool()) {
    out.tag = RAL_VALUE_BOOL;
    out.u.b = value.toBool();
  } else if (value.isInt()) {
    out.tag = RAL_VALUE_INT;
    out.u.i = value.toInt();
  } else if (value.isDouble()) {
    out.tag = RAL_VALUE_DOUBLE;
    out.u.d = value.toDouble();
  } else if (value.isComplexDouble()) {
    out.tag = RAL_VALUE_COMPLEX;
    out.u.complex.re = value.toComplexDouble().real();
    out.u.complex.im = value.toComplexDouble().imag();
  } else if (value.isIntList()) {
    ints_.push_back(value.toIntVector());
    out.tag = RAL_VALUE_INT_LIST;
    out.u.ints.items = ints_.back().data();
    out.u.ints.count = ints_.back().size();
  } else if (value.isDoubleList()) {
    doubles_.push_back(value.toDoubleVector());
    out.tag = RAL_VALUE_DOUBLE_LIST;
    out.u.doubles.items = doubles_.back().data();
    out.u.doubles.count = doubles_.back().size();
  } else if (value.isBoolList()) {
    bools_.emplace_back();
    for (const bool b : value.toBoolList()) bools_.back().push_back(b);
    out.tag = RAL_VALUE_BOOL_LIST;
    out.u.bools.items = bools_.back().data();
    out.u.bools.count = bools_.back().size();
  } else if (value.isString()) {
    strings_.push_back(value.toStringRef());
    out.tag = RAL_VALUE_STRING;
    out.u.string = strings_.back().c_str();
  } else if (value.isDevice()) {
    out.tag = RAL_VALUE_NONE;
  } else {
    return false;
  }
  values_.push_back(out);
  return true;
}

const ral_tensor* Values::add_tensor(const at::Tensor& t) {
  const auto dtype = to_ral_dtype(t.scalar_type());
  if (dtype < 0 || t.layout() != at::kStrided || t.is_conj() || t.is_neg()) return nullptr;
  ral_tensor out{};
  out.device = {12, device_.plugin_index()};
  out.ndim = static_cast<int32_t>(t.dim());
  out.dtype = dl_type(t.scalar_type());
  name_data(t, &out);
  bytes_ += static_cast<uint64_t>(t.numel()) * t.itemsize();
  tensors_.push_back(out);
  return &tensors_.back();
}

void Values::name_data(const at::Tensor& t, ral_tensor* out) {
  const at::Tensor* shown = &t;  // whose geometry is given
  const bool has_data = t.storage().data() != nullptr;
  if (form_ == DataForm::Host && has_data && device_.host_visible()) {
    wait_for(t, "host op");
    out->data = const_cast<void*>(t.storage().data());
  } else if (form_ == DataForm::Host && has_data) {
    staged_.push_back({t, stage_to_cpu(t, &copied_), written_});
    shown = &staged_.back().copy;
    out->data = const_cast<void*>(shown->storage().data());
  } else if (form_ == DataForm::Device && has_data) {
    const auto place = ral::MemoryPool::place(t.storage().data(), device_);
    out->data = place.handle;
    out->byte_offset = place.offset;
  }
  if (form_ != DataForm::None && has_data)
    if (auto* block = ral::MemoryPool::find(t.storage().data())) blocks_.push_back(block);
  out->byte_offset += static_cast<uint64_t>(shown->storage_offset()) * shown->itemsize();
  geometry_.emplace_back(shown->sizes().begin(), shown->sizes().end());
  out->shape = geometry_.back().data();
  geometry_.emplace_back(shown->strides().begin(), shown->strides().end());
  out->strides = geometry_.back().data();
}

void Values::write_back() {
  for (const auto& staged : staged_)
    if (staged.written) stage_back(staged.copy, staged.tensor, &copied_);
}

std::optional<KernelOutcome> Outputs::infer(Call& call, std::string* why, std::exception_ptr* error) {
  torch::jit::Stack stack;
  const size_t n = call.info.args.size();
  stack.reserve(n);
  c10::SmallVector<at::Tensor, 4> metas(n);
  for (size_t i = 0; i < n; ++i) stack.push_back(to_meta(call.arg(i), call.info.args[i], &metas[i]));
  try {
    call.info.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const c10::NotImplementedError&) {
    *why = "no shape function for this op";
    return KernelOutcome::PassedOn;
  } catch (...) {
    *error = std::current_exception();
    *why = "the arguments are wrong";
    return KernelOutcome::WrongArguments;
  }
  const size_t first = stack.size() - call.info.returns.size();
  for (size_t r = 0; r < call.info.returns.size(); ++r) {
    const int alias = call.info.returns[r].alias_arg;
    if (alias >= 0) {
      const auto& original = call.arg(alias).toTensor();
      const auto& meta = metas[alias];
      if (original.sizes() != meta.sizes()) {
        if (!call.info.args[alias].out) {
          *why = "in-place result would change its shape";
          return KernelOutcome::PassedOn;
        }
        at::native::resize_output(original, meta.sizes());
      }
      tensors.push_back(original);
    } else {
      const auto& value = stack[first + r];
      if (!value.isTensor() || !value.toTensor().defined()) {
        *why = "an output without a shape";
        return KernelOutcome::PassedOn;
      }
      const auto& meta = value.toTensor();
      tensors.push_back(empty_ral(meta.sizes(), meta.strides(), meta.scalar_type(),
                                  static_cast<c10::DeviceIndex>(call.device->index())));
    }
  }
  return std::nullopt;
}

namespace {

// A written tensor may be an input as a whole; parts of it, or itself twice, are the CPU kernels' business.
bool overlap_allowed(Call& call, std::string* why) {
  for (size_t i = 0; i < call.info.args.size(); ++i) {
    if (!call.info.args[i].written || !call.arg(i).isTensor()) continue;
    const auto& out = call.arg(i).toTensor();
    if (at::has_internal_overlap(out) != at::MemOverlap::No) {
      *why = "output overlaps itself";
      return false;
    }
    for (size_t j = 0; j < call.info.args.size(); ++j) {
      if (j == i || !call.arg(j).isTensor() || !is_ral(call.arg(j).toTensor())) continue;
      const auto status = at::get_overlap_status(out, call.arg(j).toTensor());
      if (status == at::MemOverlapStatus::Partial || status == at::MemOverlapStatus::TooHard) {
        *why = "output overlaps an input";
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<KernelOutcome> Outputs::prepare(Call& call, std::string* why, std::exception_ptr* error) {
  if (call.info.writes && !overlap_allowed(call, why)) return KernelOutcome::PassedOn;
  return infer(call, why, error);
}

bool pack(Call& call, const Outputs& outputs, Values* args, Values* outs) {
  ArgInfo output;
  output.written = true;
  for (size_t i = 0; i < call.info.args.size(); ++i) {
    if (call.info.args[i].out) continue;
    if (!args->add(call.arg(i), call.info.args[i])) return false;
  }
  for (const auto& t : outputs.tensors)
    if (!outs->add(t, output)) return false;
  return true;
}

void finish(Call& call, Outputs& outputs) {
  call.stack.erase(call.stack.begin() + static_cast<std::ptrdiff_t>(call.base), call.stack.end());
  for (auto& t : outputs.tensors) call.stack.emplace_back(std::move(t));
}

}  // namespace torch_fl
