// Normalization layers. Differences from the standard operators: layer_norm and group_norm save the variance, not the
// inverse standard deviation; batch_norm's running variance is the biased one.
#include "ops/normalization.h"

#include <cstdlib>

#include "ops/window_attributes.h"

namespace hp::paddle_adapter::ops {
namespace {

// Undefined if the input or output is absent.
View optional_view(const Call& call, int i) { return is_ready(call.input(i)) ? call.view_of(i) : View{}; }
View allocated(const Call& call, int i) { return call.output(i) == nullptr ? View{} : call.allocate(i); }

// Allocates the gradient of a parameter in the dtype of the weight (input 1), whatever InferMeta says.
View parameter_grad(const Call& call, int i) {
  if (call.output(i) == nullptr || !is_ready(call.input(1))) return allocated(call, i);
  call.context.Alloc(call.output(i), call.input(1)->dtype());
  return view(*call.output(i));
}

// Whether the dtypes are equal, or one is absent.
bool same_dtype(const View& a, const View& b) { return !a.defined() || !b.defined() || a.dtype == b.dtype; }

// Whether these inputs are absent or readable, and x (input 0) is supported.
bool readable(const Call& call, std::initializer_list<int> inputs) {
  for (int i : inputs) {
    if (call.input(i) != nullptr && !is_ready(call.input(i))) return false;
  }
  const DenseTensor& x = *call.input(0);
  return is_float(to_core(x.dtype())) && x.numel() != 0 && x.dims().size() <= kMaxKernelRank;
}

View row_of(const Temporary& matrix, int row) {
  const View& rows = matrix.view();
  return {static_cast<char*>(rows.data) + row * rows.strides[0] * info(rows.dtype).bytes, rows.dtype, 1, rows.sizes + 1,
          rows.strides + 1};
}

// A statistic in the accumulator dtype, for a kernel to write, and its output in Paddle's dtype. A temporary if Paddle
// does not need the output.
class SavedStatistic {
 public:
  SavedStatistic(Call& call, int output, DType sums, int64_t count) {
    if (call.output(output) != nullptr) {
      converted_.emplace(call.device, call.allocate(output), sums);
    } else {
      spare_.emplace(call.device, sums, 1, &count);
    }
  }
  const View& view() const { return converted_ ? converted_->view() : spare_->view(); }
  bool write() { return !converted_ || converted_->write(); }
  bool has_output() const { return converted_.has_value(); }

