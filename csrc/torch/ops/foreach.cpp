#include "ops/foreach.h"

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::ForeachOp;
using Views = std::vector<View>;
using Numbers = std::vector<double>;
using Scalars = at::ArrayRef<at::Scalar>;
// Empty for in-place overloads; nullopt leaves the call to torch's own loop.
using Result = std::optional<std::vector<Tensor>>;

bool is_inplace(const Overload& overload) {
  const std::string& name = overload.op.name;
  const size_t dot = name.find('.');
  return name[(dot == std::string::npos ? name.size() : dot) - 1] == '_';
}

// Same dtype, device and layout, so the order of elements does not matter.
bool same_layout(const Tensor& tensor, const Tensor& first) {
  return tensor.scalar_type() == first.scalar_type() && tensor.sizes() == first.sizes() &&
         same_strides(tensor, first) && tensor.device() == first.device() && !tensor.is_neg();
}

// torch leaves counting the writes of these operators to their kernels.
void count_writes(at::TensorList written) {
  for (const Tensor& tensor : written) tensor.unsafeGetTensorImpl()->bump_version();
}

Result apply(const Overload& overload, ForeachOp op, at::TensorList self, std::initializer_list<at::TensorList> others,
             const Numbers& numbers, const Tensor* single = nullptr) {
  if (self.empty() || numbers.size() != self.size()) return std::nullopt;
  const at::ScalarType dtype = self[0].scalar_type();
  if (!at::isFloatingType(dtype) || to_core(dtype) == DType::kNone) return std::nullopt;
  for (at::TensorList list : others) {
    if (list.size() != self.size()) return std::nullopt;
  }
  for (size_t k = 0; k < self.size(); ++k) {
    if (!self[k].is_non_overlapping_and_dense() || self[k].scalar_type() != dtype ||
        self[k].device() != self[0].device() || self[k].is_neg()) {
      return std::nullopt;
    }
    for (at::TensorList list : others) {
      if (!same_layout(list[k], self[k])) return std::nullopt;
    }
  }
  const bool in_place = is_inplace(overload);
  std::vector<Tensor> results;
  Views out, first, second, third;
  Numbers call_numbers;
  for (Views* list : {&out, &first, &second, &third}) list->reserve(self.size());
  call_numbers.reserve(self.size());
  for (size_t k = 0; k < self.size(); ++k) {
    const Tensor& tensor = self[k];
    if (!in_place) {
      results.push_back(empty_strided(tensor.sizes(), tensor.strides(), dtype, tensor.device().index()));
    }
    if (tensor.numel() == 0) continue;
    first.push_back(view(tensor));
    if (!in_place) out.push_back(view(results.back()));
    if (single != nullptr) second.push_back(view(*single));
    Views* target = &second;
    for (at::TensorList list : others) {
      target->push_back(view(list[k]));
      target = &third;
    }
    call_numbers.push_back(numbers[k]);
  }
  hp::ops::ForeachCall call{op, in_place ? first : out, {&first}, call_numbers, single != nullptr};
  if (others.size() != 0 || single != nullptr) call.operands.push_back(&second);
  if (others.size() == 2) call.operands.push_back(&third);
  if (!hp::ops::foreach_map(overload, device_holding(self[0]), call)) return std::nullopt;
  if (in_place) count_writes(self);
  return results;
}

// One number per tensor; empty if a double cannot hold them.
Numbers spread(at::TensorList self, const at::Scalar& value, double factor = 1) {
  if (value.isComplex()) return {};
  return Numbers(self.size(), factor * value.toDouble());
}
Numbers spread(at::TensorList, Scalars values, double factor = 1) {
  Numbers numbers;
  for (const at::Scalar& value : values) {
    if (value.isComplex()) return {};
    numbers.push_back(factor * value.toDouble());
  }
  return numbers;
}
Numbers none(at::TensorList self) { return Numbers(self.size(), 0); }

// `other` is one number in device memory, of the list's dtype.
Result apply_single(const Overload& overload, ForeachOp op, at::TensorList self, const Tensor& other,
                    const at::Scalar& alpha) {
  if (self.empty() || other.numel() != 1 || other.dim() != 0 || other.scalar_type() != self[0].scalar_type() ||
      other.device() != self[0].device()) {
    return std::nullopt;
  }
  return apply(overload, op, self, {}, spread(self, alpha), &other);
}

Result foreach_add(const Overload& overload, at::TensorList self, const at::Scalar& scalar) {
  return apply(overload, ForeachOp::kAddNumber, self, {}, spread(self, scalar));
}
Result foreach_add(const Overload& overload, at::TensorList self, Scalars scalars) {
  return apply(overload, ForeachOp::kAddNumber, self, {}, spread(self, scalars));
}
Result foreach_add(const Overload& overload, at::TensorList self, at::TensorList other, const at::Scalar& alpha) {
  return apply(overload, ForeachOp::kAdd, self, {other}, spread(self, alpha));
}
Result foreach_add(const Overload& overload, at::TensorList self, const Tensor& other, const at::Scalar& alpha) {
  return apply_single(overload, ForeachOp::kAdd, self, other, alpha);
}

