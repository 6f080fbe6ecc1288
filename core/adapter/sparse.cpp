// Sparse ral tensors: their dense parts live on the device; the layout around them is rebuilt on either side.
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
#include <torch/library.h>

#include "call.h"

namespace torch_fl {
namespace {

at::Tensor part_to_cpu(const at::Tensor& t, bool host_visible, uint64_t* copied) {
  if (!is_ral(t)) return t;
  if (!host_visible) return stage_to_cpu(t, copied);
  wait_for(t, "host op");
  return alias_as_cpu(t, false);
}

at::Tensor coo(const at::Tensor& like, const at::Tensor& indices, const at::Tensor& values, c10::DispatchKey key) {
  auto out = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  auto* impl = at::sparse::get_sparse_impl(out);
  impl->resize_(like.sparse_dim(), like.dense_dim(), like.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(like.is_coalesced());
  return out;
}

at::Tensor compressed(const at::Tensor& like, const at::Tensor& outer, const at::Tensor& inner,
                      const at::Tensor& values, c10::DispatchKey key, c10::Device device) {
  auto out =
      at::detail::make_tensor<at::SparseCsrTensorImpl>(c10::DispatchKeySet(key), device, like.layout(), like.dtype());
  static_cast<at::SparseCsrTensorImpl*>(out.unsafeGetTensorImpl())
      ->set_member_tensors(outer, inner, values, like.sizes());
  return out;
}

}  // namespace

at::Tensor sparse_to_cpu(const at::Tensor& t, bool host_visible, uint64_t* copied) {
  if (t.layout() == at::kSparse) {
    return coo(t, part_to_cpu(t._indices(), host_visible, copied), part_to_cpu(t._values(), host_visible, copied),
               c10::DispatchKey::SparseCPU);
  }
  const auto [outer, inner] = at::sparse_csr::getCompressedPlainIndices(t);
  return compressed(t, part_to_cpu(outer, host_visible, copied), part_to_cpu(inner, host_visible, copied),
                    part_to_cpu(t.values(), host_visible, copied), c10::DispatchKey::SparseCsrCPU, c10::kCPU);
}

at::Tensor sparse_to_ral(const at::Tensor& cpu, ral::Device& device, uint64_t* copied) {
  // The parts are copied: other CPU sparse tensors may share them.
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  auto move = [&](const at::Tensor& part) {
    *copied += part.numel() * part.itemsize();
    return part.to(c10::Device(kRal, index));
  };
  if (cpu.layout() == at::kSparse) {
    return coo(cpu, move(cpu._indices()), move(cpu._values()), c10::DispatchKey::SparsePrivateUse1);
  }
  const auto [outer, inner] = at::sparse_csr::getCompressedPlainIndices(cpu);
  return compressed(cpu, move(outer), move(inner), move(cpu.values()), c10::DispatchKey::SparseCsrPrivateUse1,
                    c10::Device(kRal, index));
}

namespace {
at::Tensor refuse_copy(const at::Tensor& self, const at::Tensor& target, bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ral: copying into a sparse tensor in place (", self.layout(), " on ",
                              self.device(), " to ", target.layout(), " on ", target.device(),
                              ") has no form here; make a new one with .to(), .cpu() or .clone()");
  return target;
}
}  // namespace

// What only reads or sets a sparse tensor's own members is the same on every device.
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_indices", at::native::_indices_sparse);
  m.impl("_values", at::native::_values_sparse);
  m.impl("indices", at::native::indices_sparse);
  m.impl("values", at::native::values_sparse);
  m.impl("_nnz", at::native::_nnz_sparse);
  m.impl("sparse_dim", at::native::sparse_dim_sparse);
  m.impl("dense_dim", at::native::dense_dim_sparse);
  m.impl("is_coalesced", at::native::is_coalesced_sparse);
  m.impl("_coalesced_", at::native::_coalesced_sparse_);
  m.impl("_copy_from", refuse_copy);
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("ccol_indices", at::native::ccol_indices_sparse_csr);
  m.impl("row_indices", at::native::row_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
  m.impl("_nnz", at::native::_nnz_sparse_csr);
  m.impl("sparse_dim", at::native::sparse_dim_sparse_csr);
  m.impl("dense_dim", at::native::dense_dim_sparse_csr);
  m.impl("_copy_from", refuse_copy);
}

}  // namespace torch_fl
