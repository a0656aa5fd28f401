#include "loss.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

VendorArgument attribute_of(Reduction reduction) { return attribute(static_cast<int64_t>(reduction)); }

// How many groups launch_elements would use.
int64_t groups_of(const TemplateCall& call, int64_t elements) {
  const int64_t per_group = call.elements_per_group();
  return (elements + per_group - 1) / per_group;
}

int64_t sum_bytes(DType dtype) { return info(accumulator(dtype)).bytes; }

// out = the sum of parts, or their part of the mean over `count`.
bool finish(const Service& service, Device& device, const View& out, const void* parts, int64_t num_parts,
            Reduction reduction, int64_t count) {
  static TemplateKernels kernels("loss:finish", {"T"});
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  call.arg(out).pointer(parts).integer(num_parts);
  call.real(reduction == Reduction::kMean ? 1.0 / static_cast<double>(count) : 1.0, out.dtype);
  call.launch(service.op, 1);
  return true;
}

// The losses of rows: each, or reduced.
bool finish_rows(const Service& service, Device& device, const View& out, const void* parts, int64_t rows,
                 Reduction reduction) {
  if (reduction != Reduction::kNone) return finish(service, device, out, parts, rows, reduction, rows);
  static TemplateKernels kernels("loss:narrow", {"T"});
  TemplateCall call(kernels, device, {out.dtype});
  if (!call.available()) return false;
  call.arg(out).pointer(parts).integer(rows).launch_elements(service.op, rows);
  return true;
}

double mean_factor(Reduction reduction, int64_t count) {
  return reduction == Reduction::kMean ? 1.0 / static_cast<double>(count) : 1.0;
}

bool has_bend(PairLoss loss) { return loss == PairLoss::kSmoothL1 || loss == PairLoss::kHuber; }

bool call_pair_vendor(const Service& service, Device& device, PairLoss loss, const View& out, const View& self,
                      const View& target, const View& weight, Reduction reduction, double bend) {
  if (has_bend(loss)) {
    return call_vendor(service, device,
                       {output(out), input(self), input(target), attribute_of(reduction), attribute(bend)});
  }
  if (loss == PairLoss::kSquared) {
    return call_vendor(service, device, {output(out), input(self), input(target), attribute_of(reduction)});
  }
  return call_vendor(service, device,
                     {output(out), input(self), input(target), input(weight), attribute_of(reduction)});
}

bool call_pair_backward_vendor(const Service& service, Device& device, PairLoss loss, const View& out, const View& grad,
                               const View& self, const View& target, const View& weight, Reduction reduction,
                               double bend) {
  if (has_bend(loss)) {
    return call_vendor(
        service, device,
        {output(out), input(grad), input(self), input(target), attribute_of(reduction), attribute(bend)});
  }
  if (loss == PairLoss::kSquared) {
    return call_vendor(service, device,
                       {output(out), input(grad), input(self), input(target), attribute_of(reduction)});
  }
  return call_vendor(service, device,
                     {output(out), input(grad), input(self), input(target), input(weight), attribute_of(reduction)});
}

}  // namespace

