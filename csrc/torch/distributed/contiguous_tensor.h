// Helpers of the collectives: contiguous copies of the caller's tensors, and per-rank tensor lists as one tensor.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "distributed/process_group.h"

namespace hp::torch_adapter {

inline void* data(const at::Tensor& tensor) { return const_cast<void*>(tensor.const_data_ptr()); }

// The caller's tensor, and a contiguous one that stands in for it.
struct ContiguousTensor {
  explicit ContiguousTensor(const at::Tensor& tensor)
      : original(tensor), tensor(tensor.is_contiguous() ? tensor : tensor.contiguous()) {}
  // For a tensor that is written before it is read.
  static ContiguousTensor output(const at::Tensor& tensor) {
    ContiguousTensor result;
    result.original = tensor;
    result.tensor = tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
    return result;
  }
  // Copies the contents to the caller's tensor; empty if they are already there.
  std::function<void()> finish() const {
    if (tensor.is_same(original)) return {};
    return [copy = *this] { at::Tensor(copy.original).copy_(copy.tensor, true); };
  }
  at::Tensor original, tensor;

 private:
  ContiguousTensor() = default;
};

inline const at::Tensor& expect_single(const Tensors& tensors, const char* name) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, " takes one tensor per process, got ", tensors.size());
  TORCH_CHECK_VALUE(tensors[0].layout() == at::kStrided, name, " takes dense tensors, got ", tensors[0].layout(),
                    ": call .to_dense() first");
  return tensors[0];
}

inline const Tensors& expect_single(const std::vector<Tensors>& lists, const char* name) {
  TORCH_CHECK_VALUE(lists.size() == 1, name, " takes one list of tensors per process, got ", lists.size());
  return lists[0];
}

// One tensor per rank, all of one size and dtype.
inline void check_per_rank(const Tensors& parts, int size, const at::Tensor& like, const char* name) {
  TORCH_CHECK_VALUE(parts.size() == static_cast<size_t>(size), name, " needs a list of ", size,
                    " tensors, one per rank, got ", parts.size());
  for (const at::Tensor& part : parts) {
    TORCH_CHECK_VALUE(part.numel() == like.numel() && part.scalar_type() == like.scalar_type(), name,
                      " needs tensors of one size and dtype: got ", part.sizes(), " ", part.scalar_type(), " and ",
                      like.sizes(), " ", like.scalar_type());
  }
}

// Uninitialized memory for the parts of all ranks, in rank order.
inline at::Tensor empty_per_rank(int size, const at::Tensor& part) {
  return at::empty({size, part.numel()}, part.options());
}

inline std::function<void()> copy_per_rank(const at::Tensor& whole, const Tensors& parts) {
  return [whole, parts] {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].numel() > 0) at::Tensor(parts[i]).copy_(whole[static_cast<int64_t>(i)].view(parts[i].sizes()), true);
    }
  };
}

inline at::Tensor concat_flat(const Tensors& parts) {
  Tensors flat;
  for (const at::Tensor& part : parts) flat.push_back(part.reshape({-1}));
  return at::cat(flat);
}

inline Signature signature_of(const at::Tensor& tensor, int root = -1) {
  return {tensor.numel(), tensor.scalar_type(), -1, root};
}

// For gloo, which does not support every dtype.
inline at::Tensor as_bytes(const at::Tensor& dense) { return dense.view({-1}).view(at::kByte); }

}  // namespace hp::torch_adapter
