#include "resampling.h"

#include <algorithm>
#include <cmath>

#include "../core/template_call.h"
#include "../core/words.h"
#include "spatial.h"
#include "sums.h"

namespace hp::ops {
namespace {

struct Geometry {
  Planes planes;
  int64_t align;
};

// Input elements for each output element, in the precision that torch has it.
double step_of(int64_t in, int64_t out, Resampling mode, bool align, double scale) {
  if (align) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (mode == Resampling::kNearest && out == in) return 1;
  if (mode == Resampling::kNearest && out == 2 * in) return 0.5;
  return scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
}

DType scale_type(DType dtype, Resampling mode) {
  return dtype == DType::kF64 && mode >= Resampling::kLinear ? DType::kF64 : DType::kF32;
}

void add_scales(TemplateCall& call, const Planes& planes, DType type, Resampling mode, bool align, const double* scales,
                int rank) {
  for (int a = 0; a < 3; ++a) {
    const double given = a < 3 - rank ? 0 : scales[a - (3 - rank)];
    const double step = step_of(planes.in[a], planes.out[a], mode, align, given);
    if (type == DType::kF64) {
      call.real(step);
    } else {
      call.value(static_cast<float>(step));
    }
  }
}

bool takes(const Service& service, const View& view) { return service.has_compiler && is_float(view.dtype); }

// `written` are the sizes of a plane that the kernel goes through, row by row.
bool antialias(const Service& service, Device& device, TemplateKernels& kernels, const View& to, const View& from,
               const Geometry& g, const int64_t (&written)[3], Resampling mode, const double* scales) {
  const DType scale = scale_type(from.dtype, mode);
  TemplateCall call(kernels, device, {from.dtype, scale}, {mode == Resampling::kCubic});
  if (!call.available()) return false;
  const int64_t rows = g.planes.count * written[1], per_group = call.rows_per_group(16 * written[2]);
  call.arg(to).arg(from).integer(rows).integer(per_group);
  add_scales(call, g.planes, scale, mode, g.align != 0, scales, 2);
  call.value(g).launch(service.op, (rows + per_group - 1) / per_group);
  return true;
}

// Bytes, in whole numbers: kernels/resampling_bytes.c. One dimension after the other, each with a table of weights.
class Bytes {
 public:
  Bytes(const Service& service, Device& device, Resampling mode, bool align, bool smooth, const double* scales)
      : service_(service), device_(device), mode_(mode), align_(align), smooth_(smooth), scales_(scales) {}

