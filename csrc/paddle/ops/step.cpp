// Optimisers. Paddle gives each output the memory of the input that it renews; where it does not, that is copied first.
#include "../../ops/step.h"

#include <optional>

#include "../../ops/matmul.h"
#include "../../ops/optimizer.h"
#include "../../ops/reduction.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Stepped;

Step copying("copy");

// The view of an output that holds what the input did; undefined where there is no such input. Throws nothing away:
// only to be called once all inputs are known to be good.
View renewed(Call& call, DenseTensor* out, const DenseTensor* in) {
  if (out == nullptr || in == nullptr) return {};
  // A copy of the record: an output that is the input itself may get new memory.
  const DenseTensor before = *in;
  const View now = call.allocate(*out), from = view(before);
  if (!on_device(before)) {
    Stream& stream = current_stream(call.device);
    call.device.copy_to_device(now.data, from.data, from.bytes(), stream);
    stream.synchronize();
    return now;
  }
  if (now.data != from.data && !copy(copying.on(call.device), call.device, now, from)) {
    copy_through_host(call.device, now, from);
  }
  return now;
}
View renewed(Call& call, int out, int in) { return renewed(call, call.output(out), call.input(in)); }

// A number in the dtype of others that it is read with.
class Number {
 public:
  Number(Call& call, const View& given, DType wanted) : view_(given) {
    if (given.dtype == wanted || wanted == DType::kNone) return;
    converted_.emplace(call.device, wanted, given.ndim, given.sizes);
    good = copy(copying.on(call.device), call.device, *converted_, given);
    view_ = *converted_;
  }
  operator const View&() const { return view_; }
  bool good = true;

 private:
  View view_;
  std::optional<Temporary> converted_;
};

// Whether the kernels take the call: everything on the device, floating-point, and a parameter that is not empty.
// Single numbers may be on the host if they are to be renewed: those from input `powers` on.
bool takes(const Call& call, int powers = Call::kMaxInputs) {
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
  return call.service().able() && call.input(0) != nullptr && call.input(0)->numel() != 0 &&
         is_float(to_core(call.kernel.dtype));
}

// The rest of a step that has begun: no other tier may repeat what is done.
bool completed(bool done) {
  if (!done) throw Error(HP_NOT_SUPPORTED, "the device has kernels for a part of this step only");
  return true;
}

// The parameter with its gradient; `master` is the position of its copy of higher precision among inputs and outputs.
Stepped stepped(Call& call, int grad, const View& lr, bool precise, int master_in, int master_out) {
  Stepped at{renewed(call, 0, 0), call.view_of(grad), {}, lr};
  if (precise) at.master = renewed(call, master_out, master_in);
  return at;
}

// Inputs: param, learning_rate, grad, master_param. Attribute: multi_precision.
bool sgd(Call& call) {
  if (!takes(call)) return false;
  return hp::ops::sgd_step(call.service(), call.device, stepped(call, 2, call.view_of(1), call.attr<bool>(0), 3, 1));
}

// Inputs: param, grad, velocity, learning_rate, master_param. Attributes: mu, use_nesterov, regularization_method,
// regularization_coeff, multi_precision, rescale_grad.
bool momentum(Call& call) {
  if (!takes(call)) return false;
  const double decay = call.attr<std::string>(2) == "l2_decay" ? call.real(3) : 0;
  const Stepped at = stepped(call, 1, call.view_of(3), call.attr<bool>(4), 4, 2);
  return hp::ops::momentum_step(call.service(), call.device, at, renewed(call, 1, 2), call.attr<bool>(1),
                                {call.real(0), decay, call.real(5)});
}

// The same on lists; one method and one coefficient for each, or none.
bool merged_momentum(Call& call) {
  if (!takes(call)) return false;
  const auto params = call.inputs(0), grads = call.inputs(1), velocities = call.inputs(2), rates = call.inputs(3);
  const auto& methods = call.attr<std::vector<std::string>>(2);
  const auto& coefficients = call.attr<std::vector<float>>(3);
  const bool precise = call.attr<bool>(4);
  for (int k = 0; k < params.count; ++k) {
    if (params[k]->numel() == 0) return false;
  }
  for (int k = 0; k < params.count; ++k) {
    Stepped at{
        renewed(call, call.outputs(0)[k], params[k]), view(*grads[k]), {}, view(*rates[rates.count == 1 ? 0 : k])};
    if (precise) at.master = renewed(call, call.outputs(2)[k], call.inputs(4)[k]);
    const bool decays = !methods.empty() && methods[k] == "l2_decay";
    const bool done =
        hp::ops::momentum_step(call.service(), call.device, at, renewed(call, call.outputs(1)[k], velocities[k]),
                               call.attr<bool>(1), {call.real(0), decays ? coefficients[k] : 0.0, call.real(5)});
    if (k == 0 && !done) return false;
    completed(done);
  }
  return true;
}

