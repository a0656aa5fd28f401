#include "ops/creation.h"

#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/pow.h>

#include <cmath>

#include "ops/complex_parts.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

// ---- Fill

// The bytes of a number in `dtype`, zero-padded.
std::array<int64_t, 2> bits_of(const at::Scalar& value, at::ScalarType dtype) {
  std::array<int64_t, 2> bits{};
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "fill_", [&] {
    const auto element = value.to<scalar_t>();
    std::memcpy(bits.data(), &element, sizeof(element));
  });
  return bits;
}

bool fill(const Overload& overload, const Tensor& self, const at::Scalar& number) {
  if (self.numel() == 0) return true;
  at::Scalar value = number;
  if (at::isIntegralType(self.scalar_type(), false) && number.isFloatingPoint()) {
    // Fractions are truncated, as in torch; values out of range get torch's own error.
    if (!(std::abs(number.toDouble()) < 9.2e18)) return false;
    value = static_cast<int64_t>(number.toDouble());
  }
  const hp::Kernel* kernel = overload.kernel();
  if (kernel != nullptr && torch_adapter::fill(overload, *kernel, self, value)) return true;
  if (to_core(self.scalar_type()) == DType::kNone || !representable(value, self.scalar_type())) return false;
  return hp::ops::fill(overload, device_holding(self), view(self), bits_of(value, self.scalar_type()).data());
}
bool fill(const Overload& overload, const Tensor& self) { return fill(overload, self, 0); }

bool fill(const Overload& overload, const Tensor& self, const Tensor& value) {
  if (value.dim() != 0 || value.layout() != at::kStrided) return false;  // the CPU tier raises torch's error
  if (self.numel() == 0) return true;
  if (value.is_cpu()) return fill(overload, self, value.item());
  if (value.device() != self.device()) return false;
  const Tensor expanded = value.expand(self.sizes());
  return hp::ops::fill_from(overload, device_holding(self), view(self), view(expanded));
}

// ---- Sequences

// Resizes the output, as torch's own sequences do, and launches a kernel that needs contiguous memory.
template <class Launch>
bool sequence(const Tensor& out, int64_t size, Launch launch) {
  if (out.numel() != size) out.resize_({size});
  if (size == 0) return true;
  const ContiguousOutput target(out);
  if (!launch(view(target.tensor()))) return false;
  target.finish();
  return true;
}

bool real(const at::Scalar& value) { return !value.isComplex(); }

