#include "ctc.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

bool able(const Service& service, const View& logs, const CtcTargets& targets) {
  return service.has_compiler && (logs.dtype == DType::kF32 || logs.dtype == DType::kF64) &&
         (targets.view.dtype == DType::kI64 || targets.view.dtype == DType::kI32);
}

// What all kernels take last.
TemplateCall& pass(TemplateCall& call, const Service& service, const View& alpha, const View& logs,
                   const CtcTargets& targets) {
  call.arg(logs).arg(targets.view).arg(targets.lengths);
  call.integer(logs.sizes[0]).integer(logs.sizes[1]).integer(logs.sizes[2]).integer(alpha.sizes[2]);
  return call.integer(targets.stride).integer(targets.blank).fault(service.op);
}

}  // namespace

bool ctc_loss(const Service& service, Device& device, const View& losses, const View& alpha, const View& logs,
              const CtcTargets& targets) {
  static TemplateKernels kernels("ctc:forward", {"T", "I"});
  if (call_vendor(service, device,
                  {output(losses), output(alpha), input(logs), input(targets.view), input(targets.lengths),
                   attribute(targets.stride), attribute(targets.blank)}))
    return true;
  if (!able(service, logs, targets)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {logs.dtype, targets.view.dtype});
  if (!call.available()) return false;
  call.arg(losses).arg(alpha);
  pass(call, service, alpha, logs, targets).launch(service.op, logs.sizes[1]);
  return scope.done();
}

bool ctc_loss_backward(const Service& service, Device& device, const View& out, const View& grad, const View& logs,
                       const CtcTargets& targets, const View& losses, const View& alpha, bool zero_infinity) {
  static TemplateKernels sums("ctc:beta", {"T", "I"}), kernels("ctc:backward", {"T", "I"});
  if (call_vendor(service, device,
                  {output(out), input(grad), input(logs), input(targets.view), input(targets.lengths), input(losses),
                   input(alpha), attribute(targets.stride), attribute(targets.blank), attribute(zero_infinity)}))
    return true;
  if (!able(service, logs, targets)) return false;
  PortableScope scope(service);
  TemplateCall first(sums, device, {logs.dtype, targets.view.dtype});
  TemplateCall second(kernels, device, {logs.dtype, targets.view.dtype});
  if (!first.available() || !second.available()) return false;
  const Scratch beta(device, alpha.bytes());
  first.pointer(beta.get());
  pass(first, service, alpha, logs, targets).launch(service.op, logs.sizes[1]);
  second.arg(out).arg(grad).arg(losses).arg(alpha).pointer(beta.get());
  pass(second, service, alpha, logs, targets).integer(zero_infinity);
  second.launch(service.op, logs.sizes[0] * logs.sizes[1]);
  return scope.done();
}

}  // namespace hp::ops