// A step of Adam on one tensor.
struct AdamTensors {
  const DenseTensor *param, *grad, *lr, *average, *square, *highest, *power1, *power2, *master;
  DenseTensor *param_out, *average_out, *square_out, *highest_out, *power1_out, *power2_out, *master_out;
};
bool adam_one(Call& call, const AdamTensors& t, const hp::ops::AdamNumbers& numbers, bool global_powers) {
  const Number lr(call, view(*t.lr), to_core(t.power1->dtype()));
  const View power1 = renewed(call, t.power1_out, t.power1), power2 = renewed(call, t.power2_out, t.power2);
  const Stepped at{renewed(call, t.param_out, t.param), view(*t.grad), renewed(call, t.master_out, t.master), lr};
  const Service& service = call.service();
  return lr.good &&
         hp::ops::adam_step(service, call.device, at, renewed(call, t.average_out, t.average),
                            renewed(call, t.square_out, t.square), renewed(call, t.highest_out, t.highest), power1,
                            power2, numbers) &&
         completed(global_powers ||
                   hp::ops::step_powers(service, call.device, power1, power2, numbers.beta1, numbers.beta2));
}

// Inputs: param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param, skip_update.
bool adam_of(Call& call, const hp::ops::AdamNumbers& numbers, bool precise, bool global_powers, bool amsgrad) {
  if (!takes(call, 6) || !call.service().has_compiler || call.input(9) != nullptr) return false;
  return adam_one(
      call,
      {call.input(0), call.input(1), call.input(2), call.input(3), call.input(4), amsgrad ? call.input(5) : nullptr,
       call.input(6), call.input(7), precise ? call.input(8) : nullptr, call.output(0), call.output(1), call.output(2),
       call.output(3), call.output(4), call.output(5), call.output(6)},
      numbers, global_powers);
}

// Attributes: beta1, beta2, epsilon, lazy_mode, (a number), multi_precision, use_global_beta_pow, amsgrad.
bool adam(Call& call) {
  return adam_of(call, {call.real(0), call.real(1), call.real(2), 1, 0}, call.attr<bool>(5), call.attr<bool>(6),
                 call.attr<bool>(7));
}

// Attributes: beta1, beta2, epsilon, lr_ratio, coeff, with_decay, lazy_mode, (a number), multi_precision,
// use_global_beta_pow, amsgrad.
bool adamw(Call& call) {
  return adam_of(call, {call.real(0), call.real(1), call.real(2), call.real(3), call.attr<bool>(5) ? call.real(4) : 0},
                 call.attr<bool>(8), call.attr<bool>(9), call.attr<bool>(10));
}

// As adam, on lists and without skip_update. Attributes: beta1, beta2, epsilon, multi_precision, use_global_beta_pow,
// amsgrad.
bool merged_adam(Call& call) {
  if (!takes(call, 6) || !call.service().has_compiler) return false;
  const int count = call.inputs(0).count;
  for (int k = 0; k < count; ++k) {
    if (call.inputs(0)[k]->numel() == 0) return false;
  }
  const bool precise = call.attr<bool>(3), amsgrad = call.attr<bool>(5);
  for (int k = 0; k < count; ++k) {
    const auto in = [&](int i) { return call.inputs(i)[call.inputs(i).count == 1 ? 0 : k]; };
    const auto out = [&](int i) { return call.outputs(i).count > k ? call.outputs(i)[k] : nullptr; };
    const bool done = adam_one(call,
                               {in(0), in(1), in(2), in(3), in(4), amsgrad ? in(5) : nullptr, in(6), in(7),
                                precise ? in(8) : nullptr, out(0), out(1), out(2), out(3), out(4), out(5), out(6)},
                               {call.real(0), call.real(1), call.real(2), 1, 0}, call.attr<bool>(4));
    if (k == 0 && !done) return false;
    completed(done);
  }
  return true;
}

// Inputs: param, grad, learning_rate, moment, inf_norm, beta1_pow, master_param.
bool adamax(Call& call) {
  if (!takes(call)) return false;
  const View power = call.view_of(5);
  const Number lr(call, call.view_of(2), power.dtype);
  const Stepped at = stepped(call, 1, lr, call.attr<bool>(3), 6, 3);
  return lr.good && hp::ops::adamax_step(call.service(), call.device, at, renewed(call, 1, 3), renewed(call, 2, 4),
                                         power, {call.real(0), call.real(1), call.real(2), 1, 0});
}

