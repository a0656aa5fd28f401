// Launches of portable pointwise kernels over views, for adapters whose framework has no iterator of its own.
#pragma once

#include "portable.h"
#include "view.h"

namespace hp {

// An attribute: computations with whole numbers take the integer.
struct PointwiseNumber {
  double real = 0;
  int64_t integer = 0;
};

struct PointwiseCall {
  static constexpr int kMaxInputs = 5, kMaxAttributes = 4;

  DType compute = DType::kNone;
  uint32_t variant = 0;
  View output;
  int num_inputs = 0, num_attributes = 0;
  std::array<View, kMaxInputs> inputs;  // each is broadcast to the output's sizes, the last dimensions aligned
  std::array<PointwiseNumber, kMaxAttributes> attributes;
};

// Counts and tells observers. False where there is no such kernel: the next tier takes the call.
bool launch_pointwise(Operator& op, PortableKernels& kernels, Device& device, const PointwiseCall& call);

}  // namespace hp