bool pair_loss(const Service& service, Device& device, PairLoss loss, const View& out, const View& self,
               const View& target, const View& weight, Reduction reduction, double bend) {
  if (call_pair_vendor(service, device, loss, out, self, target, weight, reduction, bend)) return true;
  static TemplateKernels each("loss:each", {"T"}, {"KIND", "WEIGHTED"}),
      total("loss:total", {"T"}, {"KIND", "WEIGHTED"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const bool reduced = reduction != Reduction::kNone;
  TemplateCall call(reduced ? total : each, device, {self.dtype}, {static_cast<int>(loss), weight.defined()});
  if (!call.available()) return false;
  const int64_t elements = self.numel(), groups = groups_of(call, elements);
  const Scratch parts(device, reduced ? groups * sum_bytes(self.dtype) : 0);
  call.pointer(reduced ? parts.get() : out.data).arg(self).arg(target).arg(weight).integer(elements);
  call.real(bend, self.dtype);
  call.launch(service.op, groups);
  if (reduced && !finish(service, device, out, parts.get(), groups, reduction, elements)) return false;
  return scope.done();
}

bool pair_loss_backward(const Service& service, Device& device, PairLoss loss, const View& out, const View& grad,
                        const View& self, const View& target, const View& weight, Reduction reduction, double bend) {
  if (call_pair_backward_vendor(service, device, loss, out, grad, self, target, weight, reduction, bend)) return true;
  static TemplateKernels kernels("loss:each_backward", {"T"}, {"KIND", "WEIGHTED", "ONE"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const int64_t elements = self.numel();
  TemplateCall call(kernels, device, {self.dtype}, {static_cast<int>(loss), weight.defined(), grad.numel() == 1});
  if (!call.available()) return false;
  call.arg(out).arg(grad).arg(self).arg(target).arg(weight).integer(elements);
  call.real(bend, self.dtype);
  call.real(mean_factor(reduction, elements), self.dtype);
  call.launch_elements(service.op, elements);
  return scope.done();
}

bool nll_loss(const Service& service, Device& device, const View& out, const View& total_weight, const View& self,
              const View& target, const View& weight, const Classes& shape, Reduction reduction, int64_t ignore_index) {
  if (call_vendor(service, device,
                  {output(out), output(total_weight), input(self), input(target), input(weight),
                   attribute_of(reduction), attribute(ignore_index)})) {
    return true;
  }
  static TemplateKernels each("loss:nll", {"T", "I"}), total("loss:nll_total", {"T", "I"}),
      sums("loss:nll_finish", {"T", "I"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const bool reduced = reduction != Reduction::kNone;
  TemplateCall call(reduced ? total : each, device, {self.dtype, target.dtype});
  TemplateCall last(sums, device, {self.dtype, target.dtype});
  if (!call.available() || !last.available()) return false;
  const int64_t elements = shape.batch * shape.places, groups = groups_of(call, elements);
  const Scratch parts(device, reduced ? 2 * groups * sum_bytes(self.dtype) : 0);
  call.pointer(reduced ? parts.get() : out.data).arg(self).arg(target).arg(weight).integer(elements);
  call.integer(shape.classes).integer(shape.places).integer(ignore_index);
  if (reduced) call.integer(groups);
  call.launch(service.op, groups);
  if (reduced) {
    last.arg(out).arg(total_weight).pointer(parts.get()).integer(groups).integer(reduction == Reduction::kMean);
    last.launch(service.op, 1);
  }
  return scope.done();
}

bool nll_loss_backward(const Service& service, Device& device, const View& out, const View& grad, const View& self,
                       const View& target, const View& weight, const View& total_weight, const Classes& shape,
                       Reduction reduction, int64_t ignore_index) {
  if (call_vendor(service, device,
                  {output(out), input(grad), input(self), input(target), input(weight), input(total_weight),
                   attribute_of(reduction), attribute(ignore_index)})) {
    return true;
  }
  static TemplateKernels rows("loss:nll_backward", {"T", "I"}, {"REDUCED", "MEAN"}),
      planes("loss:nll_planes_backward", {"T", "I"}, {"REDUCED", "MEAN"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const bool flat = shape.places == 1;
  TemplateCall call(flat ? rows : planes, device, {self.dtype, target.dtype},
                    {reduction != Reduction::kNone, reduction == Reduction::kMean});
  if (!call.available()) return false;
  const int64_t count = flat ? shape.batch : shape.batch * shape.classes;
  const int64_t per_group = call.rows_per_group(flat ? shape.classes : shape.places);
  call.arg(out).arg(grad).arg(target).arg(weight).arg(total_weight).integer(count).integer(shape.classes);
  if (!flat) call.integer(shape.places);
  call.integer(ignore_index).integer(per_group).launch(service.op, (count + per_group - 1) / per_group);
  return scope.done();
}

bool multi_margin_loss(const Service& service, Device& device, const View& out, const View& self, const View& target,
                       const View& weight, const Classes& shape, int64_t p, double margin, Reduction reduction) {
  if (call_vendor(service, device,
                  {output(out), input(self), input(target), input(weight), attribute(p), attribute(margin),
                   attribute_of(reduction)})) {
    return true;
  }
  static TemplateKernels kernels("loss:multi_margin", {"T", "I"}, {"SQUARED"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {p == 2});
  if (!call.available()) return false;
  const Scratch parts(device, shape.batch * sum_bytes(self.dtype));
  call.pointer(parts.get()).arg(self).arg(target).arg(weight).integer(shape.batch).integer(shape.classes);
  call.real(margin, self.dtype);
  call.launch_elements(service.op, shape.batch);
  return finish_rows(service, device, out, parts.get(), shape.batch, reduction) && scope.done();
}

bool multi_margin_loss_backward(const Service& service, Device& device, const View& out, const View& grad,
                                const View& self, const View& target, const View& weight, const Classes& shape,
                                int64_t p, double margin, Reduction reduction) {
  if (call_vendor(service, device,
                  {output(out), input(grad), input(self), input(target), input(weight), attribute(p), attribute(margin),
                   attribute_of(reduction)})) {
    return true;
  }
  static TemplateKernels kernels("loss:multi_margin_backward", {"T", "I"}, {"SQUARED", "REDUCED"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {p == 2, reduction != Reduction::kNone});
  if (!call.available()) return false;
  call.arg(out).arg(grad).arg(self).arg(target).arg(weight).integer(shape.batch).integer(shape.classes);
  call.real(margin, self.dtype);
  call.real(mean_factor(reduction, shape.batch), self.dtype);
  call.launch_elements(service.op, shape.batch);
  return scope.done();
}

bool multilabel_margin_loss(const Service& service, Device& device, const View& out, const View& is_target,
                            const View& self, const View& target, const Classes& shape, Reduction reduction) {
  if (call_vendor(service, device,
                  {output(out), output(is_target), input(self), input(target), attribute_of(reduction)})) {
    return true;
  }
  static TemplateKernels kernels("loss:multilabel", {"T", "I"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, target.dtype});
  if (!call.available()) return false;
  const Scratch parts(device, shape.batch * sum_bytes(self.dtype));
  call.pointer(parts.get()).arg(is_target).arg(self).arg(target).integer(shape.batch).integer(shape.classes);
  call.launch_elements(service.op, shape.batch);
  return finish_rows(service, device, out, parts.get(), shape.batch, reduction) && scope.done();
}

bool multilabel_margin_loss_backward(const Service& service, Device& device, const View& out, const View& grad,
                                     const View& self, const View& target, const View& is_target, const Classes& shape,
                                     Reduction reduction) {
  if (call_vendor(service, device,
                  {output(out), input(grad), input(self), input(target), input(is_target), attribute_of(reduction)})) {
    return true;
  }
  static TemplateKernels kernels("loss:multilabel_backward", {"T", "I"}, {"REDUCED"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {reduction != Reduction::kNone});
  if (!call.available()) return false;
  call.arg(out).arg(grad).arg(self).arg(target).arg(is_target).integer(shape.batch).integer(shape.classes);
  call.real(mean_factor(reduction, shape.batch), self.dtype);
  call.launch_elements(service.op, shape.batch);
  return scope.done();
}

}  // namespace hp::ops
