// One elementwise operation on lists of tensors, in few launches.
#pragma once

#include <vector>

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// Values shared with kernels/sources/foreach.c. From 0: one operand; from 20: two; from 40: three.
enum class ForeachOp {
  kAddNumber = 0,
  kMulNumber,
  kDivNumber,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kNeg,
  kAbs,
  kExp,
  kFill,
  kCopy,
  kAdd = 20,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kLerp,
  kAddcmul = 40,
  kAddcdiv,
  kLerpWeights,
};

// All tensors have one floating-point dtype. The tensors at one list index are dense, with the same strides.
struct ForeachCall {
  ForeachOp op;
  const std::vector<View>& out;
  std::vector<const std::vector<View>*> operands;  // one to three lists
  const std::vector<double>& numbers;              // one per list index
  bool one = false;                                // tensors in the second list have a single element
};
bool foreach_map(const OpBinding& binding, Device& device, const ForeachCall& call);

}  // namespace hp::ops