// Inputs: param, grad, moment, learning_rate, master_param.
bool adagrad(Call& call) {
  if (!takes(call)) return false;
  const Stepped at = stepped(call, 1, call.view_of(3), call.attr<bool>(1), 4, 2);
  return hp::ops::adagrad_step(call.service(), call.device, at, renewed(call, 1, 2), call.real(0));
}

// Inputs: param, grad, avg_squared_grad, avg_squared_update, learning_rate, master_param.
bool adadelta(Call& call) {
  if (!takes(call)) return false;
  const Stepped at = stepped(call, 1, call.view_of(4), call.attr<bool>(2), 5, 3);
  return hp::ops::adadelta_step(call.service(), call.device, at, renewed(call, 1, 2), renewed(call, 2, 3),
                                {call.real(0), call.real(1), 0});
}

// Inputs: param, mean_square, grad, moment, learning_rate, mean_grad, master_param. Outputs: param, moment,
// mean_square, mean_grad, master_param. Attributes: epsilon, decay, momentum, centered, multi_precision.
bool rmsprop(Call& call) {
  if (!takes(call)) return false;
  const bool centered = call.attr<bool>(3);
  if (centered && call.input(5) == nullptr) return false;
  const Stepped at = stepped(call, 2, call.view_of(4), call.attr<bool>(4), 6, 4);
  return hp::ops::rmsprop_step(call.service(), call.device, at, renewed(call, 2, 1), renewed(call, 1, 3),
                               centered ? renewed(call, 3, 5) : View{}, {call.real(1), call.real(0), call.real(2)});
}

// Inputs: param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, master_param, skip_update. Attributes:
// weight_decay, beta1, beta2, epsilon, always_adapt, multi_precision.
bool lamb(Call& call) {
  static Step norms("vector_norm");
  if (!takes(call, 5) || !call.service().has_compiler || !norms.on(call.device).able() || call.input(8) != nullptr) {
    return false;
  }
  Device& device = call.device;
  const Service& service = call.service();
  const Number lr(call, call.view_of(2), to_core(call.input(5)->dtype()));
  const Stepped at = stepped(call, 1, lr, call.attr<bool>(5), 7, 5);
  const View average = renewed(call, 1, 3), square = renewed(call, 2, 4);
  const View power1 = renewed(call, 3, 5), power2 = renewed(call, 4, 6);
  const View& whole = at.master.defined() ? at.master : at.param;
  const Temporary direction(device, whole.dtype, whole.ndim, whole.sizes);
  const Temporary of_param(device, whole.dtype, 0, nullptr), of_direction(device, whole.dtype, 0, nullptr);
  const uint64_t dims = mask_of({}, whole.ndim);
  return lr.good &&
         hp::ops::lamb_direction(service, device, at, average, square, direction, power1, power2,
                                 {call.real(1), call.real(2), call.real(3), call.real(0)}) &&
         completed(hp::ops::vector_norm(norms.on(device), device, of_param, whole, 2, dims, false) &&
                   hp::ops::vector_norm(norms.on(device), device, of_direction, direction, 2, dims, false) &&
                   hp::ops::lamb_step(service, device, at, direction, of_param, of_direction,
                                      call.real(0) > 0 || call.attr<bool>(4)) &&
                   hp::ops::step_powers(service, device, power1, power2, call.real(1), call.real(2)));
}

// Inputs: param, grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, master_param.
// Attributes: beta1, beta2, epsilon, momentum_decay, multi_precision.
bool nadam(Call& call) {
  constexpr double kBase = 0.96;  // Paddle's own
  if (!takes(call)) return false;
  const Number lr(call, call.view_of(2), to_core(call.input(3)->dtype()));
  const Stepped at = stepped(call, 1, lr, call.attr<bool>(4), 8, 6);
  return lr.good && hp::ops::nadam_step(call.service(), call.device, at, renewed(call, 4, 6), renewed(call, 5, 7),
                                        renewed(call, 1, 3), renewed(call, 2, 4), renewed(call, 3, 5),
                                        {call.real(0), call.real(1), call.real(2), call.real(3), kBase});
}

// Inputs: param, grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2, master_param.
bool radam(Call& call) {
  if (!takes(call)) return false;
  const Number lr(call, call.view_of(2), to_core(call.input(3)->dtype()));
  const Stepped at = stepped(call, 1, lr, call.attr<bool>(3), 8, 6);
  return lr.good && hp::ops::radam_step(call.service(), call.device, at, renewed(call, 4, 6), renewed(call, 5, 7),
                                        renewed(call, 1, 3), renewed(call, 2, 4), renewed(call, 3, 5),
                                        {call.real(0), call.real(1), call.real(2)});
}

