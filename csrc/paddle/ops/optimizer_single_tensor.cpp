// Optimizer steps on one tensor. The kernels update in place. Paddle usually passes the same tensor as input and
// output; if not, the input is copied to the output first.
#include "ops/optimizer_single_tensor.h"

#include "dispatch/composition.h"
#include "ops/matmul.h"
#include "ops/optimizer.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::OptimizerTensors;

// Allocates an output with the contents of the input (on the device or the host), for an update in place. Undefined if
// either is absent. Call only after all checks: the input may be overwritten from then on.
View in_place(Call& call, DenseTensor* out, const DenseTensor* in) {
  if (out == nullptr || in == nullptr) return {};
  const DenseTensor source = *in;  // keeps the memory alive if `out` is the same tensor
  if (out->dtype() != source.dtype()) out->set_type(source.dtype());
  const View to = call.allocate(*out), from = view(source);
  if (!on_device(source)) {
    Stream& stream = current_stream(call.device);
    call.device.copy_to_device(to.data, from.data, from.bytes(), stream);
    stream.synchronize();
    return to;
  }
  if (to.data != from.data && !copy(copy_op.on(call.device), call.device, to, from)) {
    copy_through_host(call.device, to, from);
  }
  return to;
}
View in_place(Call& call, int out, int in) { return in_place(call, call.output(out), call.input(in)); }

// Whether the kernels can serve the call: all inputs on the device, floating-point, and a parameter with elements. The
// two one-element inputs from `powers` on (the beta powers) may be on the host.
bool supports_optimizer_single_tensor(const Call& call, int powers = Call::kMaxInputs) {
  for (int i = 0; i < call.num_inputs(); ++i) {
    for (const DenseTensor* tensor : call.inputs(i)) {
      if (tensor == nullptr) continue;
      const bool single = i >= powers && i < powers + 2 && tensor->numel() == 1;
      if (!tensor->initialized() || !(on_device(*tensor) || single) || to_core(tensor->dtype()) == DType::kNone ||
          !tensor->meta().is_contiguous()) {
        return false;
      }
    }
  }
  return call.binding().can_serve() && call.input(0) != nullptr && call.input(0)->numel() != 0 &&
         is_float(to_core(call.kernel.dtype));
}

// Throws if a step that has updated a tensor cannot finish: another tier would apply the update twice.
bool require_all(bool done) {
  if (!done) {
    throw Error(
        HP_NOT_SUPPORTED,
        "the step changed tensors in place, but the device lacks a kernel for the rest of it: build that kernel, "
        "or use a fallback rule to run this operator on the CPU");
  }
  return true;
}

// The parameter, its gradient and the learning rate. `master_in` and `master_out` are the input and output of the
// float32 master copy, used with multi-precision.
OptimizerTensors step_tensors(Call& call, int grad, const View& lr, bool multi_precision, int master_in,
                              int master_out) {
  OptimizerTensors tensors{in_place(call, 0, 0), call.view_of(grad), {}, lr};
  if (multi_precision) tensors.master = in_place(call, master_out, master_in);
  return tensors;
}

// Inputs: param, learning_rate, grad, master_param. Attribute: multi_precision.
bool sgd(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  return hp::ops::sgd_step(call.binding(), call.device,
                           step_tensors(call, 2, call.view_of(1), call.attr<bool>(0), 3, 1));
}

// Inputs: param, grad, velocity, learning_rate, master_param. Attributes: mu, use_nesterov, regularization_method,
// regularization_coeff, multi_precision, rescale_grad.
bool momentum(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const double decay = call.attr<std::string>(2) == "l2_decay" ? call.real(3) : 0;
  const OptimizerTensors tensors = step_tensors(call, 1, call.view_of(3), call.attr<bool>(4), 4, 2);
  return hp::ops::momentum_step(call.binding(), call.device, tensors, in_place(call, 1, 2), call.attr<bool>(1),
                                {call.real(0), decay, call.real(5)});
}

