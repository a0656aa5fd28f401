#include "ops/normalization.h"

#include <limits>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

at::ScalarType sums_of(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

// Weight, bias and statistics have the input's dtype, or float for a 16-bit input.
bool fits(const Tensor& parameter, const Tensor& input) {
  return !parameter.defined() || parameter.scalar_type() == input.scalar_type() ||
         parameter.scalar_type() == sums_of(input.scalar_type());
}

// Whether the parameters that are defined have one dtype.
bool same_dtype(const Tensor& a, const Tensor& b) {
  return !a.defined() || !b.defined() || a.scalar_type() == b.scalar_type();
}

Tensor empty_contiguous_like(const Tensor& tensor) {
  return empty(tensor.sizes(), tensor.scalar_type(), tensor.device().index());
}

// ---- Rows

struct Rows {
  int64_t count = 1, n = 1;
  std::vector<int64_t> statistics;  // shape of the per-row statistics
};

// Nothing if the shapes do not match, for torch's own error, or if there are no elements to normalize.
std::optional<Rows> rows_of(const Tensor& input, at::IntArrayRef normalized_shape,
                            std::initializer_list<const Tensor*> parameters) {
  const int64_t axis = input.dim() - static_cast<int64_t>(normalized_shape.size());
  if (normalized_shape.empty() || axis < 0 || input.sizes().slice(axis) != normalized_shape) return std::nullopt;
  if (!at::isFloatingType(input.scalar_type())) return std::nullopt;
  for (const Tensor* parameter : parameters) {
    if (!parameter->defined()) continue;
    if (parameter->sizes() != normalized_shape || !fits(*parameter, input)) return std::nullopt;
    if (!same_dtype(*parameter, **parameters.begin())) return std::nullopt;
  }
  Rows rows;
  for (int64_t d = 0; d < input.dim(); ++d) {
    (d < axis ? rows.count : rows.n) *= input.size(d);
    rows.statistics.push_back(d < axis ? input.size(d) : 1);
  }
  if (rows.n == 0) return std::nullopt;
  return rows;
}

std::optional<Three> layer_norm(const Overload& overload, const Tensor& input, at::IntArrayRef normalized_shape,
                                const OptionalTensor& weight_opt, const OptionalTensor& bias_opt, double eps) {
  const Tensor weight = contiguous(weight_opt), bias = contiguous(bias_opt);
  const std::optional<Rows> rows = rows_of(input, normalized_shape, {&weight, &bias});
  if (!rows) return std::nullopt;
  const at::ScalarType sums = sums_of(input.scalar_type());
  const int index = input.device().index();
  const Tensor x = input.contiguous(), out = empty_contiguous_like(x), mean = empty(rows->statistics, sums, index),
               rstd = empty(rows->statistics, sums, index);
  if (rows->count != 0 && !hp::ops::layer_norm(overload, device_holding(input), view(out), {view(mean), view(rstd)},
                                               view(x), view(weight), view(bias), rows->n, eps)) {
    return std::nullopt;
  }
  return Three(out, mean, rstd);
}

// The gradient of weight or bias, if wanted; zero if there are no rows.
Tensor parameter_gradient(bool wanted, at::IntArrayRef shape, at::ScalarType dtype, const Tensor& input,
                          bool empty_sum) {
  Tensor gradient;
  if (!wanted) return gradient;
  gradient = empty(shape, dtype, input.device().index());
  if (empty_sum) gradient.zero_();
  return gradient;
}

std::optional<Three> layer_norm_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                         at::IntArrayRef normalized_shape, const Tensor& mean, const Tensor& rstd,
                                         const OptionalTensor& weight_opt, const OptionalTensor& bias_opt,
                                         std::array<bool, 3> mask) {
  const Tensor weight = contiguous(weight_opt), bias = contiguous(bias_opt);
  const std::optional<Rows> rows = rows_of(input, normalized_shape, {&weight, &bias});
  if (!rows || grad.scalar_type() != input.scalar_type()) return std::nullopt;
  const at::ScalarType sums = sums_of(input.scalar_type());
  const at::ScalarType parameter_dtype = weight.defined() ? weight.scalar_type()
                                         : bias.defined() ? bias.scalar_type()
                                                          : sums;
  const Tensor x = input.contiguous(), g = grad.contiguous(), m = mean.to(sums).contiguous(),
               r = rstd.to(sums).contiguous();
  const bool none = rows->count == 0;
  const Tensor dx = mask[0] ? empty_contiguous_like(x) : Tensor();
  const Tensor dw = parameter_gradient(mask[1] && weight.defined(), normalized_shape, parameter_dtype, input, none);
  const Tensor db = parameter_gradient(mask[2] && bias.defined(), normalized_shape, parameter_dtype, input, none);
  if (!none && !hp::ops::layer_norm_backward(overload, device_holding(input), view(dx), view(dw), view(db), view(g),
                                             view(x), {view(m), view(r)}, view(weight), rows->n)) {
    return std::nullopt;
  }
  return Three(dx, dw, db);
}

