#include "normalisation.h"

#include <algorithm>

#include "../core/template_call.h"
#include "channels.h"

namespace hp::ops {
namespace {

constexpr int64_t kColumns = 64;      // COLUMNS in kernels/normalisation.c
constexpr int64_t kPartColumns = 16;  // PART_COLUMNS there, for groups of many work-items
// Groups that the gradients of weight and bias are split over: of many work-items, enough to fill a large device.
constexpr int64_t kMaxParts = 128, kMaxPartsOfGroups = 512;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

DType first_defined(std::initializer_list<const View*> views, DType otherwise) {
  for (const View* view : views) {
    if (view->defined()) return view->dtype;
  }
  return otherwise;
}

bool rows_forward(const Service& service, Device& device, const View& out, const RowStatistics& statistics,
                  const View& input, const View& weight, const View& bias, int64_t n, double eps) {
  static TemplateKernels kernels("normalisation:rows", {"T", "W"}, {"RMS", "HAS_WEIGHT", "HAS_BIAS"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  const bool rms = !statistics.mean.defined();
  TemplateCall call(kernels, device, {input.dtype, first_defined({&weight, &bias}, input.dtype)},
                    {rms, weight.defined(), bias.defined()});
  if (!call.available()) return false;
  const int64_t rows = input.numel() / n, per_group = call.rows_per_group(n);
  call.arg(out).arg(statistics.mean).arg(statistics.rstd).arg(input).arg(weight).arg(bias).integer(rows).integer(n);
  call.real(eps, input.dtype);
  call.integer(per_group).launch(service.op, divide_up(rows, per_group));
  return scope.done();
}

bool rows_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                   const View& grad_bias, const View& grad, const View& input, const RowStatistics& statistics,
                   const View& weight, int64_t n) {
  static TemplateKernels kernels("normalisation:rows_backward", {"T", "W"}, {"RMS", "HAS_WEIGHT", "WANTED", "PARTS"}),
      sums("normalisation:parts", {"T", "W"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  const bool rms = !statistics.mean.defined(), parts = grad_weight.defined() || grad_bias.defined();
  const DType parameters = first_defined({&weight, &grad_weight, &grad_bias}, input.dtype);
  TemplateCall call(kernels, device, {input.dtype, parameters}, {rms, weight.defined(), out.defined(), parts});
  TemplateCall finish(sums, device, {input.dtype, parameters});
  if (!call.available() || !finish.available()) return false;
  // As many parts for every number of threads: sums must not depend on it.
  const int64_t group_size = device.plugin.compiler.group_size, most = group_size == 1 ? kMaxParts : kMaxPartsOfGroups;
  const int64_t rows = input.numel() / n, per_group = std::max(call.rows_per_group(n), divide_up(rows, most));
  const int64_t groups = divide_up(rows, per_group);
  const Scratch scratch(device, parts ? groups * 2 * n * info(accumulator(input.dtype)).bytes : 0);
  call.arg(out).pointer(scratch.get()).arg(grad).arg(input).arg(statistics.mean).arg(statistics.rstd).arg(weight);
  call.integer(rows).integer(n).integer(per_group).launch(service.op, groups);
  if (parts) {
    finish.arg(grad_weight).arg(grad_bias).pointer(scratch.get()).integer(groups).integer(n);
    finish.launch(service.op, divide_up(n, group_size == 1 ? kColumns : std::min(kPartColumns, group_size)));
  }
  return scope.done();
}

// Whether the channels of N x C x ... are innermost: dense, but not contiguous, or with nothing beside them.
bool channels_innermost(const View& input) {
  return input.numel() / input.sizes[0] == input.sizes[1] || !input.contiguous();
}

}  // namespace

bool layer_norm(const Service& service, Device& device, const View& out, const RowStatistics& statistics,
                const View& input, const View& weight, const View& bias, int64_t n, double eps) {
  return call_vendor(service, device,
                     {output(out), output(statistics.mean), output(statistics.rstd), hp::input(input),
                      hp::input(weight), hp::input(bias), attribute(n), attribute(eps)}) ||
         rows_forward(service, device, out, statistics, input, weight, bias, n, eps);
}

bool rms_norm(const Service& service, Device& device, const View& out, const View& rstd, const View& input,
              const View& weight, int64_t n, double eps) {
  return call_vendor(service, device,
                     {output(out), output(rstd), hp::input(input), hp::input(weight), attribute(n), attribute(eps)}) ||
         rows_forward(service, device, out, {{}, rstd}, input, weight, {}, n, eps);
}

bool layer_norm_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const RowStatistics& statistics,
                         const View& weight, int64_t n) {
  return call_vendor(service, device,
                     {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
                      hp::input(statistics.mean), hp::input(statistics.rstd), hp::input(weight), attribute(n)}) ||
         rows_backward(service, device, out, grad_weight, grad_bias, grad, input, statistics, weight, n);
}

bool rms_norm_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                       const View& grad, const View& input, const View& rstd, const View& weight, int64_t n) {
  return call_vendor(service, device,
                     {output(out), output(grad_weight), hp::input(grad), hp::input(input), hp::input(rstd),
                      hp::input(weight), attribute(n)}) ||
         rows_backward(service, device, out, grad_weight, {}, grad, input, {{}, rstd}, weight, n);
}

bool batch_norm(const Service& service, Device& device, const View& out, const View& input, const BatchNorm& norm) {
  if (call_vendor(service, device,
                  {output(out), output(norm.save_mean), output(norm.save_invstd), output(norm.running_mean),
                   output(norm.running_var), hp::input(input), hp::input(norm.weight), hp::input(norm.bias),
                   attribute(norm.train), attribute(norm.momentum), attribute(norm.eps)})) {
    return true;
  }
  static TemplateKernels planes("normalisation:channels", {"T", "W", "S"}, {"TRAIN"}),
      columns("normalisation:columns", {"T", "W", "S"}, {"TRAIN"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  const DType sums = accumulator(input.dtype);
  const bool innermost = channels_innermost(input);
  const DType parameters = first_defined({&norm.weight, &norm.bias}, sums),
              running = first_defined({&norm.running_mean, &norm.running_var}, sums);
  if (!innermost && device.plugin.compiler.group_size != 1) {
    return channels_forward(service, device, out, input, norm, parameters, running) && scope.done();
  }
  TemplateCall call(innermost ? columns : planes, device, {input.dtype, parameters, running}, {norm.train});
  if (!call.available()) return false;
  const int64_t channels = input.sizes[1], elements = input.numel(), batch = input.sizes[0];
  call.arg(out).arg(norm.save_mean).arg(norm.save_invstd).arg(input).arg(norm.weight).arg(norm.bias);
  call.arg(norm.running_mean).arg(norm.running_var);
  if (innermost) {
    call.integer(elements / channels).integer(channels);
  } else {
    call.integer(batch).integer(elements / batch / channels).integer(elements / batch);
  }
  call.real(norm.momentum, input.dtype);
  call.real(norm.eps, input.dtype);
  call.launch(service.op, innermost ? divide_up(channels, kColumns) : channels);
  return scope.done();
}

bool batch_norm_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm) {
  if (call_vendor(
          service, device,
          {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
           hp::input(norm.weight), hp::input(norm.running_mean), hp::input(norm.running_var), hp::input(norm.save_mean),
           hp::input(norm.save_invstd), attribute(norm.train), attribute(norm.eps)})) {
    return true;
  }
  static TemplateKernels planes("normalisation:channels_backward", {"T", "W", "S"}, {"TRAIN"}),
      columns("normalisation:columns_backward", {"T", "W", "S"}, {"TRAIN"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  const DType sums = accumulator(input.dtype);
  const bool innermost = channels_innermost(input);
  const DType parameters = first_defined({&norm.weight, &grad_weight, &grad_bias}, sums),
              running = first_defined({&norm.running_mean, &norm.running_var}, sums);
  if (!innermost && device.plugin.compiler.group_size != 1) {
    return channels_backward(service, device, out, grad_weight, grad_bias, grad, input, norm, parameters, running) &&
           scope.done();
  }
  TemplateCall call(innermost ? columns : planes, device, {input.dtype, parameters, running}, {norm.train});
  if (!call.available()) return false;
  const int64_t channels = input.sizes[1], elements = input.numel(), batch = input.sizes[0];
  call.arg(out).arg(grad_weight).arg(grad_bias).arg(grad).arg(input).arg(norm.weight);
  call.arg(norm.running_mean).arg(norm.running_var).arg(norm.save_mean).arg(norm.save_invstd);
  if (innermost) {
    call.integer(elements / channels).integer(channels);
  } else {
    call.integer(batch).integer(elements / batch / channels).integer(elements / batch);
  }
  call.real(norm.eps, input.dtype);
  call.launch(service.op, innermost ? divide_up(channels, kColumns) : channels);
  return scope.done();
}

bool group_norm(const Service& service, Device& device, const View& out, const View& mean, const View& rstd,
                const View& input, const View& weight, const View& bias, const GroupNorm& shape, double eps) {
  if (call_vendor(service, device,
                  {output(out), output(mean), output(rstd), hp::input(input), hp::input(weight), hp::input(bias),
                   attribute(shape.groups), attribute(eps)})) {
    return true;
  }
  static TemplateKernels kernels("normalisation:groups", {"T", "W", "S"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {input.dtype, first_defined({&weight, &bias}, input.dtype), mean.dtype});
  if (!call.available()) return false;
  const int64_t total = shape.batch * shape.groups, depth = shape.channels / shape.groups;
  const int64_t per_group = call.rows_per_group(depth * shape.plane);
  call.arg(out).arg(mean).arg(rstd).arg(input).arg(weight).arg(bias).integer(total).integer(shape.groups);
  call.integer(depth).integer(shape.plane);
  call.real(eps, input.dtype);
  call.integer(per_group).launch(service.op, divide_up(total, per_group));
  return scope.done();
}

bool group_norm_backward(const Service& service, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const View& mean, const View& rstd,
                         const View& weight, const GroupNorm& shape) {
  if (call_vendor(service, device,
                  {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
                   hp::input(mean), hp::input(rstd), hp::input(weight), attribute(shape.groups)})) {
    return true;
  }
  static TemplateKernels kernels("normalisation:groups_backward", {"T", "W", "S"}),
      sums("normalisation:groups_parameters", {"T", "W"});
  if (!service.has_compiler || !is_float(input.dtype)) return false;
  PortableScope scope(service);
  const DType parameters = first_defined({&weight, &grad_weight, &grad_bias}, input.dtype);
  TemplateCall call(kernels, device, {input.dtype, parameters, mean.dtype});
  TemplateCall finish(sums, device, {input.dtype, parameters});
  if (!call.available() || !finish.available()) return false;
  const int64_t total = shape.batch * shape.groups, depth = shape.channels / shape.groups;
  const int64_t per_group = call.rows_per_group(depth * shape.plane);
  const Scratch scratch(device, shape.batch * shape.channels * 2 * info(accumulator(input.dtype)).bytes);
  call.arg(out).pointer(scratch.get()).arg(grad).arg(input).arg(mean).arg(rstd).arg(weight).integer(total);
  call.integer(shape.groups).integer(depth).integer(shape.plane).integer(per_group);
  call.launch(service.op, divide_up(total, per_group));
  if (grad_weight.defined() || grad_bias.defined()) {
    finish.arg(grad_weight).arg(grad_bias).pointer(scratch.get()).integer(shape.batch).integer(shape.channels);
    finish.launch_elements(service.op, shape.channels);
  }
  return scope.done();
}

}  // namespace hp::ops