Result foreach_sub(const Overload& overload, at::TensorList self, const at::Scalar& scalar) {
  return apply(overload, ForeachOp::kAddNumber, self, {}, spread(self, scalar, -1));
}
Result foreach_sub(const Overload& overload, at::TensorList self, Scalars scalars) {
  return apply(overload, ForeachOp::kAddNumber, self, {}, spread(self, scalars, -1));
}
Result foreach_sub(const Overload& overload, at::TensorList self, at::TensorList other, const at::Scalar& alpha) {
  return apply(overload, ForeachOp::kAdd, self, {other}, spread(self, alpha, -1));
}

Result foreach_mul(const Overload& overload, at::TensorList self, const at::Scalar& scalar) {
  return apply(overload, ForeachOp::kMulNumber, self, {}, spread(self, scalar));
}
Result foreach_mul(const Overload& overload, at::TensorList self, Scalars scalars) {
  return apply(overload, ForeachOp::kMulNumber, self, {}, spread(self, scalars));
}
Result foreach_mul(const Overload& overload, at::TensorList self, at::TensorList other) {
  return apply(overload, ForeachOp::kMul, self, {other}, none(self));
}
Result foreach_mul(const Overload& overload, at::TensorList self, const Tensor& other) {
  return apply_single(overload, ForeachOp::kMul, self, other, 1);
}

Result foreach_div(const Overload& overload, at::TensorList self, const at::Scalar& scalar) {
  return apply(overload, ForeachOp::kDivNumber, self, {}, spread(self, scalar));
}
Result foreach_div(const Overload& overload, at::TensorList self, Scalars scalars) {
  return apply(overload, ForeachOp::kDivNumber, self, {}, spread(self, scalars));
}
Result foreach_div(const Overload& overload, at::TensorList self, at::TensorList other) {
  return apply(overload, ForeachOp::kDiv, self, {other}, none(self));
}
Result foreach_div(const Overload& overload, at::TensorList self, const Tensor& other) {
  return apply_single(overload, ForeachOp::kDiv, self, other, 1);
}

Result foreach_maximum(const Overload& overload, at::TensorList self, at::TensorList other) {
  return apply(overload, ForeachOp::kMaximum, self, {other}, none(self));
}
Result foreach_minimum(const Overload& overload, at::TensorList self, at::TensorList other) {
  return apply(overload, ForeachOp::kMinimum, self, {other}, none(self));
}

Result foreach_lerp(const Overload& overload, at::TensorList self, at::TensorList ends, at::TensorList weights) {
  return apply(overload, ForeachOp::kLerpWeights, self, {ends, weights}, none(self));
}
template <class Weight>
Result foreach_lerp(const Overload& overload, at::TensorList self, at::TensorList ends, const Weight& weight) {
  return apply(overload, ForeachOp::kLerp, self, {ends}, spread(self, weight));
}
template <class Value>
Result foreach_addcmul(const Overload& overload, at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                       const Value& value) {
  return apply(overload, ForeachOp::kAddcmul, self, {tensor1, tensor2}, spread(self, value));
}
template <class Value>
Result foreach_addcdiv(const Overload& overload, at::TensorList self, at::TensorList tensor1, at::TensorList tensor2,
                       const Value& value) {
  return apply(overload, ForeachOp::kAddcdiv, self, {tensor1, tensor2}, spread(self, value));
}

Result foreach_sqrt(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kSqrt, self, {}, none(self));
}
Result foreach_rsqrt(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kRsqrt, self, {}, none(self));
}
Result foreach_reciprocal(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kReciprocal, self, {}, none(self));
}
Result foreach_neg(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kNeg, self, {}, none(self));
}
Result foreach_abs(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kAbs, self, {}, none(self));
}
Result foreach_exp(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kExp, self, {}, none(self));
}
Result foreach_zero(const Overload& overload, at::TensorList self) {
  return apply(overload, ForeachOp::kFill, self, {}, none(self));
}

// Out of place: it reads `source`, not `self`.
bool foreach_copy(const Overload& overload, at::TensorList self, at::TensorList source, bool /*non_blocking*/) {
  if (self.empty() || source.size() != self.size() || !at::isFloatingType(self[0].scalar_type()) ||
      to_core(self[0].scalar_type()) == DType::kNone) {
    return false;
  }
  Views to, from;
  for (size_t k = 0; k < self.size(); ++k) {
    if (!self[k].is_non_overlapping_and_dense() || self[k].scalar_type() != self[0].scalar_type() ||
        self[k].device() != self[0].device() || self[k].is_neg() || !same_layout(source[k], self[k])) {
      return false;
    }
    if (self[k].numel() == 0) continue;
    to.push_back(view(self[k]));
    from.push_back(view(source[k]));
  }
  if (!hp::ops::foreach_map(overload, device_holding(self[0]), {ForeachOp::kCopy, to, {&from}, Numbers(to.size())})) {
    return false;
  }
  count_writes(self);
  return true;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/foreach.inc"
