#include "ops/normalization.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "ops/detail/batch_norm_split.h"

namespace hp::ops {
namespace {

constexpr int64_t kNormColumns = 64;  // COLUMNS in kernels/sources/normalization.c
constexpr int64_t kPartColumns = 16;  // PART_COLUMNS there, for groups of many work-items
// Max work-groups for the weight and bias gradients: with one work-item per group, and with many.
constexpr int64_t kMaxParts = 128, kMaxPartsOfGroups = 512;

DType first_defined(std::initializer_list<const View*> views, DType otherwise) {
  for (const View* view : views) {
    if (view->defined()) return view->dtype;
  }
  return otherwise;
}

bool rows_forward(const OpBinding& binding, Device& device, const View& out, const RowStatistics& statistics,
                  const View& input, const View& weight, const View& bias, int64_t n, double eps) {
  static KernelTemplate kernels("normalization:rows", {"T", "W"}, {"RMS", "HAS_WEIGHT", "HAS_BIAS"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  const bool rms = !statistics.mean.defined();
  TemplateCall call(kernels, device, {input.dtype, first_defined({&weight, &bias}, input.dtype)},
                    {rms, weight.defined(), bias.defined()});
  const int64_t rows = input.numel() / n, per_group = call.rows_per_group(n);
  call.arg(out).arg(statistics.mean).arg(statistics.rstd).arg(input).arg(weight).arg(bias).integer(rows).integer(n);
  call.real(eps, input.dtype);
  return call.integer(per_group).run(binding, ceil_div(rows, per_group));
}

bool rows_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                   const View& grad_bias, const View& grad, const View& input, const RowStatistics& statistics,
                   const View& weight, int64_t n) {
  static KernelTemplate kernels("normalization:rows_backward", {"T", "W"}, {"RMS", "HAS_WEIGHT", "WANTED", "PARTS"}),
      sums("normalization:parts", {"T", "W"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  PortableScope scope(binding);
  const bool rms = !statistics.mean.defined(), parts = grad_weight.defined() || grad_bias.defined();
  const DType parameters = first_defined({&weight, &grad_weight, &grad_bias}, input.dtype);
  TemplateCall call(kernels, device, {input.dtype, parameters}, {rms, weight.defined(), out.defined(), parts});
  TemplateCall finish(sums, device, {input.dtype, parameters});
  if (!call.available() || !finish.available()) return false;
  // The number of parts must not depend on the number of threads, because sums depend on it.
  const int64_t group_size = device.group_size(), max_groups = group_size == 1 ? kMaxParts : kMaxPartsOfGroups;
  const int64_t rows = input.numel() / n, per_group = std::max(call.rows_per_group(n), ceil_div(rows, max_groups));
  const int64_t groups = ceil_div(rows, per_group);
  const Scratch scratch(device, parts ? groups * 2 * n * info(accumulator(input.dtype)).bytes : 0);
  call.arg(out).pointer(scratch.get()).arg(grad).arg(input).arg(statistics.mean).arg(statistics.rstd).arg(weight);
  call.integer(rows).integer(n).integer(per_group).launch(binding.op, groups);
  if (parts) {
    finish.arg(grad_weight).arg(grad_bias).pointer(scratch.get()).integer(groups).integer(n);
    finish.launch(binding.op, ceil_div(n, group_size == 1 ? kNormColumns : std::min(kPartColumns, group_size)));
  }
  return scope.done();
}

// Whether the dense N x C x ... input is channels-last, or has one element per channel.
bool channels_innermost(const View& input) {
  return input.numel() / input.sizes[0] == input.sizes[1] || !input.contiguous();
}

void add_channel_shape(TemplateCall& call, const View& input, bool innermost) {
  const int64_t batch = input.sizes[0], channels = input.sizes[1], elements = input.numel();
  if (innermost) {
    call.integer(elements / channels).integer(channels);
  } else {
    call.integer(batch).integer(elements / batch / channels).integer(elements / batch);
  }
}
int64_t channel_groups(const View& input, bool innermost) {
  return innermost ? ceil_div(input.sizes[1], kNormColumns) : input.sizes[1];
}

}  // namespace

bool layer_norm(const OpBinding& binding, Device& device, const View& out, const RowStatistics& statistics,
                const View& input, const View& weight, const View& bias, int64_t n, double eps) {
  return call_vendor(binding, device,
                     {output(out), output(statistics.mean), output(statistics.rstd), hp::input(input),
                      hp::input(weight), hp::input(bias), attribute(n), attribute(eps)}) ||
         rows_forward(binding, device, out, statistics, input, weight, bias, n, eps);
}

bool rms_norm(const OpBinding& binding, Device& device, const View& out, const View& rstd, const View& input,
              const View& weight, int64_t n, double eps) {
  return call_vendor(binding, device,
                     {output(out), output(rstd), hp::input(input), hp::input(weight), attribute(n), attribute(eps)}) ||
         rows_forward(binding, device, out, {{}, rstd}, input, weight, {}, n, eps);
}

bool layer_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const RowStatistics& statistics,
                         const View& weight, int64_t n) {
  return call_vendor(binding, device,
                     {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
                      hp::input(statistics.mean), hp::input(statistics.rstd), hp::input(weight), attribute(n)}) ||
         rows_backward(binding, device, out, grad_weight, grad_bias, grad, input, statistics, weight, n);
}

bool rms_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                       const View& grad, const View& input, const View& rstd, const View& weight, int64_t n) {
  return call_vendor(binding, device,
                     {output(out), output(grad_weight), hp::input(grad), hp::input(input), hp::input(rstd),
                      hp::input(weight), attribute(n)}) ||
         rows_backward(binding, device, out, grad_weight, {}, grad, input, {{}, rstd}, weight, n);
}

bool batch_norm(const OpBinding& binding, Device& device, const View& out, const View& input, const BatchNorm& norm) {
  if (call_vendor(binding, device,
                  {output(out), output(norm.save_mean), output(norm.save_invstd), output(norm.running_mean),
                   output(norm.running_var), hp::input(input), hp::input(norm.weight), hp::input(norm.bias),
                   attribute(norm.train), attribute(norm.momentum), attribute(norm.eps)})) {
    return true;
  }
  static KernelTemplate planes("normalization:channels", {"T", "W", "S"}, {"TRAIN"}),
      columns("normalization:columns", {"T", "W", "S"}, {"TRAIN"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  const DType sums = accumulator(input.dtype);
  const bool innermost = channels_innermost(input);
  const DType parameters = first_defined({&norm.weight, &norm.bias}, sums),
              running = first_defined({&norm.running_mean, &norm.running_var}, sums);
  if (!innermost && device.group_size() != 1) {
    PortableScope scope(binding);
    return split_batch_norm(binding, device, out, input, norm, parameters, running) && scope.done();
  }
  TemplateCall call(innermost ? columns : planes, device, {input.dtype, parameters, running}, {norm.train});
  call.arg(out).arg(norm.save_mean).arg(norm.save_invstd).arg(input).arg(norm.weight).arg(norm.bias);
  call.arg(norm.running_mean).arg(norm.running_var);
  add_channel_shape(call, input, innermost);
  call.real(norm.momentum, input.dtype).real(norm.eps, input.dtype);
  return call.run(binding, channel_groups(input, innermost));
}

bool batch_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const BatchNorm& norm) {
  if (call_vendor(
          binding, device,
          {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
           hp::input(norm.weight), hp::input(norm.running_mean), hp::input(norm.running_var), hp::input(norm.save_mean),
           hp::input(norm.save_invstd), attribute(norm.train), attribute(norm.eps)})) {
    return true;
  }
  static KernelTemplate planes("normalization:channels_backward", {"T", "W", "S"}, {"TRAIN"}),
      columns("normalization:columns_backward", {"T", "W", "S"}, {"TRAIN"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  const DType sums = accumulator(input.dtype);
  const bool innermost = channels_innermost(input);
  const DType parameters = first_defined({&norm.weight, &grad_weight, &grad_bias}, sums),
              running = first_defined({&norm.running_mean, &norm.running_var}, sums);
  if (!innermost && device.group_size() != 1) {
    PortableScope scope(binding);
    return split_batch_norm_backward(binding, device, out, grad_weight, grad_bias, grad, input, norm, parameters,
                                     running) &&
           scope.done();
  }
  TemplateCall call(innermost ? columns : planes, device, {input.dtype, parameters, running}, {norm.train});
  call.arg(out).arg(grad_weight).arg(grad_bias).arg(grad).arg(input).arg(norm.weight);
  call.arg(norm.running_mean).arg(norm.running_var).arg(norm.save_mean).arg(norm.save_invstd);
  add_channel_shape(call, input, innermost);
  return call.real(norm.eps, input.dtype).run(binding, channel_groups(input, innermost));
}

bool group_norm(const OpBinding& binding, Device& device, const View& out, const View& mean, const View& rstd,
                const View& input, const View& weight, const View& bias, const GroupNormShape& shape, double eps) {
  if (call_vendor(binding, device,
                  {output(out), output(mean), output(rstd), hp::input(input), hp::input(weight), hp::input(bias),
                   attribute(shape.groups), attribute(eps)})) {
    return true;
  }
  static KernelTemplate kernels("normalization:groups", {"T", "W", "S"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  TemplateCall call(kernels, device, {input.dtype, first_defined({&weight, &bias}, input.dtype), mean.dtype});
  const int64_t total = shape.batch * shape.groups, depth = shape.channels / shape.groups;
  const int64_t per_group = call.rows_per_group(depth * shape.plane);
  call.arg(out).arg(mean).arg(rstd).arg(input).arg(weight).arg(bias).integer(total).integer(shape.groups);
  call.integer(depth).integer(shape.plane);
  call.real(eps, input.dtype);
  return call.integer(per_group).run(binding, ceil_div(total, per_group));
}

bool group_norm_backward(const OpBinding& binding, Device& device, const View& out, const View& grad_weight,
                         const View& grad_bias, const View& grad, const View& input, const View& mean, const View& rstd,
                         const View& weight, const GroupNormShape& shape) {
  if (call_vendor(binding, device,
                  {output(out), output(grad_weight), output(grad_bias), hp::input(grad), hp::input(input),
                   hp::input(mean), hp::input(rstd), hp::input(weight), attribute(shape.groups)})) {
    return true;
  }
  static KernelTemplate kernels("normalization:groups_backward", {"T", "W", "S"}),
      sums("normalization:groups_parameters", {"T", "W"});
  if (!binding.portable_allowed || !is_float(input.dtype)) return false;
  PortableScope scope(binding);
  const DType parameters = first_defined({&weight, &grad_weight, &grad_bias}, input.dtype);
  TemplateCall call(kernels, device, {input.dtype, parameters, mean.dtype});
  TemplateCall finish(sums, device, {input.dtype, parameters});
  if (!call.available() || !finish.available()) return false;
  const int64_t total = shape.batch * shape.groups, depth = shape.channels / shape.groups;
  const int64_t per_group = call.rows_per_group(depth * shape.plane);
  const Scratch scratch(device, shape.batch * shape.channels * 2 * info(accumulator(input.dtype)).bytes);
  call.arg(out).pointer(scratch.get()).arg(grad).arg(input).arg(mean).arg(rstd).arg(weight).integer(total);
  call.integer(shape.groups).integer(depth).integer(shape.plane).integer(per_group);
  call.launch(binding.op, ceil_div(total, per_group));
  if (grad_weight.defined() || grad_bias.defined()) {
    finish.arg(grad_weight).arg(grad_bias).pointer(scratch.get()).integer(shape.batch).integer(shape.channels);
    finish.launch_elements(binding.op, shape.channels);
  }
  return scope.done();
}

}  // namespace hp::ops
