#include "ops/scan.h"

#include <ATen/WrapDimUtils.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

template <auto kScan>
bool scan_into(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim) {
  if (out.scalar_type() == at::kBool) return false;  // the CPU tier raises torch's error
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (out.numel() == 0) return true;
  if (self.dim() == 0) {
    copy_tensor(out, self, false);
    return true;
  }
  const Tensor from = (out.is_complex() ? self.to(out.scalar_type()) : self).contiguous();
  const ContiguousOutput to(out);
  if (!kScan(overload, device_holding(self), view(to.tensor()), view(from), dim)) return false;
  to.finish();
  return true;
}

using OptionalDtype = std::optional<at::ScalarType>;
bool cumsum(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, OptionalDtype /*dtype*/) {
  return scan_into<&hp::ops::cumsum>(overload, out, self, dim);
}
bool cumprod(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, OptionalDtype /*dtype*/) {
  return scan_into<&hp::ops::cumprod>(overload, out, self, dim);
}

bool is_floating_or_complex(const Tensor& self) { return at::isFloatingType(c10::toRealValueType(self.scalar_type())); }

OptionalTensor logcumsumexp(const Overload& overload, const Tensor& self, int64_t dim) {
  if (!is_floating_or_complex(self)) return {};  // the CPU tier raises torch's error
  const Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  if (!scan_into<&hp::ops::logcumsumexp>(overload, out, self, dim)) return {};
  return out;
}
bool logcumsumexp(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& out) {
  if (!is_floating_or_complex(self) || out.scalar_type() != self.scalar_type()) return false;
  at::native::resize_output(out, self.sizes());
  return scan_into<&hp::ops::logcumsumexp>(overload, out, self, dim);
}

// Outputs have their final sizes.
template <auto kScan>
bool with_indices(const Overload& overload, const Tensor& self, const Tensor& values, const Tensor& indices,
                  int64_t dim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  return with_contiguous(values, indices, self, [&](const View& to, const View& index, const View& from) {
    return kScan(overload, device_holding(self), to, index, from, dim);
  });
}
auto cummax(const auto&... args) { return with_indices<&hp::ops::cummax>(args...); }
auto cummin(const auto&... args) { return with_indices<&hp::ops::cummin>(args...); }

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/scan.inc"
