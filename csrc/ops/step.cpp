#include "step.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

using Tensors = std::initializer_list<View>;

DType state_dtype(const Stepped& at) { return at.master.defined() ? at.master.dtype : at.param.dtype; }

bool takes(const Service& service, const Stepped& at, Tensors state, Tensors scalars) {
  if (!service.has_compiler || !is_float(at.param.dtype) || !is_float(at.grad.dtype)) return false;
  for (const View& tensor : state) {
    if (tensor.defined() && tensor.dtype != state_dtype(at)) return false;
  }
  const View& first = *scalars.begin();
  for (const View& number : scalars) {
    if (number.dtype != first.dtype || !is_float(first.dtype)) return false;
  }
  return true;
}

void pack_tensors(TemplateCall& call, const Stepped& at, Tensors state, Tensors scalars) {
  call.arg(at.param).arg(at.grad).arg(at.master);
  for (const View& tensor : state) call.arg(tensor);
  for (const View& number : scalars) call.arg(number);
  call.integer(at.param.numel());
}

// One launch; `more` packs what comes after the number of elements.
template <class More>
bool launch(const Service& service, Device& device, TemplateKernels& kernels, const Stepped& at, Tensors state,
            Tensors scalars, int flag, More more) {
  if (!takes(service, at, state, scalars)) return false;
  TemplateCall call(kernels, device, {at.param.dtype, at.grad.dtype, state_dtype(at), scalars.begin()->dtype},
                    {at.master.defined(), flag});
  if (!call.available()) return false;
  pack_tensors(call, at, state, scalars);
  more(call);
  call.launch_elements(service.op, at.param.numel());
  return true;
}

template <class More>
bool step(const Service& service, Device& device, TemplateKernels& kernels, const Stepped& at, Tensors state,
          Tensors scalars, int flag, More more) {
  PortableScope scope(service);
  return launch(service, device, kernels, at, state, scalars, flag, more) && scope.done();
}

#define HP_STEP_KERNELS(name, flag) static TemplateKernels kernels("step:" name, {"T", "G", "M", "S"}, {"MASTER", flag})

// Three numbers, once the launch before has read them.
template <class Numbers>
bool move_on(const Service& service, Device& device, TemplateKernels& kernels, DType state, Tensors scalars,
             const Numbers& numbers) {
  TemplateCall call(kernels, device, {state, scalars.begin()->dtype});
  if (!call.available()) return false;
  for (const View& number : scalars) call.arg(number);
  call.value(numbers).launch(service.op, 1);
  return true;
}

}  // namespace

bool sgd_step(const Service& service, Device& device, const Stepped& at) {
  if (call_vendor(service, device, {output(at.param), output(at.master), input(at.grad), input(at.lr)})) {
    return true;
  }
  HP_STEP_KERNELS("sgd", "UNUSED");
  return step(service, device, kernels, at, {}, {at.lr}, 0, [](TemplateCall&) {});
}

bool momentum_step(const Service& service, Device& device, const Stepped& at, const View& velocity, bool nesterov,
                   const MomentumNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(velocity), input(at.grad), input(at.lr),
                   attribute(nesterov), attribute(numbers.mu), attribute(numbers.decay), attribute(numbers.rescale)})) {
    return true;
  }
  HP_STEP_KERNELS("momentum", "NESTEROV");
  return step(service, device, kernels, at, {velocity}, {at.lr}, nesterov,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
               const View& highest, const View& power1, const View& power2, const AdamNumbers& numbers) {
  if (call_vendor(
          service, device,
          {output(at.param), output(at.master), output(average), output(square), output(highest), input(at.grad),
           input(at.lr), input(power1), input(power2), attribute(numbers.beta1), attribute(numbers.beta2),
           attribute(numbers.eps), attribute(numbers.rate_ratio), attribute(numbers.decay)})) {
    return true;
  }
  HP_STEP_KERNELS("adam", "AMSGRAD");
  return step(service, device, kernels, at, {average, square, highest}, {at.lr, power1, power2}, highest.defined(),
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adamax_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& largest,
                 const View& power1, const AdamNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(average), output(largest), input(at.grad), input(at.lr),
                   input(power1), attribute(numbers.beta1), attribute(numbers.beta2), attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adamax", "UNUSED");
  return step(service, device, kernels, at, {average, largest}, {at.lr, power1}, 0,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool adagrad_step(const Service& service, Device& device, const Stepped& at, const View& sum, double eps) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(sum), input(at.grad), input(at.lr), attribute(eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adagrad", "UNUSED");
  return step(service, device, kernels, at, {sum}, {at.lr}, 0,
              [&](TemplateCall& call) { call.value(DecayingNumbers{0, eps, 0}); });
}

bool adadelta_step(const Service& service, Device& device, const Stepped& at, const View& square, const View& change,
                   const DecayingNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(square), output(change), input(at.grad), input(at.lr),
                   attribute(numbers.rho), attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("adadelta", "UNUSED");
  return step(service, device, kernels, at, {square, change}, {at.lr}, 0,
              [&](TemplateCall& call) { call.value(numbers); });
}

bool rmsprop_step(const Service& service, Device& device, const Stepped& at, const View& square, const View& moment,
                  const View& mean, const DecayingNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(square), output(moment), output(mean), input(at.grad),
                   input(at.lr), attribute(numbers.rho), attribute(numbers.eps), attribute(numbers.momentum)})) {
    return true;
  }
  HP_STEP_KERNELS("rmsprop", "CENTERED");
  return step(service, device, kernels, at, {square, moment, mean}, {at.lr}, mean.defined(),
              [&](TemplateCall& call) { call.value(numbers); });
}

