#include "ops/resampling.h"

#include <algorithm>
#include <cmath>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/accumulation_buffer.h"
#include "ops/detail/spatial_shape.h"

namespace hp::ops {
namespace {

struct ResamplingShape {
  SpatialShape planes;
  int64_t align;
};

// Input elements per output element, in the same precision as torch.
double step_of(int64_t in, int64_t out, Resampling mode, bool align, double scale) {
  if (align) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (mode == Resampling::kNearest && out == in) return 1;
  if (mode == Resampling::kNearest && out == 2 * in) return 0.5;
  return scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
}

DType scale_type(DType dtype, Resampling mode) {
  return dtype == DType::kF64 && mode >= Resampling::kLinear ? DType::kF64 : DType::kF32;
}

void add_scales(TemplateCall& call, const SpatialShape& planes, DType type, Resampling mode, bool align,
                const double* scales, int rank) {
  for (int a = 0; a < 3; ++a) {
    const double scale = a < 3 - rank ? 0 : scales[a - (3 - rank)];
    call.real(step_of(planes.in[a], planes.out[a], mode, align, scale), type);
  }
}

bool can_resample(const OpBinding& binding, const View& view) {
  return binding.portable_allowed && is_float(view.dtype);
}

// The kernel iterates over planes of `written` sizes, row by row.
bool antialias(const OpBinding& binding, Device& device, KernelTemplate& kernels, const View& to, const View& from,
               const ResamplingShape& g, const int64_t (&written)[3], Resampling mode, const double* scales) {
  const DType scale = scale_type(from.dtype, mode);
  TemplateCall call(kernels, device, {from.dtype, scale}, {mode == Resampling::kCubic});
  const int64_t rows = g.planes.count * written[1], per_group = call.rows_per_group(16 * written[2]);
  call.arg(to).arg(from).integer(rows).integer(per_group);
  add_scales(call, g.planes, scale, mode, g.align != 0, scales, 2);
  return call.value(g).launch(binding.op, ceil_div(rows, per_group));
}

// uint8 in integer arithmetic (kernels/sources/resampling_uint8.c): one dimension at a time, each with a weight table.
class Bytes {
 public:
  Bytes(const OpBinding& binding, Device& device, Resampling mode, bool align, bool smooth, const double* scales)
      : binding_(binding), device_(device), mode_(mode), align_(align), smooth_(smooth), scales_(scales) {}

  bool run(const View& out, const View& self) const {
    const SpatialShape p = spatial_shape(self, out, 2);
    const bool across = p.in[1] != p.out[1], along = p.in[2] != p.out[2] || !across;
    if (!across) return pass(out.data, self.data, p.count * p.in[1], 1, p.in[2], p.out[2], 1);
    if (!along) return pass(out.data, self.data, p.count, p.in[2], p.in[1], p.out[1], 0);
    const Scratch between(device_, p.count * p.in[1] * p.out[2]);
    return pass(between.get(), self.data, p.count * p.in[1], 1, p.in[2], p.out[2], 1) &&
           pass(out.data, between.get(), p.count, p.out[2], p.in[1], p.out[1], 0);
  }

 private:
  struct Line {
    int64_t in, out, taps, align;
  };

  // Resamples `in` rows of `inner` elements to `out` rows, `outer` times.
  bool pass(void* to, const void* from, int64_t outer, int64_t inner, int64_t in, int64_t out, int axis) const {
    static KernelTemplate tables("resampling_uint8:table", {"S"}, {"CUBIC", "SMOOTH"}),
        along("resampling_uint8:along", {"S"}, {"CUBIC", "SMOOTH"}),
        across("resampling_uint8:across", {"S"}, {"CUBIC", "SMOOTH"});
    const int cubic = mode_ == Resampling::kCubic;
    TemplateCall make(tables, device_, {DType::kF64}, {cubic, smooth_});
    TemplateCall call(axis == 1 ? along : across, device_, {DType::kF64}, {cubic, smooth_});
    if (!make.available() || !call.available()) return false;
    // A dimension that keeps its size is copied, whatever its scale.
    const double step = in == out ? 1 : step_of(in, out, mode_, align_, scales_[axis]);
    const double reach = (cubic ? 2 : 1) * (smooth_ ? std::max(step, 1.0) : 1.0);
    const Line line{in, out, 2 * static_cast<int64_t>(std::ceil(reach)) + 1, align_};
    const Scratch table(device_, (1 + out * (line.taps + 2)) * static_cast<int64_t>(sizeof(int32_t)));
    make.pointer(table.get()).real(step).value(line).launch(binding_.op, 1);
    const int64_t rows = axis == 1 ? outer : outer * out;
    const int64_t per_group = call.rows_per_group(line.taps * (axis == 1 ? out : inner));
    call.pointer(to).pointer(from).pointer(table.get()).integer(rows).integer(per_group);
    if (axis == 0) call.integer(inner);
    return call.value(line).launch(binding_.op, ceil_div(rows, per_group));
  }

