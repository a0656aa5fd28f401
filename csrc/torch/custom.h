// What the functions of custom operators (csrc/torch/ops) share. A function `ops::NAME` gets the overload and its
// arguments: for a structured operator first the outputs, with their sizes settled by torch's own shape rule, and says
// whether the device took the call; the same for out= and in-place overloads; a functional one returns its results, or
// nothing.
#pragma once

#include <ATen/core/IListRef.h>

#include <optional>

#include "dtype_name.h"
#include "wrappers.h"

namespace hp::torch_adapter {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The tensor must outlive the view, and keep its shape.
inline View view(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {const_cast<void*>(tensor.const_data_ptr()), to_core(tensor.scalar_type()), static_cast<int>(tensor.dim()),
          tensor.sizes().data(), tensor.strides().data()};
}
inline View view(const OptionalTensor& tensor) { return tensor ? view(*tensor) : View{}; }

// Tensors that are there must all be on one device of ours; a call that mixes devices is the last tier's to judge.
class SameDevice {
 public:
  bool operator()(const Tensor& tensor) {
    if (!tensor.defined()) return true;
    if (!tensor.is_privateuseone() || (index_ >= 0 && tensor.device().index() != index_)) return false;
    index_ = tensor.device().index();
    return true;
  }
  bool operator()(const OptionalTensor& tensor) { return !tensor || (*this)(*tensor); }
  // Its elements are references of its own kind.
  bool operator()(const c10::List<OptionalTensor>& list) {
    for (const OptionalTensor tensor : list) {
      if (!(*this)(tensor)) return false;
    }
    return true;
  }
  template <class List>
  bool operator()(const List& list) {
    for (const auto& tensor : list) {
      if (!(*this)(tensor)) return false;
    }
    return true;
  }

 private:
  c10::DeviceIndex index_ = -1;
};
template <class... Tensors>
bool all_on_device(const Tensors&... tensors) {
  SameDevice same;
  return (same(tensors) && ...);
}

// Stands in for an output that a kernel cannot write directly: `finish` copies it over.
class ContiguousOutput {
 public:
  explicit ContiguousOutput(const Tensor& output) : output_(output) {
    if (!output.is_contiguous()) stand_in_ = empty(output.sizes(), output.scalar_type(), output.device().index());
  }
  const Tensor& tensor() const { return stand_in_.defined() ? stand_in_ : output_; }
  void finish() const {
    if (stand_in_.defined()) copy_tensor(output_, stand_in_, false);
  }

 private:
  const Tensor& output_;
  Tensor stand_in_;
};

// Sizes are settled; `launch` gets contiguous views.
template <class Launch>
bool with_contiguous(const Tensor& to, const Tensor& from, Launch launch) {
  if (to.numel() == 0) return true;
  const ContiguousOutput target(to);
  const auto source = from.expect_contiguous();
  if (!launch(view(target.tensor()), view(*source))) return false;
  target.finish();
  return true;
}

// Contiguous; undefined where there is none.
inline Tensor given(const OptionalTensor& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : Tensor();
}

inline bool is_single_or_double(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// For out= forms that are rare: a result of its own, copied. False where there is none, or torch has to say something.
inline bool deliver(const Tensor& out, const OptionalTensor& made) {
  if (!made || made->scalar_type() != out.scalar_type()) return false;
  at::native::resize_output(out, made->sizes());
  copy_tensor(out, *made, false);
  return true;
}

}  // namespace hp::torch_adapter
