#include "ops/fft.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/fft_twiddles.h"
#include "ops/detail/row_shape.h"

namespace hp::ops {
namespace {

enum Kind { kComplex, kFromReal, kToReal };

constexpr int64_t kGroups = 16, kGpuGroups = 512;  // max work-groups, which share scratch memory
constexpr int64_t kLanes = 16;                     // lines processed together while they fit into the CPU cache
constexpr int64_t kLaneElements = 65536;
constexpr int64_t kScratchElements = 1ll << 28;

DType real_of(DType dtype) {
  return dtype == DType::kC64 || dtype == DType::kF32    ? DType::kF32
         : dtype == DType::kC128 || dtype == DType::kF64 ? DType::kF64
                                                         : DType::kNone;
}

double factor(const View& signal, const int64_t* dims, int64_t num_dims, int64_t normalization) {
  double count = 1;
  for (int64_t i = 0; i < num_dims; ++i) count *= static_cast<double>(signal.sizes[dims[i]]);
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

// Transforms one dimension; out may be self.
bool transform(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim, Kind kind,
               bool inverse, double scale) {
  static KernelTemplate kernels("fft:lines", {"T"}, {"KIND", "BLUESTEIN"});
  const DType real = real_of(self.dtype);
  const RowShape from(self, dim), to(out, dim);
  const int64_t n = kind == kToReal ? to.n : from.n, lines = from.outer * from.inner;
  const FftPlan plan(n);
  TemplateCall call(kernels, device, {real}, {kind, plan.bluestein});
  if (!call.available()) return false;
  const bool cpu = device.group_size() == 1;
  int64_t batch = 1;
  while (cpu && batch < kLanes && batch * 2 * plan.size <= kLaneElements && batch * 4 < lines) batch *= 2;
  const int64_t blocks = ceil_div(lines, batch), room = kScratchElements / (4 * plan.size * batch);
  const int64_t groups = std::clamp<int64_t>(std::min(cpu ? kGroups : kGpuGroups, room), 1, blocks);
  const Scratch memory(device, groups * 4 * plan.size * batch * info(real).bytes);
  const auto table = twiddle_table(device, n, real);
  call.arg(out).arg(self).pointer(memory.get()).pointer(table.get());
  call.integer(lines).integer(n).integer(from.inner).integer(from.n).integer(to.n).integer(plan.size);
  return call.integer(batch).integer(groups).integer(inverse).real(scale, real).launch(binding.op, groups);
}

// Transforms the dimensions in turn: the first from `self` to `out`, the rest in place.
bool transform_all(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
                   int64_t num_dims, bool inverse, double scale) {
  View from = self;
  for (int64_t i = num_dims - 1; i >= 0; --i) {
    if (!transform(binding, device, out, from, dims[i], kComplex, inverse, i == 0 ? scale : 1)) return false;
    from = out;
  }
  return true;
}

}  // namespace

bool fft_c2c(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool forward) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization), attribute(forward)}))
    return true;
  if (!binding.portable_allowed || !is_complex(self.dtype) || num_dims == 0) return false;
  PortableScope scope(binding);
  const double scale = factor(self, dims, num_dims, normalization);
  return transform_all(binding, device, out, self, dims, num_dims, !forward, scale) && scope.done();
}

bool fft_r2c(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool onesided) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization), attribute(onesided)}))
    return true;
  if (!binding.portable_allowed || real_of(self.dtype) != self.dtype || num_dims == 0) return false;
  PortableScope scope(binding);
  const double scale = factor(self, dims, num_dims, normalization);
  const int64_t rest = num_dims - 1;
  return transform(binding, device, out, self, dims[rest], kFromReal, false, rest == 0 ? scale : 1) &&
         transform_all(binding, device, out, out, dims, rest, false, scale) && scope.done();
}

bool fft_c2r(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization),
                   attribute(out.sizes[dims[num_dims - 1]])}))
    return true;
  if (!binding.portable_allowed || !is_complex(self.dtype)) return false;
  PortableScope scope(binding);
  const int64_t rest = num_dims - 1;
  std::optional<Scratch> memory;
  View half = self;
  if (rest > 0) {
    memory.emplace(device, self.bytes());
    half.data = memory->get();
    if (!transform_all(binding, device, half, self, dims, rest, true, 1)) return false;
  }
  const double scale = factor(out, dims, num_dims, normalization);
  return transform(binding, device, out, half, dims[rest], kToReal, true, scale) && scope.done();
}

}  // namespace hp::ops