std::optional<Two> rms_norm(const Overload& overload, const Tensor& input, at::IntArrayRef normalized_shape,
                            const OptionalTensor& weight_opt, std::optional<double> eps) {
  const Tensor weight = contiguous(weight_opt);
  const std::optional<Rows> rows = rows_of(input, normalized_shape, {&weight});
  if (!rows) return std::nullopt;
  const at::ScalarType sums = sums_of(input.scalar_type());
  const double smallest =
      sums == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const Tensor x = input.contiguous(), out = empty_contiguous_like(x),
               rstd = empty(rows->statistics, sums, input.device().index());
  if (rows->count != 0 && !hp::ops::rms_norm(overload, device_holding(input), view(out), view(rstd), view(x),
                                             view(weight), rows->n, eps.value_or(smallest))) {
    return std::nullopt;
  }
  return Two(out, rstd);
}

std::optional<Two> rms_norm_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                     at::IntArrayRef normalized_shape, const Tensor& rstd,
                                     const OptionalTensor& weight_opt, std::array<bool, 2> mask) {
  const Tensor weight = contiguous(weight_opt);
  const std::optional<Rows> rows = rows_of(input, normalized_shape, {&weight});
  if (!rows || grad.scalar_type() != input.scalar_type()) return std::nullopt;
  const at::ScalarType sums = sums_of(input.scalar_type());
  const Tensor x = input.contiguous(), g = grad.contiguous(), r = rstd.to(sums).contiguous();
  const Tensor dx = mask[0] ? empty_contiguous_like(x) : Tensor();
  const Tensor dw = parameter_gradient(mask[1] && weight.defined(), normalized_shape,
                                       weight.defined() ? weight.scalar_type() : sums, input, rows->count == 0);
  if (rows->count != 0 && !hp::ops::rms_norm_backward(overload, device_holding(input), view(dx), view(dw), view(g),
                                                      view(x), view(r), view(weight), rows->n)) {
    return std::nullopt;
  }
  return Two(dx, dw);
}

// ---- Channels

// The kernels' layout: contiguous, or channels last if the input already is.
Tensor dense(const Tensor& input, at::MemoryFormat format) { return input.contiguous(format); }

at::MemoryFormat format_of(const Tensor& input) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return input.is_contiguous() ? at::MemoryFormat::Contiguous : format;
}

bool vectors_of(int64_t size, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor->defined() && (tensor->dim() != 1 || tensor->size(0) != size)) return false;
  }
  return true;
}

bool batch_norm_fits(const Tensor& input, std::initializer_list<const Tensor*> parameters) {
  if (input.dim() < 2 || !at::isFloatingType(input.scalar_type()) || input.size(1) == 0) return false;
  for (const Tensor* parameter : parameters) {
    if (!fits(*parameter, input)) return false;
  }
  return vectors_of(input.size(1), parameters);
}

std::optional<Three> batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight_opt,
                                const OptionalTensor& bias_opt, const OptionalTensor& running_mean_opt,
                                const OptionalTensor& running_var_opt, bool train, double momentum, double eps) {
  const Tensor weight = contiguous(weight_opt), bias = contiguous(bias_opt);
  const Tensor running_mean = running_mean_opt.value_or(Tensor()), running_var = running_var_opt.value_or(Tensor());
  if (!batch_norm_fits(input, {&weight, &bias, &running_mean, &running_var})) return std::nullopt;
  if (!same_dtype(weight, bias) || !same_dtype(running_mean, running_var)) return std::nullopt;
  if (!train && !(running_mean.defined() && running_var.defined())) return std::nullopt;
  // Statistics of an empty input are left to torch.
  if (train && input.numel() == 0) return std::nullopt;
  const Tensor mean = contiguous(running_mean_opt), var = contiguous(running_var_opt);
  const at::MemoryFormat format = format_of(input);
  const Tensor x = dense(input, format);
  const int index = input.device().index();
  const Tensor out = empty_strided(x.sizes(), x.strides(), x.scalar_type(), index);
  const int64_t saved = train ? input.size(1) : 0;
  const at::ScalarType sums = sums_of(input.scalar_type());
  const Tensor save_mean = empty({saved}, sums, index), save_invstd = empty({saved}, sums, index);
  const hp::ops::BatchNorm norm{view(weight),
                                view(bias),
                                view(mean),
                                view(var),
                                train ? view(save_mean) : View{},
                                train ? view(save_invstd) : View{},
                                train,
                                momentum,
                                eps};
  if (input.numel() != 0 && !hp::ops::batch_norm(overload, device_holding(input), view(out), view(x), norm)) {
    return std::nullopt;
  }
  if (train && !mean.is_same(running_mean)) copy_tensor(running_mean, mean, false);
  if (train && !var.is_same(running_var)) copy_tensor(running_var, var, false);
  return Three(out, save_mean, save_invstd);
}

