#include "ops/optimizer_single_tensor.h"

#include "core/dispatch/template_call.h"

namespace hp::ops {
namespace {

using Tensors = std::initializer_list<View>;

DType state_dtype(const OptimizerTensors& t) { return t.master.defined() ? t.master.dtype : t.param.dtype; }

bool can_step(const OpBinding& binding, const OptimizerTensors& t, Tensors state, Tensors scalars) {
  if (!binding.portable_allowed || !is_float(t.param.dtype) || !is_float(t.grad.dtype)) return false;
  for (const View& tensor : state) {
    if (tensor.defined() && tensor.dtype != state_dtype(t)) return false;
  }
  const View& first = *scalars.begin();
  for (const View& number : scalars) {
    if (number.dtype != first.dtype || !is_float(first.dtype)) return false;
  }
  return true;
}

void pack_tensors(TemplateCall& call, const OptimizerTensors& t, Tensors state, Tensors scalars) {
  call.arg(t.param).arg(t.grad).arg(t.master);
  for (const View& tensor : state) call.arg(tensor);
  for (const View& number : scalars) call.arg(number);
  call.integer(t.param.numel());
}

// One launch; `more` adds the arguments after the number of elements.
template <class More>
bool launch(const OpBinding& binding, Device& device, KernelTemplate& kernels, const OptimizerTensors& t, Tensors state,
            Tensors scalars, int flag, More more) {
  if (!can_step(binding, t, state, scalars)) return false;
  TemplateCall call(kernels, device, {t.param.dtype, t.grad.dtype, state_dtype(t), scalars.begin()->dtype},
                    {t.master.defined(), flag});
  pack_tensors(call, t, state, scalars);
  more(call);
  return call.launch_elements(binding.op, t.param.numel());
}

template <class More>
bool step(const OpBinding& binding, Device& device, KernelTemplate& kernels, const OptimizerTensors& t, Tensors state,
          Tensors scalars, int flag, More more) {
  PortableScope scope(binding);
  return launch(binding, device, kernels, t, state, scalars, flag, more) && scope.done();
}

#define HP_STEP_KERNELS(name, flag) \
  static KernelTemplate kernels("optimizer_single_tensor:" name, {"T", "G", "M", "S"}, {"MASTER", flag})

// Updates scalar state after the step has read it.
template <class Numbers>
bool update_scalars(const OpBinding& binding, Device& device, KernelTemplate& kernels, DType state, Tensors scalars,
                    const Numbers& numbers) {
  TemplateCall call(kernels, device, {state, scalars.begin()->dtype});
  for (const View& number : scalars) call.arg(number);
  return call.value(numbers).launch(binding.op, 1);
}

}  // namespace

bool sgd_step(const OpBinding& binding, Device& device, const OptimizerTensors& t) {
  if (call_vendor(binding, device, {output(t.param), output(t.master), input(t.grad), input(t.lr)})) {
    return true;
  }
  HP_STEP_KERNELS("sgd", "UNUSED");
  return step(binding, device, kernels, t, {}, {t.lr}, 0, [](TemplateCall&) {});
}

bool momentum_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& velocity,
                   bool nesterov, const MomentumHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(velocity), input(t.grad), input(t.lr), attribute(nesterov),
                   attribute(numbers.mu), attribute(numbers.decay), attribute(numbers.rescale)})) {
    return true;
  }
  HP_STEP_KERNELS("momentum", "NESTEROV");
  return step(binding, device, kernels, t, {velocity}, {t.lr}, nesterov,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
               const View& square, const View& max_square, const View& power1, const View& power2,
               const AdamHyperparams& numbers) {
  if (call_vendor(
          binding, device,
          {output(t.param), output(t.master), output(average), output(square), output(max_square), input(t.grad),
           input(t.lr), input(power1), input(power2), attribute(numbers.beta1), attribute(numbers.beta2),
           attribute(numbers.eps), attribute(numbers.rate_ratio), attribute(numbers.decay)})) {
    return true;
  }
  HP_STEP_KERNELS("adam", "AMSGRAD");
  return step(binding, device, kernels, t, {average, square, max_square}, {t.lr, power1, power2}, max_square.defined(),
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adamax_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                 const View& largest, const View& power1, const AdamHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(average), output(largest), input(t.grad), input(t.lr),
                   input(power1), attribute(numbers.beta1), attribute(numbers.beta2), attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adamax", "UNUSED");
  return step(binding, device, kernels, t, {average, largest}, {t.lr, power1}, 0,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adagrad_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& sum, double eps) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(sum), input(t.grad), input(t.lr), attribute(eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adagrad", "UNUSED");
  return step(binding, device, kernels, t, {sum}, {t.lr}, 0,
              [&](TemplateCall& call) { call.value(RmsDecayHyperparams{0, eps, 0}); });
}

bool adadelta_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& square,
                   const View& change, const RmsDecayHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(square), output(change), input(t.grad), input(t.lr),
                   attribute(numbers.rho), attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adadelta", "UNUSED");
  return step(binding, device, kernels, t, {square, change}, {t.lr}, 0,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool rmsprop_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& square,
                  const View& moment, const View& mean, const RmsDecayHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(square), output(moment), output(mean), input(t.grad),
                   input(t.lr), attribute(numbers.rho), attribute(numbers.eps), attribute(numbers.momentum)})) {
    return true;
  }
  HP_STEP_KERNELS("rmsprop", "CENTERED");
  return step(binding, device, kernels, t, {square, moment, mean}, {t.lr}, mean.defined(),
              [&](TemplateCall& call) { call.value(numbers); });
}