// `momentum` on lists. The regularization attributes have an entry per parameter, or none.
bool merged_momentum(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const auto params = call.inputs(0), grads = call.inputs(1), velocities = call.inputs(2), rates = call.inputs(3);
  const auto& methods = call.attr<std::vector<std::string>>(2);
  const auto& coefficients = call.attr<std::vector<float>>(3);
  const bool multi_precision = call.attr<bool>(4);
  for (int k = 0; k < params.count; ++k) {
    if (params[k]->numel() == 0) return false;
  }
  for (int k = 0; k < params.count; ++k) {
    OptimizerTensors tensors{
        in_place(call, call.outputs(0)[k], params[k]), view(*grads[k]), {}, view(*rates[rates.count == 1 ? 0 : k])};
    if (multi_precision) tensors.master = in_place(call, call.outputs(2)[k], call.inputs(4)[k]);
    const bool decays = !methods.empty() && methods[k] == "l2_decay";
    const bool done =
        hp::ops::momentum_step(call.binding(), call.device, tensors, in_place(call, call.outputs(1)[k], velocities[k]),
                               call.attr<bool>(1), {call.real(0), decays ? coefficients[k] : 0.0, call.real(5)});
    if (k == 0 && !done) return false;
    require_all(done);
  }
  return true;
}

// A step of Adam on one tensor.
struct AdamTensors {
  const DenseTensor *param, *grad, *lr, *average, *square, *highest, *power1, *power2, *master;
  DenseTensor *param_out, *average_out, *square_out, *highest_out, *power1_out, *power2_out, *master_out;
};
bool adam_one(Call& call, const AdamTensors& t, const hp::ops::AdamHyperparams& hyperparams, bool global_powers) {
  Converted lr(call.device, view(*t.lr), to_core(t.power1->dtype()));
  const View power1 = in_place(call, t.power1_out, t.power1), power2 = in_place(call, t.power2_out, t.power2);
  const OptimizerTensors tensors{in_place(call, t.param_out, t.param), view(*t.grad),
                                 in_place(call, t.master_out, t.master), lr};
  const OpBinding& binding = call.binding();
  return lr.read() &&
         hp::ops::adam_step(binding, call.device, tensors, in_place(call, t.average_out, t.average),
                            in_place(call, t.square_out, t.square), in_place(call, t.highest_out, t.highest), power1,
                            power2, hyperparams) &&
         require_all(global_powers || hp::ops::advance_beta_powers(binding, call.device, power1, power2,
                                                                   hyperparams.beta1, hyperparams.beta2));
}

// Inputs: param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param, skip_update.
bool adam_of(Call& call, const hp::ops::AdamHyperparams& hyperparams, bool multi_precision, bool global_powers,
             bool amsgrad) {
  if (!supports_optimizer_single_tensor(call, 6) || !call.binding().portable_allowed || call.input(9) != nullptr)
    return false;
  return adam_one(
      call,
      {call.input(0), call.input(1), call.input(2), call.input(3), call.input(4), amsgrad ? call.input(5) : nullptr,
       call.input(6), call.input(7), multi_precision ? call.input(8) : nullptr, call.output(0), call.output(1),
       call.output(2), call.output(3), call.output(4), call.output(5), call.output(6)},
      hyperparams, global_powers);
}

// Attributes: beta1, beta2, epsilon, lazy_mode, min_row_size_to_use_multithread, multi_precision, use_global_beta_pow,
// amsgrad.
bool adam(Call& call) {
  return adam_of(call, {call.real(0), call.real(1), call.real(2), 1, 0}, call.attr<bool>(5), call.attr<bool>(6),
                 call.attr<bool>(7));
}

// Attributes: beta1, beta2, epsilon, lr_ratio, coeff, with_decay, lazy_mode, min_row_size_to_use_multithread,
// multi_precision, use_global_beta_pow, amsgrad.
bool adamw(Call& call) {
  return adam_of(call, {call.real(0), call.real(1), call.real(2), call.real(3), call.attr<bool>(5) ? call.real(4) : 0},
                 call.attr<bool>(8), call.attr<bool>(9), call.attr<bool>(10));
}