 private:
  std::optional<Converted> converted_;
  std::optional<Temporary> spare_;
};

// variance = 1 / rstd^2 - eps, in place; then writes the output.
bool to_variance(Device& device, SavedStatistic& rstd, double eps) {
  static PointwiseOp power("pow_scalar"), scale("scale");
  if (!rstd.has_output()) return true;
  return power(device, rstd.view(), {rstd.view()}, {-2}) && scale(device, rstd.view(), {rstd.view()}, {1, -eps}) &&
         rstd.write();
}

// rstd = 1 / sqrt(variance + eps)
bool to_rstd(Device& device, const View& rstd, const View& variance, double eps) {
  static PointwiseOp scale("scale"), rsqrt("rsqrt");
  return scale(device, rstd, {variance}, {1, eps}) && rsqrt(device, rstd, {rstd});
}

// ---- Batch normalization

// Updates the running statistics in training. `momentum` is the weight of the old ones. `batch` holds the mean and the
// unbiased variance of `count` elements per channel.
bool update_running(Call& call, const Temporary& batch, const View& mean, const View& variance, double momentum,
                    int64_t count) {
  static PointwiseOp lerp("lerp_scalar"), scale("scale"), add("add");
  const View old_mean = call.view_of(1), old_variance = call.view_of(2), spread = row_of(batch, 1);
  if (!lerp(call.device, mean, {old_mean, row_of(batch, 0)}, {1 - momentum})) return false;
  if (count == 1) return scale(call.device, variance, {old_variance}, {momentum, 0});
  const double share = (1 - momentum) * static_cast<double>(count - 1) / static_cast<double>(count);
  return scale(call.device, spread, {spread}, {share, 0}) &&
         add(call.device, variance, {spread, old_variance}, {momentum});
}

// Copies `from` to an output, unless the output is absent or shares its memory.
bool copy_to_output(Call& call, int output, const View& from) {
  static StandardOp step("copy");
  if (call.output(output) == nullptr) return true;
  const View out = call.allocate(output);
  return out.data == from.data || copy(step.on(call.device), call.device, out, from);
}

bool with_running_statistics(Call& call, const View& weight, const View& bias, double eps, const std::string& layout) {
  const bool last = channels_last(layout);
  const ShapedView x = channels_second(call.view_of(0), last), y = channels_second(call.allocate(0), last);
  const View mean = call.view_of(1), variance = call.view_of(2);
  const hp::ops::BatchNorm norm{weight, bias, mean, variance, {}, {}, false, 0, eps};
  return hp::ops::batch_norm(call.binding(), call.device, y, x, norm) && copy_to_output(call, 1, mean) &&
         copy_to_output(call, 2, variance);
}

// Inputs: x, mean, variance, scale, bias. Attributes: is_test, momentum, epsilon, layout, use_global_stats,
// trainable_statistics. Outputs: y, mean and variance (usually in the inputs' memory), saved_mean, saved_variance.
bool batch_norm(Call& call) {
  if (!readable(call, {0, 1, 2, 3, 4}) || call.input(0)->dims().size() < 2) return false;
  const View weight = optional_view(call, 3), bias = optional_view(call, 4);
  if (!same_dtype(weight, bias) || !same_dtype(call.view_of(1), call.view_of(2))) return false;
  const double momentum = call.real(1), eps = call.real(2);
  const auto& layout = call.attr<std::string>(3);
  const bool test = call.attr<bool>(0) && !call.attr<bool>(5);
  const DType sums = accumulator(call.view_of(0).dtype);
  const bool last = channels_last(layout);
  const ShapedView x = channels_second(call.view_of(0), last);
  const int64_t channels = x.view().sizes[1];
  SavedStatistic save_mean(call, 3, sums, channels), save_invstd(call, 4, sums, channels);
  if (test || call.attr<bool>(4)) return with_running_statistics(call, weight, bias, eps, layout);
  const ShapedView y = channels_second(call.allocate(0), last);
  const View mean = call.allocate(1), variance = call.allocate(2);
  // Running statistics updated with momentum 1, so that they become the batch's.
  const int64_t both[] = {2, channels};
  const Temporary batch(call.device, sums, 2, both);
  if (!fill(call.device, batch, 0)) return false;
  const hp::ops::BatchNorm norm{
      weight, bias, row_of(batch, 0), row_of(batch, 1), save_mean.view(), save_invstd.view(), true, 1, eps};
  return hp::ops::batch_norm(call.binding(), call.device, y, x, norm) &&
         update_running(call, batch, mean, variance, momentum, x.view().numel() / channels) && save_mean.write() &&
         save_invstd.write();
}

// Inputs: x, mean, variance, scale, bias. Attributes: momentum, epsilon, layout.
bool batch_norm_infer(Call& call) {
  if (!readable(call, {0, 1, 2, 3, 4}) || call.input(0)->dims().size() < 2) return false;
  const View weight = call.view_of(3), bias = call.view_of(4);
  if (!same_dtype(weight, bias) || !same_dtype(call.view_of(1), call.view_of(2))) return false;
  return with_running_statistics(call, weight, bias, call.real(1), call.attr<std::string>(2));
}

// Uses the running statistics at inputs `running` and `running + 1` if `fixed`, else the batch's at `saved`; `gradient`
// is the input y_grad. Attributes: momentum, epsilon, layout, is_test, use_global_stats, trainable_statistics.
bool channels_grad(Call& call, int running, int saved, int gradient, bool fixed) {
  if (!readable(call, {0, 1, gradient}) || call.input(0)->dims().size() < 2) return false;
  for (int i : {0, 1}) {
    if (!is_ready(call.input((fixed ? running : saved) + i))) return false;
  }
  const bool last = channels_last(call.attr<std::string>(2));
  const ShapedView x = channels_second(call.view_of(0), last), grad = channels_second(call.view_of(gradient), last);
  if (grad.view().dtype != x.view().dtype) return false;
  const DType sums = accumulator(x.view().dtype);
  Converted mean(call.device, fixed ? View{} : call.view_of(saved), sums),
      invstd(call.device, fixed ? View{} : call.view_of(saved + 1), sums);
  ShapedView grad_x;
  if (call.output(0) != nullptr) grad_x = channels_second(call.allocate(0), last);
  const View grad_weight = parameter_grad(call, 1), grad_bias = parameter_grad(call, 2);
  const View running_mean = fixed ? call.view_of(running) : View{},
             running_var = fixed ? call.view_of(running + 1) : View{};
  const hp::ops::BatchNorm norm{
      optional_view(call, 1), {}, running_mean, running_var, mean, invstd, !fixed, 0, call.real(1)};
  return mean.read() && invstd.read() &&
         hp::ops::batch_norm_backward(call.binding(), call.device, grad_x, grad_weight, grad_bias, grad, x, norm);
}

// Inputs: x, scale, bias, mean, variance, saved_mean, saved_variance, reserve_space, y_grad.
bool batch_norm_grad(Call& call) {
  const bool fixed = call.attr<bool>(3) || call.attr<bool>(4);  // unlike forward, ignores trainable_statistics
  return channels_grad(call, 3, 5, 8, fixed);
}

// With one process, sync_batch_norm is batch_norm. With more, the statistics would have to be exchanged, which is not
// supported.
bool is_single_process() {
  const char* count = std::getenv("PADDLE_TRAINERS_NUM");
  return count == nullptr || std::atoi(count) <= 1;
}
bool sync_batch_norm(Call& call) { return is_single_process() && batch_norm(call); }
// Inputs: x, scale, bias, saved_mean, saved_variance, reserve_space, y_grad.
bool sync_batch_norm_grad(Call& call) {
  return is_single_process() && !call.attr<bool>(4) && channels_grad(call, 3, 3, 6, false);
}

// ---- Layer normalization and RMS normalization

int64_t row_length(const View& x, int64_t axis) {
  int64_t n = 1;
  for (int d = static_cast<int>(axis); d < x.ndim; ++d) n *= x.sizes[d];
  return n;
}

// Inputs: x, scale, bias. Attributes: epsilon, begin_norm_axis. Outputs: out, mean, variance.
bool layer_norm(Call& call) {
  if (!readable(call, {0, 1, 2})) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1), bias = optional_view(call, 2);
  if (!same_dtype(weight, bias)) return false;
  const double eps = call.real(0);
  const int64_t n = row_length(x, call.integer(1));
  const DType sums = accumulator(x.dtype);
  const View out = call.allocate(0);
  SavedStatistic mean(call, 1, sums, x.numel() / n), rstd(call, 2, sums, x.numel() / n);
  return hp::ops::layer_norm(call.binding(), call.device, out, {mean.view(), rstd.view()}, x, weight, bias, n, eps) &&
         to_variance(call.device, rstd, eps) && mean.write();
}

// Inputs: x, scale, bias, mean, variance, out_grad.
bool layer_norm_grad(Call& call) {
  if (!readable(call, {0, 1, 3, 4, 5})) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1), variance = call.view_of(4);
  const DType sums = accumulator(x.dtype);
  Converted mean(call.device, call.view_of(3), sums);
  const Temporary rstd(call.device, sums, variance.ndim, variance.sizes);
  const View grad_x = allocated(call, 0), grad_weight = parameter_grad(call, 1), grad_bias = parameter_grad(call, 2);
  return same_dtype(grad_weight, grad_bias) && same_dtype(weight, grad_bias) && mean.read() &&
         to_rstd(call.device, rstd, variance, call.real(0)) &&
         hp::ops::layer_norm_backward(call.binding(), call.device, grad_x, grad_weight, grad_bias, call.view_of(5), x,
                                      {mean, rstd}, weight, row_length(x, call.integer(1)));
}

