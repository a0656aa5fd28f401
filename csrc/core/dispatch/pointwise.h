// Launches pointwise operators for both frameworks, with a vendor or a portable kernel.
#pragma once

#include "core/dispatch/portable_kernel.h"
#include "core/dispatch/vendor_call.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/view.h"

namespace hp {

// A number in every form a kernel may take; the compute dtype decides which is passed.
struct PointwiseNumber {
  double real;
  int64_t integer;
  double imaginary;
};

// One launch of a portable pointwise kernel: outputs first, dimensions collapsed and ordered fastest first, strides in
// bytes. Left uninitialized because it is on the hot path.
struct PointwiseLaunch {
  static constexpr int kMaxOperands = 6, kMaxAttributes = 4;

  struct Operand {
    void* data;
    DType dtype;
    bool is_number;  // pass `number` instead of `data`
    PointwiseNumber number;
  };
  // A kernel argument, passed by value (same layout in kernels/pointwise.py).
  struct Shape {
    int64_t elements;
    StridedShape<kMaxOperands> geometry;
  };

  DType compute;
  uint32_t variant;
  int num_outputs, num_operands, num_attributes, dimensions;
  std::array<Operand, kMaxOperands> operands;
  std::array<PointwiseNumber, kMaxAttributes> attributes;
  Shape shape;
};

// Launches, counts the call and notifies observers. Returns false if the device has no such kernel.
bool launch_pointwise(Operator& op, PortableKernelTable& kernels, Device& device, const PointwiseLaunch& launch);

// A call over views, for adapters whose framework does not compute the iteration (as torch's TensorIterator does).
struct PointwiseCall {
  static constexpr int kMaxInputs = PointwiseLaunch::kMaxOperands - 1;

  DType compute = DType::kNone;
  uint32_t variant = 0;
  View output;
  int num_inputs = 0, num_attributes = 0;
  std::array<View, kMaxInputs> inputs;  // broadcast to the output's sizes, trailing dimensions aligned
  std::array<PointwiseNumber, PointwiseLaunch::kMaxAttributes> attributes;
};
bool launch_pointwise(Operator& op, PortableKernelTable& kernels, Device& device, const PointwiseCall& call);

// Calls the vendor kernel with [first, last): output, inputs, attributes. Converts inputs to `compute`, expands them to
// the output's sizes, and converts the result. Overwrites the arguments' views. Returns false if the kernel declined.
bool call_vendor_pointwise(Operator& op, const Kernel& kernel, Device& device, DType compute, VendorArgument* first,
                           VendorArgument* last);

}  // namespace hp
