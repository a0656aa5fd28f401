#include "ops/resampling.h"

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using at::IntArrayRef;
using hp::ops::Resampling;

using Resample = bool (*)(const OpBinding&, Device&, const View&, const View&, Resampling, bool, const double*, int);
using Antialiased = bool (*)(const OpBinding&, Device&, const View&, const View&, Resampling, bool, const double*);

template <class... Scales>
bool run(Resample function, const Overload& overload, const Tensor& to, const Tensor& from, Resampling mode, bool align,
         const Scales&... scales) {
  const double factors[] = {scales.value_or(0)...};
  return with_contiguous(to, from, [&](const View& a, const View& b) {
    return function(overload, device_holding(from), a, b, mode, align, factors, sizeof...(Scales));
  });
}

template <class... Scales>
bool run(Antialiased function, const Overload& overload, const Tensor& to, const Tensor& from, Resampling mode,
         bool align, const Scales&... scales) {
  const double factors[] = {scales.value_or(0)...};
  return with_contiguous(to, from, [&](const View& a, const View& b) {
    return function(overload, device_holding(from), a, b, mode, align, factors);
  });
}

// torch's shape rules have checked the sizes; `scales` has one optional entry per dimension.
#define HP_NEAREST(NAME, MODE)                                                                                       \
  template <class... Scales>                                                                                         \
  bool NAME(const Overload& overload, const Tensor& out, const Tensor& self, IntArrayRef, const Scales&... scales) { \
    return run(hp::ops::upsample, overload, out, self, MODE, false, scales...);                                      \
  }                                                                                                                  \
  template <class... Scales>                                                                                         \
  bool NAME##_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, IntArrayRef,          \
                       IntArrayRef, const Scales&... scales) {                                                       \
    return run(hp::ops::upsample_backward, overload, grad_input, grad, MODE, false, scales...);                      \
  }
#define HP_INTERPOLATED(NAME, FUNCTION, MODE)                                                               \
  template <class... Scales>                                                                                \
  bool NAME(const Overload& overload, const Tensor& out, const Tensor& self, IntArrayRef, bool align,       \
            const Scales&... scales) {                                                                      \
    return run(hp::ops::FUNCTION, overload, out, self, MODE, align, scales...);                             \
  }                                                                                                         \
  template <class... Scales>                                                                                \
  bool NAME##_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, IntArrayRef, \
                       IntArrayRef, bool align, const Scales&... scales) {                                  \
    return run(hp::ops::FUNCTION##_backward, overload, grad_input, grad, MODE, align, scales...);           \
  }
HP_NEAREST(upsample_nearest, Resampling::kNearest)
HP_NEAREST(upsample_nearest_exact, Resampling::kNearestExact)
HP_INTERPOLATED(upsample_linear, upsample, Resampling::kLinear)
HP_INTERPOLATED(upsample_cubic, upsample, Resampling::kCubic)
HP_INTERPOLATED(upsample_linear_aa, upsample_antialiased, Resampling::kLinear)
HP_INTERPOLATED(upsample_cubic_aa, upsample_antialiased, Resampling::kCubic)
#undef HP_NEAREST
#undef HP_INTERPOLATED

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/resampling.inc"