// `adam` on lists, without skip_update. Attributes: beta1, beta2, epsilon, multi_precision, use_global_beta_pow,
// amsgrad.
bool merged_adam(Call& call) {
  if (!supports_optimizer_single_tensor(call, 6) || !call.binding().portable_allowed) return false;
  const int count = call.inputs(0).count;
  for (int k = 0; k < count; ++k) {
    if (call.inputs(0)[k]->numel() == 0) return false;
  }
  const bool multi_precision = call.attr<bool>(3), amsgrad = call.attr<bool>(5);
  for (int k = 0; k < count; ++k) {
    const auto in = [&](int i) { return call.inputs(i)[call.inputs(i).count == 1 ? 0 : k]; };
    const auto out = [&](int i) { return call.outputs(i).count > k ? call.outputs(i)[k] : nullptr; };
    const bool done =
        adam_one(call,
                 {in(0), in(1), in(2), in(3), in(4), amsgrad ? in(5) : nullptr, in(6), in(7),
                  multi_precision ? in(8) : nullptr, out(0), out(1), out(2), out(3), out(4), out(5), out(6)},
                 {call.real(0), call.real(1), call.real(2), 1, 0}, call.attr<bool>(4));
    if (k == 0 && !done) return false;
    require_all(done);
  }
  return true;
}

// Inputs: param, grad, learning_rate, moment, inf_norm, beta1_pow, master_param.
bool adamax(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const View power = call.view_of(5);
  Converted lr(call.device, call.view_of(2), power.dtype);
  const OptimizerTensors tensors = step_tensors(call, 1, lr, call.attr<bool>(3), 6, 3);
  return lr.read() &&
         hp::ops::adamax_step(call.binding(), call.device, tensors, in_place(call, 1, 3), in_place(call, 2, 4), power,
                              {call.real(0), call.real(1), call.real(2), 1, 0});
}

// Inputs: param, grad, moment, learning_rate, master_param.
bool adagrad(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const OptimizerTensors tensors = step_tensors(call, 1, call.view_of(3), call.attr<bool>(1), 4, 2);
  return hp::ops::adagrad_step(call.binding(), call.device, tensors, in_place(call, 1, 2), call.real(0));
}

// Inputs: param, grad, avg_squared_grad, avg_squared_update, learning_rate, master_param.
bool adadelta(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const OptimizerTensors tensors = step_tensors(call, 1, call.view_of(4), call.attr<bool>(2), 5, 3);
  return hp::ops::adadelta_step(call.binding(), call.device, tensors, in_place(call, 1, 2), in_place(call, 2, 3),
                                {call.real(0), call.real(1), 0});
}

// Inputs: param, mean_square, grad, moment, learning_rate, mean_grad, master_param. Outputs: param, moment,
// mean_square, mean_grad, master_param. Attributes: epsilon, decay, momentum, centered, multi_precision.
bool rmsprop(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const bool centered = call.attr<bool>(3);
  if (centered && call.input(5) == nullptr) return false;
  const OptimizerTensors tensors = step_tensors(call, 2, call.view_of(4), call.attr<bool>(4), 6, 4);
  return hp::ops::rmsprop_step(call.binding(), call.device, tensors, in_place(call, 2, 1), in_place(call, 1, 3),
                               centered ? in_place(call, 3, 5) : View{}, {call.real(1), call.real(0), call.real(2)});
}

