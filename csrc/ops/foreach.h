// One operation on many tensors, in few launches.
#pragma once

#include <vector>

#include "../core/service.h"

namespace hp::ops {

// Numbered as in kernels/foreach.c: of one operand and a number, of two, of three.
enum class ListOp {
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

// Tensors of one floating-point dtype; those of one position are dense, with the same strides.
struct ListCall {
  ListOp op;
  const std::vector<View>& out;
  std::vector<const std::vector<View>*> operands;  // one to three lists
  const std::vector<double>& numbers;              // one for each position
  bool one = false;                                // the second list holds a single element for each position
};
bool foreach_map(const Service& service, Device& device, const ListCall& call);

}  // namespace hp::ops
