#include "fft.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "../core/template_call.h"
#include "fft_tables.h"
#include "rows.h"

namespace hp::ops {
namespace {

enum Kind { kComplex, kFromReal, kToReal };

constexpr int64_t kGroups = 16, kGpuGroups = 512;  // that share scratch memory, on a CPU and elsewhere
constexpr int64_t kLanes = 16;                     // lines side by side, while they fit into a processor's cache
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

// One dimension; out may be self.
bool transform(const Service& service, Device& device, const View& out, const View& self, int64_t dim, Kind kind,
               bool inverse, double scale) {
  static TemplateKernels kernels("fft:lines", {"T"}, {"KIND", "BLUESTEIN"});
  const DType real = real_of(self.dtype);
  const Rows from(self, dim), to(out, dim);
  const int64_t n = kind == kToReal ? to.n : from.n, lines = from.outer * from.inner;
  const FourierPlan plan(n);
  TemplateCall call(kernels, device, {real}, {kind, plan.bluestein});
  if (!call.available()) return false;
  const bool cpu = device.plugin.compiler.group_size == 1;
  int64_t batch = 1;
  while (cpu && batch < kLanes && batch * 2 * plan.size <= kLaneElements && batch * 4 < lines) batch *= 2;
  const int64_t blocks = (lines + batch - 1) / batch, room = kScratchElements / (4 * plan.size * batch);
  const int64_t groups = std::clamp<int64_t>(std::min(cpu ? kGroups : kGpuGroups, room), 1, blocks);
  const Scratch memory(device, groups * 4 * plan.size * batch * info(real).bytes);
  const auto table = fourier_table(device, n, real);
  call.arg(out).arg(self).pointer(memory.get()).pointer(table.get());
  call.integer(lines).integer(n).integer(from.inner).integer(from.n).integer(to.n).integer(plan.size);
  call.integer(batch).integer(groups).integer(inverse).real(scale, real).launch(service.op, groups);
  return true;
}

// Dimensions one after the other, each in `out` from the second one on.
bool transform_all(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
                   int64_t num_dims, bool inverse, double scale) {
  View from = self;
  for (int64_t i = num_dims - 1; i >= 0; --i) {
    if (!transform(service, device, out, from, dims[i], kComplex, inverse, i == 0 ? scale : 1)) return false;
    from = out;
  }
  return true;
}

}  // namespace

bool fft_c2c(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool forward) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization), attribute(forward)}))
    return true;
  if (!service.has_compiler || !is_complex(self.dtype) || num_dims == 0) return false;
  PortableScope scope(service);
  const double scale = factor(self, dims, num_dims, normalization);
  return transform_all(service, device, out, self, dims, num_dims, !forward, scale) && scope.done();
}

bool fft_r2c(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization, bool onesided) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization), attribute(onesided)}))
    return true;
  if (!service.has_compiler || real_of(self.dtype) != self.dtype || num_dims == 0) return false;
  PortableScope scope(service);
  const double scale = factor(self, dims, num_dims, normalization);
  const int64_t rest = num_dims - 1;
  return transform(service, device, out, self, dims[rest], kFromReal, false, rest == 0 ? scale : 1) &&
         transform_all(service, device, out, out, dims, rest, false, scale) && scope.done();
}

bool fft_c2r(const Service& service, Device& device, const View& out, const View& self, const int64_t* dims,
             int64_t num_dims, int64_t normalization) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(dims, num_dims), attribute(normalization),
                   attribute(out.sizes[dims[num_dims - 1]])}))
    return true;
  if (!service.has_compiler || !is_complex(self.dtype)) return false;
  PortableScope scope(service);
  const int64_t rest = num_dims - 1;
  std::optional<Scratch> memory;
  View half = self;
  if (rest > 0) {
    memory.emplace(device, self.bytes());
    half.data = memory->get();
    if (!transform_all(service, device, half, self, dims, rest, true, 1)) return false;
  }
  const double scale = factor(out, dims, num_dims, normalization);
  return transform(service, device, out, half, dims[rest], kToReal, true, scale) && scope.done();
}

}  // namespace hp::ops