// The number of elements; nothing if torch rejects the bounds. `closed` includes the end.
std::optional<int64_t> length(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, bool closed,
                              at::ScalarType dtype) {
  const double from = start.toDouble(), to = end.toDouble(), by = step.toDouble();
  if (!std::isfinite(from) || !std::isfinite(to) || by == 0 || std::isnan(by)) return std::nullopt;
  if (by > 0 ? to < from : to > from) return std::nullopt;
  if (at::isIntegralType(dtype, false) && step.toLong() == 0) return std::nullopt;
  if (!closed && dtype == at::kLong) {
    // Exact, unlike double precision.
    const int64_t s = step.toLong();
    return (end.toLong() - start.toLong() + s - (s > 0 ? 1 : -1)) / s;
  }
  const double count = closed ? std::floor((to - from) / by) + 1 : std::ceil((to - from) / by);
  if (!(count >= 0 && count < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(count);
}

bool count(const Overload& overload, const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
           bool closed, const Tensor& out) {
  const at::ScalarType dtype = out.scalar_type();
  const bool integers = at::isIntegralType(dtype, false);
  if (!real(start) || !real(end) || !real(step) || !(integers || at::isFloatingType(dtype))) return false;
  const auto size = length(start, end, step, closed, dtype);
  if (!size) return false;
  return sequence(out, *size, [&](const View& to) {
    Device& device = device_holding(out);
    return integers ? hp::ops::arange(overload, device, to, start.toLong(), step.toLong())
                    : hp::ops::arange(overload, device, to, start.toDouble(), step.toDouble());
  });
}
bool arange(const Overload& overload, const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
            const Tensor& out) {
  if (out.numel() != 0 && real(start) && real(end) && real(step)) {
    // torch warns if it resizes the output, with numbers that the CPU tier computes.
    const auto size = length(start, end, step, false, out.scalar_type());
    if (size && *size != out.numel()) return false;
  }
  return count(overload, start, end, step, false, out);
}
bool range(const Overload& overload, const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
           const Tensor& out) {
  return count(overload, start, end, step, true, out);
}

// A bound, truncated if the output is integral.
double bound(const at::Scalar& value, at::ScalarType dtype) {
  return at::isIntegralType(dtype, false) ? static_cast<double>(value.toLong()) : value.toDouble();
}
bool spaceable(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::ScalarType dtype) {
  return real(start) && real(end) && steps >= 0 && dtype != at::kBool;
}

bool linspace(const Overload& overload, const at::Scalar& start, const at::Scalar& end, int64_t steps,
              const Tensor& out) {
  const at::ScalarType dtype = out.scalar_type();
  if (at::isComplexType(dtype) && steps >= 0) {
    // The real and imaginary parts are spaced independently.
    if (out.numel() != steps) out.resize_({steps});
    const auto from = start.toComplexDouble(), to = end.toComplexDouble();
    return linspace(overload, from.real(), to.real(), steps, at::real(out)) &&
           linspace(overload, from.imag(), to.imag(), steps, at::imag(out));
  }
  if (!spaceable(start, end, steps, dtype)) return false;
  return sequence(out, steps, [&](const View& to) {
    return hp::ops::linspace(overload, device_holding(out), to, bound(start, dtype), bound(end, dtype));
  });
}

bool logspace(const Overload& overload, const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
              const Tensor& out) {
  const at::ScalarType dtype = out.scalar_type();
  if (at::isComplexType(dtype)) {
    if (!linspace(overload, start, end, steps, out)) return false;
    at::pow_out(const_cast<Tensor&>(out), at::Scalar(base), out);
    return true;
  }
  if (!spaceable(start, end, steps, dtype)) return false;
  return sequence(out, steps, [&](const View& to) {
    return hp::ops::logspace(overload, device_holding(out), to, bound(start, dtype), bound(end, dtype), base);
  });
}

// ---- Matrices and complex numbers

bool eye(const Overload& overload, int64_t rows, int64_t columns, const Tensor& out) {
  if (rows < 0 || columns < 0) return false;
  out.resize_({rows, columns});
  if (out.numel() == 0) return true;
  const ContiguousOutput target(out);
  if (!hp::ops::eye(overload, device_holding(out), view(target.tensor()))) return false;
  target.finish();
  return true;
}
bool eye(const Overload& overload, int64_t rows, const Tensor& out) { return eye(overload, rows, rows, out); }

bool complex(const Overload& overload, const Tensor& real, const Tensor& imag, const Tensor& out) {
  const at::ScalarType dtype = real.scalar_type();
  if (imag.scalar_type() != dtype || (dtype != at::kFloat && dtype != at::kDouble && dtype != at::kHalf)) return false;
  if (out.scalar_type() != c10::toComplexType(dtype)) return false;
  const auto sizes = at::infer_size(real.sizes(), imag.sizes());
  at::native::resize_output(out, sizes);
  if (out.numel() == 0) return true;
  const Tensor a = real.expand(sizes), b = imag.expand(sizes);
  if (dtype == at::kHalf) {
    // Kernels do not support ComplexHalf, only its parts.
    copy_tensor(at::real(out), a, false);
    copy_tensor(at::imag(out), b, false);
    return true;
  }
  return hp::ops::complex(overload, device_holding(out), view(out), view(a), view(b));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/creation.inc"
