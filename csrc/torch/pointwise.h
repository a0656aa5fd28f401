// Portable pointwise kernels on top of TensorIterator, which has already settled shapes, broadcasting, promotion and
// the order of dimensions.
#pragma once

#include <ATen/TensorIterator.h>

#include "../core/portable.h"
#include "../core/view.h"
#include "adapter.h"

namespace hp::torch_adapter {

constexpr int kMaxOperands = 6;  // outputs and inputs
constexpr int kMaxScalars = 4;   // attributes, after CPU scalars took a place of their own

// The variant of an expression that this call wants, from a string attribute or the presence of optional ones.
using Variant = uint32_t;

class PointwiseCall {
 public:
  PointwiseCall(Operator& op, PortableKernels& kernels, at::TensorIteratorBase& iterator, at::ScalarType compute,
                Variant variant)
      : op_(op), kernels_(kernels), iterator_(iterator), compute_(compute), variant_(variant) {}

  // The inputs in the order of the operator's table; null for one that the caller gave as a number. The iterator may
  // hold them in another order.
  void inputs(std::initializer_list<const at::Tensor*> given);
  void attribute(const at::Scalar& value) { scalars_[num_scalars_++] = value; }

  // False when there is no portable kernel for these dtypes: the next tier takes the call.
  bool run();

 private:
  static std::string describe(const void* self);
  bool classify();

  Operator& op_;
  PortableKernels& kernels_;
  at::TensorIteratorBase& iterator_;
  const at::ScalarType compute_;
  const Variant variant_;
  std::array<at::Scalar, kMaxScalars> scalars_;
  int num_scalars_ = 0;

  std::array<uint8_t, kMaxOperands> order_{};  // the kernel's operand k is the iterator's order_[k]

  // Filled in by classify(), by the kernel's operand.
  std::array<bool, kMaxOperands> is_number_{};
  std::array<uint8_t, kMaxOperands> inner_{};  // 0 broadcast, 1 contiguous, 2 any stride
  int dimensions_ = 1;
  int operands_ = 0;
};

}  // namespace hp::torch_adapter
