#include "ops/reduction.h"

#include "ops/dim_mask.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

bool hash_tensor(const Overload& overload, const Tensor& out, const Tensor& self, at::IntArrayRef dim, bool /*keepdim*/,
                 int64_t mode) {
  if (mode != 0 || self.is_complex() || to_core(self.scalar_type()) == DType::kNone) return false;
  if (out.numel() == 0) return true;
  // Remaining dimensions come first.
  const uint64_t mask = dim_mask(self, dim);
  c10::SmallVector<int64_t, 8> order;
  for (const bool reduced : {false, true}) {
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (static_cast<bool>(mask >> d & 1) == reduced) order.push_back(d);
    }
  }
  if (self.numel() == 0) {
    out.zero_();
    overload.op.count(Tier::kDecomposition);
    return true;
  }
  const Tensor rows = self.permute(order).contiguous().view({out.numel(), -1});
  const ContiguousOutput target(out);
  View to = view(target.tensor());
  to.dtype = DType::kI64;  // the same bits
  if (!hp::ops::hash_tensor(overload, device_holding(self), to, view(rows))) return false;
  target.finish();
  return true;
}

// Waits for the value: an error that names the assertion is worth the time.
bool assert_async(const Overload& overload, const Tensor& self, std::string_view message) {
  if (self.numel() != 1) return false;  // the CPU tier raises torch's error
  const at::Scalar value = self.item();
  TORCH_CHECK(value.isComplex()         ? value.toComplexDouble() != c10::complex<double>(0)
              : value.isFloatingPoint() ? value.toDouble() != 0
                                        : value.to<bool>(),
              message);
  overload.op.count(Tier::kDecomposition);
  return true;
}
bool assert_async(const Overload& overload, const Tensor& self) {
  return assert_async(overload, self, "Expected Tensor with single nonzero value, but got zero");
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/hash_tensor.inc"
