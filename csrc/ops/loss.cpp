#include "ops/loss.h"

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"

namespace hp::ops {
namespace {

VendorArgument attribute_of(LossReduction reduction) { return attribute(static_cast<int64_t>(reduction)); }

int64_t sum_bytes(DType dtype) { return info(accumulator(dtype)).bytes; }

double mean_factor(LossReduction reduction, int64_t count) {
  return reduction == LossReduction::kMean ? 1.0 / static_cast<double>(count) : 1.0;
}

// out = the sum of parts, divided by `count` for the mean.
bool finish(const OpBinding& binding, Device& device, const View& out, const void* parts, int64_t num_parts,
            LossReduction reduction, int64_t count) {
  static KernelTemplate kernels("loss:finish", {"T"});
  TemplateCall call(kernels, device, {out.dtype});
  call.arg(out).pointer(parts).integer(num_parts);
  call.real(mean_factor(reduction, count), out.dtype);
  return call.launch(binding.op, 1);
}

// Writes the loss of each row, or reduces them.
bool finish_rows(const OpBinding& binding, Device& device, const View& out, const void* parts, int64_t rows,
                 LossReduction reduction) {
  if (reduction != LossReduction::kNone) return finish(binding, device, out, parts, rows, reduction, rows);
  static KernelTemplate kernels("loss:narrow", {"T"});
  TemplateCall call(kernels, device, {out.dtype});
  return call.arg(out).pointer(parts).integer(rows).launch_elements(binding.op, rows);
}

bool has_bend(ElementwiseLoss loss) { return loss == ElementwiseLoss::kSmoothL1 || loss == ElementwiseLoss::kHuber; }

// `grad` is null in the forward direction.
bool call_elementwise_vendor(const OpBinding& binding, Device& device, ElementwiseLoss loss, const View& out,
                             const View* grad, const View& self, const View& target, const View& weight,
                             LossReduction reduction, double threshold) {
  VendorArgument arguments[7] = {output(out)};
  VendorArgument* last = arguments + 1;
  if (grad != nullptr) *last++ = input(*grad);
  *last++ = input(self);
  *last++ = input(target);
  if (loss == ElementwiseLoss::kBinaryCrossEntropy) *last++ = input(weight);
  *last++ = attribute_of(reduction);
  if (has_bend(loss)) *last++ = attribute(threshold);
  return call_vendor(binding, device, arguments, last);
}

bool can_run_ctc(const OpBinding& binding, const View& logs, const CtcTargets& targets) {
  return binding.portable_allowed && (logs.dtype == DType::kF32 || logs.dtype == DType::kF64) &&
         (targets.view.dtype == DType::kI64 || targets.view.dtype == DType::kI32);
}

// Adds the arguments that all CTC kernels take last.
TemplateCall& add_ctc_arguments(TemplateCall& call, const OpBinding& binding, const View& alpha, const View& logs,
                                const CtcTargets& targets) {
  call.arg(logs).arg(targets.view).arg(targets.lengths);
  call.integer(logs.sizes[0]).integer(logs.sizes[1]).integer(logs.sizes[2]).integer(alpha.sizes[2]);
  return call.integer(targets.stride).integer(targets.blank).fault(binding.op);
}

}  // namespace

bool elementwise_loss(const OpBinding& binding, Device& device, ElementwiseLoss loss, const View& out, const View& self,
                      const View& target, const View& weight, LossReduction reduction, double threshold) {
  if (call_elementwise_vendor(binding, device, loss, out, nullptr, self, target, weight, reduction, threshold))
    return true;
  static KernelTemplate each("loss:each", {"T"}, {"KIND", "WEIGHTED"}),
      total("loss:total", {"T"}, {"KIND", "WEIGHTED"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  PortableScope scope(binding);
  const bool reduced = reduction != LossReduction::kNone;
  TemplateCall call(reduced ? total : each, device, {self.dtype}, {static_cast<int>(loss), weight.defined()});
  if (!call.available()) return false;
  const int64_t elements = self.numel(), groups = call.groups_for(elements);
  const Scratch parts(device, reduced ? groups * sum_bytes(self.dtype) : 0);
  call.pointer(reduced ? parts.get() : out.data).arg(self).arg(target).arg(weight).integer(elements);
  call.real(threshold, self.dtype);
  call.launch(binding.op, groups);
  if (reduced && !finish(binding, device, out, parts.get(), groups, reduction, elements)) return false;
  return scope.done();
}

bool elementwise_loss_backward(const OpBinding& binding, Device& device, ElementwiseLoss loss, const View& out,
                               const View& grad, const View& self, const View& target, const View& weight,
                               LossReduction reduction, double threshold) {
  if (call_elementwise_vendor(binding, device, loss, out, &grad, self, target, weight, reduction, threshold))
    return true;
  static KernelTemplate kernels("loss:each_backward", {"T"}, {"KIND", "WEIGHTED", "ONE"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  const int64_t elements = self.numel();
  TemplateCall call(kernels, device, {self.dtype}, {static_cast<int>(loss), weight.defined(), grad.numel() == 1});
  call.arg(out).arg(grad).arg(self).arg(target).arg(weight).integer(elements);
  call.real(threshold, self.dtype);
  call.real(mean_factor(reduction, elements), self.dtype);
  return call.run_elements(binding, elements);
}

bool nll_loss(const OpBinding& binding, Device& device, const View& out, const View& total_weight, const View& self,
              const View& target, const View& weight, const ClassificationShape& shape, LossReduction reduction,
              int64_t ignore_index) {
  if (call_vendor(binding, device,
                  {output(out), output(total_weight), input(self), input(target), input(weight),
                   attribute_of(reduction), attribute(ignore_index)})) {
    return true;
  }
  static KernelTemplate each("loss:nll", {"T", "I"}), total("loss:nll_total", {"T", "I"}),
      sums("loss:nll_finish", {"T", "I"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  PortableScope scope(binding);
  const bool reduced = reduction != LossReduction::kNone;
  TemplateCall call(reduced ? total : each, device, {self.dtype, target.dtype});
  TemplateCall last(sums, device, {self.dtype, target.dtype});
  if (!call.available() || !last.available()) return false;
  const int64_t elements = shape.batch * shape.positions, groups = call.groups_for(elements);
  const Scratch parts(device, reduced ? 2 * groups * sum_bytes(self.dtype) : 0);
  call.pointer(reduced ? parts.get() : out.data).arg(self).arg(target).arg(weight).fault(binding.op);
  call.integer(elements).integer(shape.classes).integer(shape.positions).integer(ignore_index);
  if (reduced) call.integer(groups);
  call.launch(binding.op, groups);
  if (reduced) {
    last.arg(out).arg(total_weight).pointer(parts.get()).integer(groups).integer(reduction == LossReduction::kMean);
    last.launch(binding.op, 1);
  }
  return scope.done();
}

bool nll_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& self,
                       const View& target, const View& weight, const View& total_weight,
                       const ClassificationShape& shape, LossReduction reduction, int64_t ignore_index) {
  if (call_vendor(binding, device,
                  {output(out), input(grad), input(self), input(target), input(weight), input(total_weight),
                   attribute_of(reduction), attribute(ignore_index)})) {
    return true;
  }
  static KernelTemplate rows("loss:nll_backward", {"T", "I"}, {"REDUCED", "MEAN"}),
      planes("loss:nll_planes_backward", {"T", "I"}, {"REDUCED", "MEAN"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  const bool flat = shape.positions == 1;
  TemplateCall call(flat ? rows : planes, device, {self.dtype, target.dtype},
                    {reduction != LossReduction::kNone, reduction == LossReduction::kMean});
  const int64_t count = flat ? shape.batch : shape.batch * shape.classes;
  const int64_t per_group = call.rows_per_group(flat ? shape.classes : shape.positions);
  call.arg(out).arg(grad).arg(target).arg(weight).arg(total_weight).integer(count).integer(shape.classes);
  if (!flat) call.integer(shape.positions);
  return call.integer(ignore_index).integer(per_group).run(binding, ceil_div(count, per_group));
}

bool multi_margin_loss(const OpBinding& binding, Device& device, const View& out, const View& self, const View& target,
                       const View& weight, const ClassificationShape& shape, int64_t p, double margin,
                       LossReduction reduction) {
  if (call_vendor(binding, device,
                  {output(out), input(self), input(target), input(weight), attribute(p), attribute(margin),
                   attribute_of(reduction)})) {
    return true;
  }
  static KernelTemplate kernels("loss:multi_margin", {"T", "I"}, {"SQUARED"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  PortableScope scope(binding);
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {p == 2});
  if (!call.available()) return false;
  const Scratch parts(device, shape.batch * sum_bytes(self.dtype));
  call.pointer(parts.get()).arg(self).arg(target).arg(weight).integer(shape.batch).integer(shape.classes);
  call.real(margin, self.dtype);
  call.launch_elements(binding.op, shape.batch);
  return finish_rows(binding, device, out, parts.get(), shape.batch, reduction) && scope.done();
}

bool multi_margin_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                                const View& self, const View& target, const View& weight,
                                const ClassificationShape& shape, int64_t p, double margin, LossReduction reduction) {
  if (call_vendor(binding, device,
                  {output(out), input(grad), input(self), input(target), input(weight), attribute(p), attribute(margin),
                   attribute_of(reduction)})) {
    return true;
  }
  static KernelTemplate kernels("loss:multi_margin_backward", {"T", "I"}, {"SQUARED", "REDUCED"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {p == 2, reduction != LossReduction::kNone});
  call.arg(out).arg(grad).arg(self).arg(target).arg(weight).integer(shape.batch).integer(shape.classes);
  call.real(margin, self.dtype);
  call.real(mean_factor(reduction, shape.batch), self.dtype);
  return call.run_elements(binding, shape.batch);
}

bool multilabel_margin_loss(const OpBinding& binding, Device& device, const View& out, const View& is_target,
                            const View& self, const View& target, const ClassificationShape& shape,
                            LossReduction reduction) {
  if (call_vendor(binding, device,
                  {output(out), output(is_target), input(self), input(target), attribute_of(reduction)})) {
    return true;
  }
  static KernelTemplate kernels("loss:multilabel", {"T", "I"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  PortableScope scope(binding);
  TemplateCall call(kernels, device, {self.dtype, target.dtype});
  if (!call.available()) return false;
  const Scratch parts(device, shape.batch * sum_bytes(self.dtype));
  call.pointer(parts.get()).arg(is_target).arg(self).arg(target).integer(shape.batch).integer(shape.classes);
  call.launch_elements(binding.op, shape.batch);
  return finish_rows(binding, device, out, parts.get(), shape.batch, reduction) && scope.done();
}

bool multilabel_margin_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                                     const View& self, const View& target, const View& is_target,
                                     const ClassificationShape& shape, LossReduction reduction) {
  if (call_vendor(binding, device,
                  {output(out), input(grad), input(self), input(target), input(is_target), attribute_of(reduction)})) {
    return true;
  }
  static KernelTemplate kernels("loss:multilabel_backward", {"T", "I"}, {"REDUCED"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype, target.dtype}, {reduction != LossReduction::kNone});
  call.arg(out).arg(grad).arg(self).arg(target).arg(is_target).integer(shape.batch).integer(shape.classes);
  call.real(mean_factor(reduction, shape.batch), self.dtype);
  return call.run_elements(binding, shape.batch);
}

bool ctc_loss(const OpBinding& binding, Device& device, const View& losses, const View& alpha, const View& logs,
              const CtcTargets& targets) {
  static KernelTemplate kernels("ctc:forward", {"T", "I"});
  if (call_vendor(binding, device,
                  {output(losses), output(alpha), input(logs), input(targets.view), input(targets.lengths),
                   attribute(targets.stride), attribute(targets.blank)}))
    return true;
  if (!can_run_ctc(binding, logs, targets)) return false;
  TemplateCall call(kernels, device, {logs.dtype, targets.view.dtype});
  call.arg(losses).arg(alpha);
  return add_ctc_arguments(call, binding, alpha, logs, targets).run(binding, logs.sizes[1]);
}

bool ctc_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& logs,
                       const CtcTargets& targets, const View& losses, const View& alpha, bool zero_infinity) {
  static KernelTemplate sums("ctc:beta", {"T", "I"}), kernels("ctc:backward", {"T", "I"});
  if (call_vendor(binding, device,
                  {output(out), input(grad), input(logs), input(targets.view), input(targets.lengths), input(losses),
                   input(alpha), attribute(targets.stride), attribute(targets.blank), attribute(zero_infinity)}))
    return true;
  if (!can_run_ctc(binding, logs, targets)) return false;
  PortableScope scope(binding);
  TemplateCall first(sums, device, {logs.dtype, targets.view.dtype});
  TemplateCall second(kernels, device, {logs.dtype, targets.view.dtype});
  if (!first.available() || !second.available()) return false;
  const Scratch beta(device, alpha.bytes());
  first.pointer(beta.get());
  add_ctc_arguments(first, binding, alpha, logs, targets).launch(binding.op, logs.sizes[1]);
  second.arg(out).arg(grad).arg(losses).arg(alpha).pointer(beta.get());
  add_ctc_arguments(second, binding, alpha, logs, targets).integer(zero_infinity);
  second.launch(binding.op, logs.sizes[0] * logs.sizes[1]);
  return scope.done();
}

}  // namespace hp::ops