  const OpBinding& binding_;
  Device& device_;
  Resampling mode_;
  bool align_, smooth_;
  const double* scales_;
};

}  // namespace

bool upsample(const OpBinding& binding, Device& device, const View& out, const View& self, Resampling mode, bool align,
              const double* scales, int rank) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(align), attribute(scales[0]),
                   attribute(rank > 1 ? scales[1] : 0), attribute(rank > 2 ? scales[2] : 0)}))
    return true;
  static KernelTemplate kernels("resampling:forward", {"T", "S"}, {"MODE"});
  const bool copies = mode < Resampling::kLinear;
  if (!binding.portable_allowed || !self.defined()) return false;
  if (!copies && self.dtype == DType::kU8 && rank == 2) {
    PortableScope scope(binding);
    return Bytes(binding, device, mode, align, false, scales).run(out, self) && scope.done();
  }
  if (copies ? raw_units(self.dtype) != 1 : !is_float(self.dtype)) return false;
  const DType scale = scale_type(self.dtype, mode);
  TemplateCall call(kernels, device, {copies ? raw_dtype(self.dtype) : self.dtype, scale}, {static_cast<int>(mode)});
  if (!call.available()) return false;
  const ResamplingShape g{spatial_shape(self, out, rank), align};
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = 2 * call.rows_per_group(g.planes.out[2]);
  call.arg(out).arg(self).integer(rows).integer(per_group);
  add_scales(call, g.planes, scale, mode, align, scales, rank);
  return call.value(g).run(binding, ceil_div(rows, per_group));
}

bool upsample_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       Resampling mode, bool align, const double* scales, int rank) {
  if (call_vendor(binding, device,
                  {output(grad_input), input(grad), attribute(align), attribute(scales[0]),
                   attribute(rank > 1 ? scales[1] : 0), attribute(rank > 2 ? scales[2] : 0)}))
    return true;
  static KernelTemplate kernels("resampling:backward", {"T", "S", "G"}, {"MODE"});
  if (!can_resample(binding, grad)) return false;
  PortableScope scope(binding);
  const DType scale = scale_type(grad.dtype, mode);
  TemplateCall call(kernels, device, {grad.dtype, scale, accumulator(grad.dtype)}, {static_cast<int>(mode)});
  if (!call.available()) return false;
  const AccumulationBuffer sums(device, grad_input);
  const ResamplingShape g{spatial_shape(grad_input, grad, rank), align};
  const int64_t area = g.planes.out[0] * g.planes.out[1] * g.planes.out[2];
  const int64_t per_group = call.rows_per_group(area);
  call.arg(sums.view).arg(grad).integer(per_group);
  add_scales(call, g.planes, scale, mode, align, scales, rank);
  call.value(g).launch(binding.op, ceil_div(g.planes.count, per_group));
  return sums.finish(binding, device) && scope.done();
}

bool upsample_antialiased(const OpBinding& binding, Device& device, const View& out, const View& self, Resampling mode,
                          bool align, const double* scales) {
  if (call_vendor(binding, device,
                  {output(out), input(self), attribute(align), attribute(scales[0]), attribute(scales[1])}))
    return true;
  static KernelTemplate kernels("resampling_antialiased:forward", {"T", "S"}, {"CUBIC"});
  if (binding.portable_allowed && self.dtype == DType::kU8) {
    PortableScope scope(binding);
    return Bytes(binding, device, mode, align, true, scales).run(out, self) && scope.done();
  }
  if (!can_resample(binding, self)) return false;
  PortableScope scope(binding);
  const ResamplingShape g{spatial_shape(self, out, 2), align};
  return antialias(binding, device, kernels, out, self, g, g.planes.out, mode, scales) && scope.done();
}

bool upsample_antialiased_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                                   Resampling mode, bool align, const double* scales) {
  if (call_vendor(binding, device,
                  {output(grad_input), input(grad), attribute(align), attribute(scales[0]), attribute(scales[1])}))
    return true;
  static KernelTemplate kernels("resampling_antialiased:backward", {"T", "S"}, {"CUBIC"});
  if (!can_resample(binding, grad)) return false;
  PortableScope scope(binding);
  const ResamplingShape g{spatial_shape(grad_input, grad, 2), align};
  return antialias(binding, device, kernels, grad_input, grad, g, g.planes.in, mode, scales) && scope.done();
}

}  // namespace hp::ops