// Inputs: param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, master_param, skip_update. Attributes:
// weight_decay, beta1, beta2, epsilon, always_adapt, multi_precision.
bool lamb(Call& call) {
  static StandardOp norms("vector_norm");
  if (!supports_optimizer_single_tensor(call, 5) || !call.binding().portable_allowed ||
      !norms.on(call.device).can_serve() || call.input(8) != nullptr) {
    return false;
  }
  Device& device = call.device;
  const OpBinding& binding = call.binding();
  Converted lr(call.device, call.view_of(2), to_core(call.input(5)->dtype()));
  const OptimizerTensors tensors = step_tensors(call, 1, lr, call.attr<bool>(5), 7, 5);
  const View average = in_place(call, 1, 3), square = in_place(call, 2, 4);
  const View power1 = in_place(call, 3, 5), power2 = in_place(call, 4, 6);
  const View& param = tensors.master.defined() ? tensors.master : tensors.param;
  const Temporary direction(device, param.dtype, param.ndim, param.sizes);
  const Temporary param_norm(device, param.dtype, 0, nullptr), direction_norm(device, param.dtype, 0, nullptr);
  const uint64_t dims = dim_mask({}, param.ndim);
  return lr.read() &&
         hp::ops::lamb_direction(binding, device, tensors, average, square, direction, power1, power2,
                                 {call.real(1), call.real(2), call.real(3), call.real(0)}) &&
         require_all(hp::ops::vector_norm(norms.on(device), device, param_norm, param, 2, dims, false) &&
                     hp::ops::vector_norm(norms.on(device), device, direction_norm, direction, 2, dims, false) &&
                     hp::ops::lamb_step(binding, device, tensors, direction, param_norm, direction_norm,
                                        call.real(0) > 0 || call.attr<bool>(4)) &&
                     hp::ops::advance_beta_powers(binding, device, power1, power2, call.real(1), call.real(2)));
}

// Paddle's NAdam and RAdam keep a number for each element, all equal. The kernels read and advance the first; this sets
// the others to it, for the optimizer's saved state.
bool spread_first(Device& device, std::initializer_list<View> powers) {
  static StandardOp spread("copy");
  for (const View& power : powers) {
    if (power.numel() == 1) continue;
    const Temporary first(device, power.dtype, 0, nullptr);
    ShapedView repeated(first.view());
    if (!copy(spread.on(device), device, first, ShapedView(power.data, power.dtype, 0, nullptr)) ||
        !copy(spread.on(device), device, power, repeated.expand(power.ndim, power.sizes))) {
      return false;
    }
  }
  return true;
}

// Inputs: param, grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, master_param.
// Attributes: beta1, beta2, epsilon, momentum_decay, multi_precision.
bool nadam(Call& call) {
  constexpr double kBase = 0.96;  // as in Paddle's kernel
  if (!supports_optimizer_single_tensor(call)) return false;
  Converted lr(call.device, call.view_of(2), to_core(call.input(3)->dtype()));
  const OptimizerTensors tensors = step_tensors(call, 1, lr, call.attr<bool>(4), 8, 6);
  const View decay = in_place(call, 1, 3), power = in_place(call, 2, 4), product = in_place(call, 3, 5);
  return lr.read() &&
         hp::ops::nadam_step(call.binding(), call.device, tensors, in_place(call, 4, 6), in_place(call, 5, 7), decay,
                             power, product, {call.real(0), call.real(1), call.real(2), call.real(3), kBase}) &&
         require_all(spread_first(call.device, {decay, power, product}));
}

// Inputs: param, grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2, master_param.
bool radam(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  Converted lr(call.device, call.view_of(2), to_core(call.input(3)->dtype()));
  const OptimizerTensors tensors = step_tensors(call, 1, lr, call.attr<bool>(3), 8, 6);
  const View power1 = in_place(call, 1, 3), power2 = in_place(call, 2, 4), rho = in_place(call, 3, 5);
  return lr.read() &&
         hp::ops::radam_step(call.binding(), call.device, tensors, in_place(call, 4, 6), in_place(call, 5, 7), power1,
                             power2, rho, {call.real(0), call.real(1), call.real(2)}) &&
         require_all(spread_first(call.device, {power1, power2, rho}));
}

// Inputs: param, grad, learning_rate, d, y, n, master_param.
bool asgd(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const View count = call.view_of(5);
  Converted lr(call.device, call.view_of(2), count.dtype);
  const OptimizerTensors tensors = step_tensors(call, 1, lr, call.attr<bool>(0), 6, 3);
  return lr.read() &&
         hp::ops::asgd_step(call.binding(), call.device, tensors, in_place(call, 1, 3), in_place(call, 2, 4), count);
}