// Inputs: param, grad, learning_rate, d, y, n, master_param.
bool asgd(Call& call) {
  if (!takes(call)) return false;
  const View count = call.view_of(5);
  const Number lr(call, call.view_of(2), count.dtype);
  const Stepped at = stepped(call, 1, lr, call.attr<bool>(0), 6, 3);
  return lr.good &&
         hp::ops::asgd_step(call.service(), call.device, at, renewed(call, 1, 3), renewed(call, 2, 4), count);
}

// Inputs: param, grad, prev, learning_rate, master_param, learning_rate_range, etas.
bool rprop(Call& call) {
  if (!takes(call)) return false;
  const Stepped at = stepped(call, 1, {}, call.attr<bool>(0), 4, 3);
  return hp::ops::rprop_step(call.service(), call.device, at, renewed(call, 1, 2), renewed(call, 2, 3), call.view_of(5),
                             call.view_of(6));
}

// ---- Gradients of a scaled loss

// Each gradient divided by the scale, and whether one of them is not finite.
bool check_finite_and_unscale(Call& call) {
  static Step unscale("amp_unscale");
  static PointwiseStep reciprocal("reciprocal");
  const auto given = call.inputs(0);
  const auto outs = call.outputs(0);
  if (!call.plain() || !call.service().has_compiler || call.input(1)->numel() != 1) return false;
  Device& device = call.device;
  const int64_t one[] = {1};
  const Temporary found(device, DType::kF32, 1, one), inverse(device, DType::kF32, 1, one);
  const Number scale(call, call.view_of(1), DType::kF32);

  hp::ops::Views grads;
  for (int k = 0; k < given.count; ++k) {
    const View grad = renewed(call, outs[k], given[k]);
    if (grad.numel() != 0) grads.push_back(grad);
  }
  return scale.good && zero(device, found) && reciprocal(device, inverse, {scale}) &&
         hp::ops::amp_unscale(unscale.on(device), device, grads, found, inverse) &&
         completed(copy(copying.on(device), device, call.allocate(1), found)) && decomposed(call);
}

// Attributes: incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio, stop_update. Inputs: xs,
// found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps.
bool update_loss_scaling(Call& call) {
  static PointwiseStep where("where");
  const auto given = call.inputs(0);
  if (!call.plain() || !call.service().has_compiler || call.input(1)->dtype() != phi::DataType::BOOL ||
      call.input(3)->dtype() != phi::DataType::INT32 || call.attr<phi::Scalar>(4).to<bool>()) {
    return false;
  }
  Device& device = call.device;
  const View found = call.view_of(1);
  // Gradients that are not finite take no step.
  for (int k = 0; k < given.count; ++k) {
    const View grad = renewed(call, call.outputs(0)[k], given[k]);
    if (grad.numel() == 0) continue;
    const Temporary nothing(device, grad.dtype, 0, nullptr);

    if (!zero(device, nothing) || !where(device, grad, {found, nothing, grad})) return false;
  }
  return hp::ops::loss_scale_step(call.service(), device, renewed(call, 1, 2), renewed(call, 2, 3), renewed(call, 3, 4),
                                  found, {call.real(2), call.real(3), call.integer(0), call.integer(1)});
}

// ---- Norms of gradients

bool clip_by_norm(Call& call) {
  static Step norms("vector_norm");
  static PointwiseStep clip("clip_to_norm");
  if (!takes(call)) return false;
  const View x = call.view_of(0);
  const Temporary norm(call.device, x.dtype, 0, nullptr);
  return hp::ops::vector_norm(norms.on(call.device), call.device, norm, x, 2, mask_of({}, x.ndim), false) &&
         clip(call.device, call.allocate(0), {x, norm}, {call.real(0)}) && decomposed(call);
}

bool squared_l2_norm(Call& call) {
  static Step dot("dot");
  if (!takes(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  const int64_t length[] = {x.numel()};
  const Shaped flat(x.data, x.dtype, 1, length);
  return hp::ops::dot(dot.on(call.device), call.device, Shaped(out.data, out.dtype, 0, nullptr), flat, flat) &&
         decomposed(call);
}

bool squared_l2_norm_grad(Call& call) {
  static PointwiseStep product("mul"), scale("scale");
  if (!takes(call)) return false;
  const View out = call.allocate(0);
  return product(call.device, out, {call.view_of(0), call.view_of(1)}) && scale(call.device, out, {out}, {2, 0}, 1) &&
         decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/step.inc"