// Inputs: x, scale. Attributes: normalized_shape, epsilon. Outputs: y, invvar (1 / rms of each row).
bool rms_norm(Call& call) {
  if (!readable(call, {0, 1})) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1);
  const int64_t n = row_length(x, x.ndim - static_cast<int64_t>(call.integers(0).size()));
  const View out = call.allocate(0);
  SavedStatistic rstd(call, 1, accumulator(x.dtype), x.numel() / n);
  return hp::ops::rms_norm(call.binding(), call.device, out, rstd.view(), x, weight, n, call.real(1)) && rstd.write();
}

// Inputs: x, scale, invvar, y_grad.
bool rms_norm_grad(Call& call) {
  if (!readable(call, {0, 1, 2, 3})) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1);
  Converted rstd(call.device, call.view_of(2), accumulator(x.dtype));
  const View grad_x = allocated(call, 0), grad_weight = weight.defined() ? parameter_grad(call, 1) : View{};
  const int64_t n = row_length(x, x.ndim - static_cast<int64_t>(call.integers(0).size()));
  return rstd.read() && hp::ops::rms_norm_backward(call.binding(), call.device, grad_x, grad_weight, call.view_of(3), x,
                                                   rstd, weight, n);
}

// ---- Group and instance normalization

hp::ops::GroupNormShape groups_of(const View& x, int64_t groups) {
  return {x.sizes[0], x.sizes[1], x.numel() / (x.sizes[0] * x.sizes[1]), groups};
}