// Inputs: param, grad, prev, learning_rate, master_param, learning_rate_range, etas.
bool rprop(Call& call) {
  if (!supports_optimizer_single_tensor(call)) return false;
  const OptimizerTensors tensors = step_tensors(call, 1, {}, call.attr<bool>(0), 4, 3);
  return hp::ops::rprop_step(call.binding(), call.device, tensors, in_place(call, 1, 2), in_place(call, 2, 3),
                             call.view_of(5), call.view_of(6));
}

// ---- Loss scaling

// Divides each gradient by the scale. Inputs: xs, scale. Outputs: outs, found_infinite.
bool check_finite_and_unscale(Call& call) {
  static StandardOp unscale("amp_unscale");
  static PointwiseOp reciprocal("reciprocal");
  const auto xs = call.inputs(0);
  const auto outs = call.outputs(0);
  if (!call.inputs_ready() || !call.binding().portable_allowed || call.input(1)->numel() != 1) return false;
  Device& device = call.device;
  const int64_t one[] = {1};
  const Temporary found(device, DType::kF32, 1, one), inverse(device, DType::kF32, 1, one);
  Converted scale(call.device, call.view_of(1), DType::kF32);

  hp::ops::Views grads;
  for (int k = 0; k < xs.count; ++k) {
    const View grad = in_place(call, outs[k], xs[k]);
    if (grad.numel() != 0) grads.push_back(grad);
  }
  return scale.read() && zero(device, found) && reciprocal(device, inverse, {scale}) &&
         hp::ops::amp_unscale(unscale.on(device), device, grads, found, inverse) &&
         require_all(copy(copy_op.on(device), device, call.allocate(1), found)) && count_decomposed(call);
}

// Attributes: incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio, stop_update. Inputs: xs,
// found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps.
bool update_loss_scaling(Call& call) {
  static PointwiseOp where("where");
  const auto xs = call.inputs(0);
  if (!call.inputs_ready() || !call.binding().portable_allowed || call.input(1)->dtype() != phi::DataType::BOOL ||
      call.input(3)->dtype() != phi::DataType::INT32 || call.attr<phi::Scalar>(4).to<bool>()) {
    return false;
  }
  Device& device = call.device;
  const View found = call.view_of(1);
  // If a gradient is not finite, zero them all.
  for (int k = 0; k < xs.count; ++k) {
    const View grad = in_place(call, call.outputs(0)[k], xs[k]);
    if (grad.numel() == 0) continue;
    const Temporary nothing(device, grad.dtype, 0, nullptr);

    if (!zero(device, nothing) || !where(device, grad, {found, nothing, grad})) return false;
  }
  return hp::ops::loss_scale_step(call.binding(), device, in_place(call, 1, 2), in_place(call, 2, 3),
                                  in_place(call, 3, 4), found,
                                  {call.real(2), call.real(3), call.integer(0), call.integer(1)});
}

// ---- Gradient norms

bool clip_by_norm(Call& call) {
  static StandardOp norms("vector_norm");
  static PointwiseOp clip("clip_to_norm");
  if (!supports_optimizer_single_tensor(call)) return false;
  const View x = call.view_of(0);
  const Temporary norm(call.device, x.dtype, 0, nullptr);
  return hp::ops::vector_norm(norms.on(call.device), call.device, norm, x, 2, dim_mask({}, x.ndim), false) &&
         clip(call.device, call.allocate(0), {x, norm}, {call.real(0)}) && count_decomposed(call);
}

bool squared_l2_norm(Call& call) {
  static StandardOp dot("dot");
  if (!supports_optimizer_single_tensor(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  const int64_t length[] = {x.numel()};
  const ShapedView flat(x.data, x.dtype, 1, length);
  return hp::ops::dot(dot.on(call.device), call.device, ShapedView(out.data, out.dtype, 0, nullptr), flat, flat) &&
         count_decomposed(call);
}

bool squared_l2_norm_grad(Call& call) {
  static PointwiseOp product("mul"), scale("scale");
  if (!supports_optimizer_single_tensor(call)) return false;
  const View out = call.allocate(0);
  return product(call.device, out, {call.view_of(0), call.view_of(1)}) && scale(call.device, out, {out}, {2, 0}, 1) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/optimizer_single_tensor.inc"