  bool run(const View& out, const View& self) const {
    const Planes p = planes_of(self, out, 2);
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

  // `outer` times `in` rows of `inner` elements become `out` rows.
  bool pass(void* to, const void* from, int64_t outer, int64_t inner, int64_t in, int64_t out, int axis) const {
    static TemplateKernels tables("resampling_bytes:table", {"S"}, {"CUBIC", "SMOOTH"}),
        along("resampling_bytes:along", {"S"}, {"CUBIC", "SMOOTH"}),
        across("resampling_bytes:across", {"S"}, {"CUBIC", "SMOOTH"});
    const int cubic = mode_ == Resampling::kCubic;
    TemplateCall make(tables, device_, {DType::kF64}, {cubic, smooth_});
    TemplateCall call(axis == 1 ? along : across, device_, {DType::kF64}, {cubic, smooth_});
    if (!make.available() || !call.available()) return false;
    // A dimension that keeps its size stays as it is, whatever factor was given.
    const double step = in == out ? 1 : step_of(in, out, mode_, align_, scales_[axis]);
    const double reach = (cubic ? 2 : 1) * (smooth_ ? std::max(step, 1.0) : 1.0);
    const Line line{in, out, 2 * static_cast<int64_t>(std::ceil(reach)) + 1, align_};
    const Scratch table(device_, (1 + out * (line.taps + 2)) * static_cast<int64_t>(sizeof(int32_t)));
    make.pointer(table.get()).real(step).value(line).launch(service_.op, 1);
    const int64_t rows = axis == 1 ? outer : outer * out;
    const int64_t per_group = call.rows_per_group(line.taps * (axis == 1 ? out : inner));
    call.pointer(to).pointer(from).pointer(table.get()).integer(rows).integer(per_group);
    if (axis == 0) call.integer(inner);
    call.value(line).launch(service_.op, (rows + per_group - 1) / per_group);
    return true;
  }

  const Service& service_;
  Device& device_;
  Resampling mode_;
  bool align_, smooth_;
  const double* scales_;
};

}  // namespace

bool upsample(const Service& service, Device& device, const View& out, const View& self, Resampling mode, bool align,
              const double* scales, int rank) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(align), attribute(scales[0]),
                   attribute(rank > 1 ? scales[1] : 0), attribute(rank > 2 ? scales[2] : 0)}))
    return true;
  static TemplateKernels kernels("resampling:forward", {"T", "S"}, {"MODE"});
  const bool moves = mode < Resampling::kLinear;
  if (!service.has_compiler || !self.defined()) return false;
  if (!moves && self.dtype == DType::kU8 && rank == 2) {
    PortableScope scope(service);
    return Bytes(service, device, mode, align, false, scales).run(out, self) && scope.done();
  }
  if (moves ? words_of(self.dtype) != 1 : !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const DType scale = scale_type(self.dtype, mode);
  TemplateCall call(kernels, device, {moves ? word_of(self.dtype) : self.dtype, scale}, {static_cast<int>(mode)});
  if (!call.available()) return false;
  const Geometry g{planes_of(self, out, rank), align};
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = 2 * call.rows_per_group(g.planes.out[2]);
  call.arg(out).arg(self).integer(rows).integer(per_group);
  add_scales(call, g.planes, scale, mode, align, scales, rank);
  call.value(g).launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

bool upsample_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       Resampling mode, bool align, const double* scales, int rank) {
  if (call_vendor(service, device,
                  {output(grad_input), input(grad), attribute(align), attribute(scales[0]),
                   attribute(rank > 1 ? scales[1] : 0), attribute(rank > 2 ? scales[2] : 0)}))
    return true;
  static TemplateKernels kernels("resampling:backward", {"T", "S", "G"}, {"MODE"});
  if (!takes(service, grad)) return false;
  PortableScope scope(service);
  const DType scale = scale_type(grad.dtype, mode);
  TemplateCall call(kernels, device, {grad.dtype, scale, accumulator(grad.dtype)}, {static_cast<int>(mode)});
  if (!call.available()) return false;
  const Sums sums(device, grad_input);
  const Geometry g{planes_of(grad_input, grad, rank), align};
  const int64_t area = g.planes.out[0] * g.planes.out[1] * g.planes.out[2];
  const int64_t per_group = call.rows_per_group(area);
  call.arg(sums.view).arg(grad).integer(per_group);
  add_scales(call, g.planes, scale, mode, align, scales, rank);
  call.value(g).launch(service.op, (g.planes.count + per_group - 1) / per_group);
  return sums.finish(service, device) && scope.done();
}

bool upsample_antialiased(const Service& service, Device& device, const View& out, const View& self, Resampling mode,
                          bool align, const double* scales) {
  if (call_vendor(service, device,
                  {output(out), input(self), attribute(align), attribute(scales[0]), attribute(scales[1])}))
    return true;
  static TemplateKernels kernels("antialias:forward", {"T", "S"}, {"CUBIC"});
  if (service.has_compiler && self.dtype == DType::kU8) {
    PortableScope scope(service);
    return Bytes(service, device, mode, align, true, scales).run(out, self) && scope.done();
  }
  if (!takes(service, self)) return false;
  PortableScope scope(service);
  const Geometry g{planes_of(self, out, 2), align};
  return antialias(service, device, kernels, out, self, g, g.planes.out, mode, scales) && scope.done();
}

bool upsample_antialiased_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                                   Resampling mode, bool align, const double* scales) {
  if (call_vendor(service, device,
                  {output(grad_input), input(grad), attribute(align), attribute(scales[0]), attribute(scales[1])}))
    return true;
  static TemplateKernels kernels("antialias:backward", {"T", "S"}, {"CUBIC"});
  if (!takes(service, grad)) return false;
  PortableScope scope(service);
  const Geometry g{planes_of(grad_input, grad, 2), align};
  return antialias(service, device, kernels, grad_input, grad, g, g.planes.in, mode, scales) && scope.done();
}

}  // namespace hp::ops