std::optional<Three> batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight,
                                const OptionalTensor& bias, const Tensor& running_mean, const Tensor& running_var,
                                bool train, double momentum, double eps) {
  return batch_norm(overload, input, weight, bias, OptionalTensor(running_mean), OptionalTensor(running_var), train,
                    momentum, eps);
}

std::optional<Three> batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight,
                                const OptionalTensor& bias, bool train, double momentum, double eps) {
  return batch_norm(overload, input, weight, bias, OptionalTensor(), OptionalTensor(), train, momentum, eps);
}

std::optional<std::tuple<Tensor, Tensor, Tensor, Tensor>> batch_norm(
    const Overload& overload, const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
    const Tensor& running_mean, const Tensor& running_var, double momentum, double eps) {
  std::optional<Three> result = batch_norm(overload, input, weight, bias, OptionalTensor(running_mean),
                                           OptionalTensor(running_var), true, momentum, eps);
  if (!result) return std::nullopt;
  auto& [out, mean, invstd] = *result;
  return std::make_tuple(out, mean, invstd, empty({0}, at::kByte, input.device().index()));
}

// Asked first: the call updates the running statistics, so it cannot be declined afterwards.
bool have_dtypes_of(const Tensor& input, const Tensor& out, const Tensor& save_mean, const Tensor& save_invstd) {
  const at::ScalarType sums = sums_of(input.scalar_type());
  return out.scalar_type() == input.scalar_type() && save_mean.scalar_type() == sums &&
         save_invstd.scalar_type() == sums;
}

bool write(const std::optional<Three>& results, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  if (!results) return false;
  write_output(out, std::get<0>(*results));
  write_output(save_mean, std::get<1>(*results));
  write_output(save_invstd, std::get<2>(*results));
  return true;
}

bool batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& running_mean, const OptionalTensor& running_var, bool train, double momentum,
                double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return have_dtypes_of(input, out, save_mean, save_invstd) &&
         write(batch_norm(overload, input, weight, bias, running_mean, running_var, train, momentum, eps), out,
               save_mean, save_invstd);
}
bool batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                const Tensor& running_mean, const Tensor& running_var, bool train, double momentum, double eps,
                Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return have_dtypes_of(input, out, save_mean, save_invstd) &&
         write(batch_norm(overload, input, weight, bias, running_mean, running_var, train, momentum, eps), out,
               save_mean, save_invstd);
}
bool batch_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                bool train, double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return have_dtypes_of(input, out, save_mean, save_invstd) &&
         write(batch_norm(overload, input, weight, bias, train, momentum, eps), out, save_mean, save_invstd);
}

std::optional<Three> batch_norm_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                         const OptionalTensor& weight_opt, const OptionalTensor& running_mean_opt,
                                         const OptionalTensor& running_var_opt, const OptionalTensor& save_mean_opt,
                                         const OptionalTensor& save_invstd_opt, bool train, double eps,
                                         std::array<bool, 3> mask) {
  const Tensor weight = contiguous(weight_opt), running_mean = contiguous(running_mean_opt),
               running_var = contiguous(running_var_opt);
  Tensor save_mean = contiguous(save_mean_opt), save_invstd = contiguous(save_invstd_opt);
  if (!batch_norm_fits(input, {&weight, &running_mean, &running_var})) return std::nullopt;
  if (input.numel() == 0 || grad.scalar_type() != input.scalar_type() || !same_dtype(running_mean, running_var)) {
    return std::nullopt;
  }
  if (train ? !(save_mean.defined() && save_invstd.defined()) : !(running_mean.defined() && running_var.defined())) {
    return std::nullopt;
  }
  const at::ScalarType sums = sums_of(input.scalar_type());
  if (train) {
    if (!vectors_of(input.size(1), {&save_mean, &save_invstd})) return std::nullopt;
    save_mean = save_mean.to(sums);
    save_invstd = save_invstd.to(sums);
  }
  const at::MemoryFormat format = format_of(input);
  const Tensor x = dense(input, format), g = dense(grad, format);
  if (g.strides() != x.strides()) return std::nullopt;
  const int index = input.device().index();
  const at::ScalarType parameter_dtype = weight.defined() ? weight.scalar_type() : sums;
  const Tensor dx = mask[0] ? empty_strided(x.sizes(), x.strides(), x.scalar_type(), index) : Tensor();
  const Tensor dw = parameter_gradient(mask[1], {input.size(1)}, parameter_dtype, input, false);
  const Tensor db = parameter_gradient(mask[2], {input.size(1)}, parameter_dtype, input, false);
  const hp::ops::BatchNorm norm{view(weight),
                                {},
                                view(running_mean),
                                view(running_var),
                                train ? view(save_mean) : View{},
                                train ? view(save_invstd) : View{},
                                train,
                                0,
                                eps};
  if (!hp::ops::batch_norm_backward(overload, device_holding(input), view(dx), view(dw), view(db), view(g), view(x),
                                    norm)) {
    return std::nullopt;
  }
  return Three(dx, dw, db);
}