// Inputs: x, scale, bias. Attributes: epsilon, groups, layout. Outputs: y, mean, variance.
bool group_norm(Call& call) {
  if (!readable(call, {0, 1, 2}) || channels_last(call.attr<std::string>(2))) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1), bias = optional_view(call, 2);
  if (!same_dtype(weight, bias) || x.ndim < 2) return false;
  const auto shape = groups_of(x, call.integer(1));
  const DType sums = accumulator(x.dtype);
  const View y = call.allocate(0);
  SavedStatistic mean(call, 1, sums, shape.batch * shape.groups), rstd(call, 2, sums, shape.batch * shape.groups);
  return hp::ops::group_norm(call.binding(), call.device, y, mean.view(), rstd.view(), x, weight, bias, shape,
                             call.real(0)) &&
         to_variance(call.device, rstd, call.real(0)) && mean.write();
}

// Inputs: x, scale, bias, y, mean, variance, y_grad.
bool group_norm_grad(Call& call) {
  if (!readable(call, {0, 1, 4, 5, 6}) || channels_last(call.attr<std::string>(2))) return false;
  const View x = call.view_of(0), variance = call.view_of(5);
  const DType sums = accumulator(x.dtype);
  Converted mean(call.device, call.view_of(4), sums);
  const Temporary rstd(call.device, sums, variance.ndim, variance.sizes);
  // The kernel that sums the parameter gradients always writes the gradient of x, too.
  if (call.output(0) == nullptr) return false;
  const View grad_x = call.allocate(0), grad_weight = parameter_grad(call, 1), grad_bias = parameter_grad(call, 2);
  return same_dtype(grad_weight, grad_bias) && mean.read() && to_rstd(call.device, rstd, variance, call.real(0)) &&
         hp::ops::group_norm_backward(call.binding(), call.device, grad_x, grad_weight, grad_bias, call.view_of(6), x,
                                      mean, rstd, optional_view(call, 1), groups_of(x, call.integer(1)));
}

// Groups of one channel. Outputs: y, saved_mean, saved_variance (in fact the inverse standard deviation).
bool instance_norm(Call& call) {
  if (!readable(call, {0, 1, 2})) return false;
  const View x = call.view_of(0), weight = optional_view(call, 1), bias = optional_view(call, 2);
  if (!same_dtype(weight, bias) || x.ndim < 2) return false;
  const auto shape = groups_of(x, x.sizes[1]);
  const DType sums = accumulator(x.dtype);
  const View y = call.allocate(0);
  SavedStatistic mean(call, 1, sums, shape.batch * shape.groups), rstd(call, 2, sums, shape.batch * shape.groups);
  return hp::ops::group_norm(call.binding(), call.device, y, mean.view(), rstd.view(), x, weight, bias, shape,
                             call.real(0)) &&
         mean.write() && rstd.write();
}

// Inputs: x, scale, bias, saved_mean, saved_variance, y_grad.
bool instance_norm_grad(Call& call) {
  if (!readable(call, {0, 1, 3, 4, 5}) || call.output(0) == nullptr) return false;
  const View x = call.view_of(0);
  const DType sums = accumulator(x.dtype);
  Converted mean(call.device, call.view_of(3), sums), rstd(call.device, call.view_of(4), sums);
  const View grad_x = call.allocate(0), grad_weight = parameter_grad(call, 1), grad_bias = parameter_grad(call, 2);
  return same_dtype(grad_weight, grad_bias) && mean.read() && rstd.read() &&
         hp::ops::group_norm_backward(call.binding(), call.device, grad_x, grad_weight, grad_bias, call.view_of(5), x,
                                      mean, rstd, optional_view(call, 1), groups_of(x, x.sizes[1]));
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/normalization.inc"
