// What the collectives share: dense tensors in place of the caller's, and lists of parts as one tensor.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "process_group.h"

namespace hp::torch_adapter {

inline void* data(const at::Tensor& tensor) { return const_cast<void*>(tensor.const_data_ptr()); }

// A tensor of the caller's, and a dense one that stands in for it.
struct Dense {
  explicit Dense(const at::Tensor& tensor)
      : original(tensor), tensor(tensor.is_contiguous() ? tensor : tensor.contiguous()) {}
  // Not read before it is written.
  static Dense output(const at::Tensor& tensor) {
    Dense made;
    made.original = tensor;
    made.tensor = tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
    return made;
  }
  // Brings what was written to the caller's tensor; empty where it is there.
  std::function<void()> finish() const {
    if (tensor.is_same(original)) return {};
    return [copy = *this] { at::Tensor(copy.original).copy_(copy.tensor, true); };
  }
  at::Tensor original, tensor;

 private:
  Dense() = default;
};

inline const at::Tensor& single(const Tensors& tensors, const char* name) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, " takes one tensor a process, got ", tensors.size());
  TORCH_CHECK_VALUE(tensors[0].layout() == at::kStrided, name, " takes dense tensors, not ", tensors[0].layout());
  return tensors[0];
}

inline const Tensors& single(const std::vector<Tensors>& lists, const char* name) {
  TORCH_CHECK_VALUE(lists.size() == 1, name, " takes one list of tensors a process, got ", lists.size());
  return lists[0];
}

// One for each process, of one size.
inline void check_parts(const Tensors& parts, int size, const at::Tensor& like, const char* name) {
  TORCH_CHECK_VALUE(parts.size() == static_cast<size_t>(size), name, " needs a list of ", size,
                    " tensors, one for each process, got ", parts.size());
  for (const at::Tensor& part : parts) {
    TORCH_CHECK_VALUE(part.numel() == like.numel() && part.scalar_type() == like.scalar_type(), name,
                      " needs parts of one size and dtype: got ", part.sizes(), " ", part.scalar_type(), " and ",
                      like.sizes(), " ", like.scalar_type());
  }
}

// Memory for the parts of all processes, one after another.
inline at::Tensor room_for(int size, const at::Tensor& part) { return at::empty({size, part.numel()}, part.options()); }

inline std::function<void()> spread(const at::Tensor& whole, const Tensors& parts) {
  return [whole, parts] {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].numel() > 0) at::Tensor(parts[i]).copy_(whole[static_cast<int64_t>(i)].view(parts[i].sizes()), true);
    }
  };
}

inline at::Tensor joined(const Tensors& parts) {
  Tensors flat;
  for (const at::Tensor& part : parts) flat.push_back(part.reshape({-1}));
  return at::cat(flat);
}

inline Signature signature_of(const at::Tensor& tensor, int root = -1) {
  return {tensor.numel(), tensor.scalar_type(), -1, root};
}

// For gloo, which does not know all dtypes.
inline at::Tensor as_bytes(const at::Tensor& dense) { return dense.view({-1}).view(at::kByte); }

}  // namespace hp::torch_adapter
