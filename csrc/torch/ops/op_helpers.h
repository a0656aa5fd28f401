// Helpers for the operator functions in csrc/torch/ops, which the generated wrappers call. `ops::NAME` gets the
// overload and its arguments; for structured operators the outputs come first, sized by torch's shape rule. Structured,
// out= and in-place functions return whether the device served the call; functional ones return their results, or
// nothing.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>

#include <optional>
#include <utility>

#include "dispatch/wrappers.h"
#include "runtime/tensor_view.h"

namespace hp::torch_adapter {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// All defined tensors must be on one device of this backend; the CPU tier handles calls that mix devices. Lists of
// optional tensors are indices, which may also be on the CPU.
class SameDevice {
 public:
  bool operator()(const Tensor& tensor) {
    if (!tensor.defined()) return true;
    if (!tensor.is_privateuseone() || (index_ >= 0 && tensor.device().index() != index_)) return false;
    index_ = tensor.device().index();
    return true;
  }
  bool operator()(const OptionalTensor& tensor) { return !tensor || (*this)(*tensor); }
  // Its iterator returns proxy objects.
  bool operator()(const c10::List<OptionalTensor>& list) {
    for (const OptionalTensor tensor : list) {
      const bool on_host = tensor && tensor->defined() && tensor->is_cpu();
      if (!on_host && !(*this)(tensor)) return false;
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

// Whether memory that a call writes overlaps neither itself nor an argument. If it does, the CPU tier takes the call,
// and torch's CPU kernel raises the error or defines the result.
enum Aliasing : bool { kSeparate, kMayBeSelf };  // kMayBeSelf: `written` may be exactly the first argument
class Separate {
 public:
  Separate(const Tensor& written, Aliasing first) : written_(written), may_be_same_(first == kMayBeSelf) {}

  bool operator()(const Tensor& read) {
    const bool may_be_same = std::exchange(may_be_same_, false);
    if (!read.defined() || !written_.is_alias_of(read)) return true;
    const at::MemOverlapStatus status = at::get_overlap_status(written_, read);
    return status != at::MemOverlapStatus::Partial && (status != at::MemOverlapStatus::Full || may_be_same);
  }
  bool operator()(const OptionalTensor& read) { return !read || (*this)(*read); }
  bool operator()(const c10::List<OptionalTensor>& list) {
    for (const OptionalTensor read : list) {
      if (!(*this)(read)) return false;
    }
    return true;
  }
  template <class List>
  bool operator()(const List& list) {
    for (const auto& read : list) {
      if (!(*this)(read)) return false;
    }
    return true;
  }

 private:
  const Tensor& written_;
  bool may_be_same_;
};
template <Aliasing kFirst, class... Tensors>
bool is_separate(const Tensor& written, const Tensors&... read) {
  if (at::has_internal_overlap(written) == at::MemOverlap::Yes) return false;
  Separate separate(written, kFirst);
  return (separate(read) && ...);
}

// A contiguous stand-in for an output that a kernel cannot write directly; `finish` copies it over.
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

// Passes contiguous views to `launch`. Sizes are final.
template <class Launch>
bool with_contiguous(const Tensor& to, const Tensor& from, Launch launch) {
  if (to.numel() == 0) return true;
  const ContiguousOutput target(to);
  const auto source = from.expect_contiguous();
  if (!launch(view(target.tensor()), view(*source))) return false;
  target.finish();
  return true;
}
// The same with two outputs, such as values and indices.
template <class Launch>
bool with_contiguous(const Tensor& first, const Tensor& second, const Tensor& from, Launch launch) {
  if (first.numel() == 0) return true;
  const Tensor source = from.contiguous();
  const ContiguousOutput a(first), b(second);
  if (!launch(view(a.tensor()), view(b.tensor()), view(source))) return false;
  a.finish();
  b.finish();
  return true;
}

// The tensor made contiguous; undefined if there is none.
inline Tensor contiguous(const OptionalTensor& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : Tensor();
}

// Whether two tensors of one shape have their elements in the same order. Strides of dimensions of size 1 mean nothing:
// torch leaves those of a depthwise convolution's gradient as they are.
inline bool same_strides(const Tensor& a, const Tensor& b) {
  for (int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) != 1 && a.stride(dim) != b.stride(dim)) return false;
  }
  return true;
}

inline bool is_single_or_double(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// Resizes `out` and copies the result to it, converting the dtype.
inline void write_output(const Tensor& out, const Tensor& result) {
  at::native::resize_output(out, result.sizes());
  copy_tensor(out, result, false);
}
// For rare out= overloads: copies a separate result. False if there is none, or its dtype differs, which torch reports.
inline bool resize_and_copy(const Tensor& out, const OptionalTensor& result) {
  if (!result || result->scalar_type() != out.scalar_type()) return false;
  write_output(out, *result);
  return true;
}

}  // namespace hp::torch_adapter