bool lamb_direction(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                    const View& direction, const View& power1, const View& power2, const LambNumbers& numbers) {
  HP_STEP_KERNELS("lamb", "UNUSED");
  return launch(service, device, kernels, at, {average, square, direction}, {power1, power2}, 0,
                [&](TemplateCall& call) { call.value(numbers); });
}

bool lamb_step(const Service& service, Device& device, const Stepped& at, const View& direction, const View& param_norm,
               const View& norm, bool adapt) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), input(direction), input(param_norm), input(norm), input(at.lr),
                   attribute(adapt)})) {
    return true;
  }
  HP_STEP_KERNELS("lamb_apply", "ADAPT");
  if (!takes(service, at, {direction, param_norm, norm}, {at.lr})) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {at.param.dtype, at.grad.dtype, state_dtype(at), at.lr.dtype},
                    {at.master.defined(), adapt});
  if (!call.available()) return false;
  call.arg(at.param).arg(at.master).arg(direction).arg(param_norm).arg(norm).arg(at.lr).integer(at.param.numel());
  call.launch_elements(service.op, at.param.numel());
  return scope.done();
}

bool nadam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                const View& decay_power, const View& power2, const View& mu_product, const NadamNumbers& numbers) {
  if (call_vendor(
          service, device,
          {output(at.param), output(at.master), output(average), output(square), output(decay_power), output(power2),
           output(mu_product), input(at.grad), input(at.lr), attribute(numbers.beta1), attribute(numbers.beta2),
           attribute(numbers.eps), attribute(numbers.decay), attribute(numbers.base)})) {
    return true;
  }
  HP_STEP_KERNELS("nadam", "UNUSED");
  static TemplateKernels numbers_kernels("step:nadam_numbers", {"M", "S"});
  PortableScope scope(service);
  return launch(service, device, kernels, at, {average, square}, {at.lr, decay_power, power2, mu_product}, 0,
                [&](TemplateCall& call) { call.value(numbers); }) &&
         move_on(service, device, numbers_kernels, state_dtype(at), {decay_power, power2, mu_product}, numbers) &&
         scope.done();
}

bool radam_step(const Service& service, Device& device, const Stepped& at, const View& average, const View& square,
                const View& power1, const View& power2, const View& rho, const RadamNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(average), output(square), output(power1), output(power2),
                   output(rho), input(at.grad), input(at.lr), attribute(numbers.beta1), attribute(numbers.beta2),
                   attribute(numbers.eps)})) {
    return true;
  }
  HP_STEP_KERNELS("radam", "UNUSED");
  static TemplateKernels numbers_kernels("step:radam_numbers", {"M", "S"});
  PortableScope scope(service);
  return launch(service, device, kernels, at, {average, square}, {at.lr, power1, power2, rho}, 0,
                [&](TemplateCall& call) { call.value(numbers); }) &&
         move_on(service, device, numbers_kernels, state_dtype(at), {power1, power2, rho}, numbers) && scope.done();
}

bool asgd_step(const Service& service, Device& device, const Stepped& at, const View& sum, const View& last,
               const View& count) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(sum), output(last), input(at.grad), input(at.lr),
                   input(count)})) {
    return true;
  }
  HP_STEP_KERNELS("asgd", "UNUSED");
  return step(service, device, kernels, at, {sum, last}, {at.lr, count}, 0, [](TemplateCall&) {});
}

bool rprop_step(const Service& service, Device& device, const Stepped& at, const View& last, const View& rates,
                const View& range, const View& etas) {
  if (call_vendor(service, device,
                  {output(at.param), output(at.master), output(last), output(rates), input(at.grad), input(range),
                   input(etas)})) {
    return true;
  }
  HP_STEP_KERNELS("rprop", "UNUSED");
  return step(service, device, kernels, at, {last, rates}, {range, etas}, 0, [](TemplateCall&) {});
}

bool step_powers(const Service& service, Device& device, const View& power1, const View& power2, double beta1,
                 double beta2) {
  static TemplateKernels kernels("step:powers", {"S"});
  if (!service.has_compiler || !is_float(power1.dtype) || power1.dtype != power2.dtype) return false;
  TemplateCall call(kernels, device, {power1.dtype});
  if (!call.available()) return false;
  call.arg(power1).arg(power2).real(beta1).real(beta2).launch(service.op, 1);
  return true;
}

bool loss_scale_step(const Service& service, Device& device, const View& factor, const View& good, const View& bad,
                     const View& found, const LossScaleNumbers& numbers) {
  if (call_vendor(service, device,
                  {output(factor), output(good), output(bad), input(found), attribute(numbers.growth),
                   attribute(numbers.backoff), attribute(numbers.growth_after), attribute(numbers.backoff_after)})) {
    return true;
  }
  static TemplateKernels kernels("step:loss_scale", {"S"});
  if (!service.has_compiler || !is_float(factor.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {factor.dtype});
  if (!call.available()) return false;
  call.arg(factor).arg(good).arg(bad).arg(found).real(numbers.growth).real(numbers.backoff);
  call.integer(numbers.growth_after).integer(numbers.backoff_after).launch(service.op, 1);
  return scope.done();
}

}  // namespace hp::ops