std::optional<Three> batch_norm_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                         const Tensor& weight, const OptionalTensor& running_mean,
                                         const OptionalTensor& running_var, const OptionalTensor& save_mean,
                                         const OptionalTensor& save_var, bool update, double eps,
                                         std::array<bool, 3> mask, const Tensor& /*reserve*/) {
  return batch_norm_backward(overload, grad, input, OptionalTensor(weight), running_mean, running_var, save_mean,
                             save_var, update, eps, mask);
}

// ---- Groups of channels

bool group_norm_fits(const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const hp::ops::GroupNormShape& shape) {
  return at::isFloatingType(input.scalar_type()) && shape.groups > 0 && shape.channels % shape.groups == 0 &&
         shape.batch * shape.channels * shape.plane == input.numel() && fits(weight, input) && fits(bias, input) &&
         same_dtype(weight, bias) && vectors_of(shape.channels, {&weight, &bias});
}

std::optional<Three> group_norm(const Overload& overload, const Tensor& input, const OptionalTensor& weight_opt,
                                const OptionalTensor& bias_opt, int64_t batch, int64_t channels, int64_t plane,
                                int64_t groups, double eps) {
  const Tensor weight = contiguous(weight_opt), bias = contiguous(bias_opt);
  const hp::ops::GroupNormShape shape{batch, channels, plane, groups};
  if (!group_norm_fits(input, weight, bias, shape)) return std::nullopt;
  const at::ScalarType statistics_dtype = weight.defined() ? weight.scalar_type()
                                          : bias.defined() ? bias.scalar_type()
                                                           : input.scalar_type();
  const int index = input.device().index();
  const Tensor x = input.contiguous(), out = empty_contiguous_like(x),
               mean = empty({batch, groups}, statistics_dtype, index),
               rstd = empty({batch, groups}, statistics_dtype, index);
  if (input.numel() == 0) {  // as on the CPU: groups of no elements
    mean.zero_();
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
  } else if (!hp::ops::group_norm(overload, device_holding(input), view(out), view(mean), view(rstd), view(x),
                                  view(weight), view(bias), shape, eps)) {
    return std::nullopt;
  }
  return Three(out, mean, rstd);
}

std::optional<Three> group_norm_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                         const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight_opt,
                                         int64_t batch, int64_t channels, int64_t plane, int64_t groups,
                                         std::array<bool, 3> mask) {
  const Tensor weight = contiguous(weight_opt);
  const hp::ops::GroupNormShape shape{batch, channels, plane, groups};
  if (!group_norm_fits(input, weight, Tensor(), shape) || grad.scalar_type() != input.scalar_type() ||
      !same_dtype(mean, rstd) || !at::isFloatingType(mean.scalar_type()) || mean.numel() != batch * groups ||
      rstd.numel() != batch * groups || grad.numel() != input.numel()) {
    return std::nullopt;
  }
  const Tensor x = input.contiguous(), g = grad.contiguous(), m = mean.contiguous(), r = rstd.contiguous();
  const at::ScalarType parameter_dtype = weight.defined() ? weight.scalar_type() : mean.scalar_type();
  const Tensor dx = mask[0] ? empty_contiguous_like(x) : Tensor();
  const bool no_elements = input.numel() == 0;
  const Tensor dw = parameter_gradient(mask[1], {channels}, parameter_dtype, input, no_elements);
  const Tensor db = parameter_gradient(mask[2], {channels}, parameter_dtype, input, no_elements);
  if (no_elements) {
    if (dw.defined() && batch != 0) dw.fill_(std::numeric_limits<double>::quiet_NaN());  // as on the CPU
  } else if (!hp::ops::group_norm_backward(overload, device_holding(input), view(dx), view(dw), view(db), view(g),
                                           view(x), view(m), view(r), view(weight), shape)) {
    return std::nullopt;
  }
  return Three(dx, dw, db);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/normalization.inc"