bool lamb_direction(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                    const View& square, const View& direction, const View& power1, const View& power2,
                    const LambHyperparams& numbers) {
  HP_STEP_KERNELS("lamb", "UNUSED");
  return launch(binding, device, kernels, t, {average, square, direction}, {power1, power2}, 0,
                [&](TemplateCall& call) { call.value(numbers); });
}

bool lamb_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& direction,
               const View& param_norm, const View& norm, bool adapt) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), input(direction), input(param_norm), input(norm), input(t.lr),
                   attribute(adapt)})) {
    return true;
  }
  HP_STEP_KERNELS("lamb_apply", "ADAPT");
  if (!can_step(binding, t, {direction, param_norm, norm}, {t.lr})) return false;
  TemplateCall call(kernels, device, {t.param.dtype, t.grad.dtype, state_dtype(t), t.lr.dtype},
                    {t.master.defined(), adapt});
  call.arg(t.param).arg(t.master).arg(direction).arg(param_norm).arg(norm).arg(t.lr).integer(t.param.numel());
  return call.run_elements(binding, t.param.numel());
}

bool nadam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                const View& square, const View& decay_power, const View& power2, const View& mu_product,
                const NadamHyperparams& numbers) {
  if (call_vendor(
          binding, device,
          {output(t.param), output(t.master), output(average), output(square), output(decay_power), output(power2),
           output(mu_product), input(t.grad), input(t.lr), attribute(numbers.beta1), attribute(numbers.beta2),
           attribute(numbers.eps), attribute(numbers.decay), attribute(numbers.base)})) {
    return true;
  }
  HP_STEP_KERNELS("nadam", "UNUSED");
  static KernelTemplate numbers_kernels("optimizer_single_tensor:nadam_numbers", {"M", "S"});
  PortableScope scope(binding);
  return launch(binding, device, kernels, t, {average, square}, {t.lr, decay_power, power2, mu_product}, 0,
                [&](TemplateCall& call) { call.value(numbers); }) &&
         update_scalars(binding, device, numbers_kernels, state_dtype(t), {decay_power, power2, mu_product}, numbers) &&
         scope.done();
}

bool radam_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& average,
                const View& square, const View& power1, const View& power2, const View& rho,
                const RadamHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(t.param), output(t.master), output(average), output(square), output(power1), output(power2),
                   output(rho), input(t.grad), input(t.lr), attribute(numbers.beta1), attribute(numbers.beta2),
                   attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("radam", "UNUSED");
  static KernelTemplate numbers_kernels("optimizer_single_tensor:radam_numbers", {"M", "S"});
  PortableScope scope(binding);
  return launch(binding, device, kernels, t, {average, square}, {t.lr, power1, power2, rho}, 0,
                [&](TemplateCall& call) { call.value(numbers); }) &&
         update_scalars(binding, device, numbers_kernels, state_dtype(t), {power1, power2, rho}, numbers) &&
         scope.done();
}

bool asgd_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& sum, const View& last,
               const View& count) {
  if (call_vendor(
          binding, device,
          {output(t.param), output(t.master), output(sum), output(last), input(t.grad), input(t.lr), input(count)})) {
    return true;
  }
  HP_STEP_KERNELS("asgd", "UNUSED");
  return step(binding, device, kernels, t, {sum, last}, {t.lr, count}, 0, [](TemplateCall&) {});
}

bool rprop_step(const OpBinding& binding, Device& device, const OptimizerTensors& t, const View& last,
                const View& rates, const View& range, const View& etas) {
  if (call_vendor(
          binding, device,
          {output(t.param), output(t.master), output(last), output(rates), input(t.grad), input(range), input(etas)})) {
    return true;
  }
  HP_STEP_KERNELS("rprop", "UNUSED");
  return step(binding, device, kernels, t, {last, rates}, {range, etas}, 0, [](TemplateCall&) {});
}

bool advance_beta_powers(const OpBinding& binding, Device& device, const View& power1, const View& power2, double beta1,
                         double beta2) {
  static KernelTemplate kernels("optimizer_single_tensor:powers", {"S"});
  if (!binding.portable_allowed || !is_float(power1.dtype) || power1.dtype != power2.dtype) return false;
  TemplateCall call(kernels, device, {power1.dtype});
  return call.arg(power1).arg(power2).real(beta1).real(beta2).launch(binding.op, 1);
}

bool loss_scale_step(const OpBinding& binding, Device& device, const View& factor, const View& good, const View& bad,
                     const View& found, const LossScaleHyperparams& numbers) {
  if (call_vendor(binding, device,
                  {output(factor), output(good), output(bad), input(found), attribute(numbers.growth),
                   attribute(numbers.backoff), attribute(numbers.growth_after), attribute(numbers.backoff_after)})) {
    return true;
  }
  static KernelTemplate kernels("optimizer_single_tensor:loss_scale", {"S"});
  if (!binding.portable_allowed || !is_float(factor.dtype)) return false;
  TemplateCall call(kernels, device, {factor.dtype});
  call.arg(factor).arg(good).arg(bad).arg(found).real(numbers.growth).real(numbers.backoff);
  return call.integer(numbers.growth_after).integer(numbers.backoff_after).run(binding, 1);
}

}  // namespace hp::ops
