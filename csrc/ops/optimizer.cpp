#include "optimizer.h"

#include <cmath>

#include "../core/template_call.h"

namespace hp::ops {
namespace {

constexpr int kFewSlots = 4, kMostSlots = 32;

template <int kSlots>
struct Lists {
  int64_t first[kSlots + 1], size[kSlots];
};

struct AdamNumbers {
  double lr, beta1, beta2, log_beta1, log_beta2, weight_decay, eps;
};
struct SgdNumbers {
  double lr, weight_decay, momentum, dampening;
};
struct AdagradNumbers {
  double lr, lr_decay, weight_decay, eps;
};

// Of the tensors from `begin` on, as many as a launch takes.
struct Slots {
  size_t begin, count;
  void add(TemplateCall& call, const Views& list) const {
    for (size_t k = begin; k < begin + count; ++k) call.pointer(k < list.size() ? list[k].data : nullptr);
  }
};

// Groups of the tensors from `begin` on.
template <int kSlots>
int64_t share_out(const TemplateCall& call, const Views& list, size_t begin, Lists<kSlots>& lists) {
  int64_t groups = 0;
  for (size_t k = 0; k < kSlots; ++k) {
    lists.first[k] = groups;
    lists.size[k] = begin + k < list.size() ? list[begin + k].numel() : 0;
    groups += call.groups_for(lists.size[k]);
  }
  lists.first[kSlots] = groups;
  return groups;
}

// A launch takes kSlots positions, all of one dtype. `pack` adds all arguments but the table and what `finish` adds
// after it.
template <int kSlots, class Make, class Pack, class Finish>
bool launch_slots(const Service& service, const Views& params, Make make, Pack pack, Finish finish) {
  if (!make(params[0].dtype, kSlots).available()) return false;
  for (size_t begin = 0; begin < params.size(); begin += kSlots) {
    TemplateCall call = make(params[begin].dtype, kSlots);
    Lists<kSlots> lists;
    const int64_t groups = share_out(call, params, begin, lists);
    pack(call, Slots{begin, kSlots});
    finish(call.value(lists));
    call.launch(service.op, groups);
  }
  return true;
}

template <class Make, class Pack, class Finish>
bool launch_all(const Service& service, const Device& device, const Views& params, Make make, Pack pack,
                Finish finish) {
  PortableScope scope(service);
  if (params.empty()) return scope.done();
  if (!is_float(params[0].dtype)) return false;
  // Short lists leave few parameters empty.
  const bool wide = params.size() > kFewSlots && takes_many_arguments(device);
  return (wide ? launch_slots<kMostSlots>(service, params, make, pack, finish)
               : launch_slots<kFewSlots>(service, params, make, pack, finish)) &&
         scope.done();
}

bool one_dtype(const Views& params) {
  for (const View& param : params) {
    if (param.dtype != params[0].dtype) return false;
  }
  return true;
}

void add_scalars(TemplateCall& call, const StepOptions& step) {
  call.arg(step.lr_tensor).arg(step.grad_scale).arg(step.found_inf);
}

}  // namespace

bool fused_adam(const Service& service, Device& device, const Views& params, const Views& grads, const Views& averages,
                const Views& squares, const Views& highest, const Views& steps, const StepOptions& step,
                const AdamOptions& options) {
  static TemplateKernels kernels("optimizer:adam", {"T"}, {"SLOTS", "DECOUPLED", "AMSGRAD", "MAXIMIZE"});
  if (!service.has_compiler || !one_dtype(params)) return false;
  const AdamNumbers numbers{
      step.lr,           options.beta1, options.beta2, std::log(options.beta1), std::log(options.beta2),
      step.weight_decay, options.eps};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype}, {slots, options.decoupled, options.amsgrad, step.maximize});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &averages, &squares, &highest, &steps}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(service, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool fused_sgd(const Service& service, Device& device, const Views& params, const Views& grads, const Views& buffers,
               const StepOptions& step, const SgdOptions& options) {
  static TemplateKernels kernels("optimizer:sgd", {"T"}, {"SLOTS", "MOMENTUM", "NESTEROV", "MAXIMIZE", "FIRST"});
  if (!service.has_compiler || !one_dtype(params)) return false;
  const SgdNumbers numbers{step.lr, step.weight_decay, options.momentum, options.dampening};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype},
                        {slots, !buffers.empty(), options.nesterov, step.maximize, options.first_step});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &buffers}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(service, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool fused_adagrad(const Service& service, Device& device, const Views& params, const Views& grads, const Views& sums,
                   const Views& steps, const StepOptions& step, double lr_decay, double eps) {
  static TemplateKernels kernels("optimizer:adagrad", {"T"}, {"SLOTS", "MAXIMIZE"});
  if (!service.has_compiler || !one_dtype(params)) return false;
  const AdagradNumbers numbers{step.lr, lr_decay, step.weight_decay, eps};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype}, {slots, step.maximize});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &sums, &steps}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(service, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool amp_unscale(const Service& service, Device& device, const Views& grads, const View& found_inf,
                 const View& inv_scale) {
  static TemplateKernels kernels("optimizer:unscale", {"T"}, {"SLOTS"});
  if (!service.has_compiler || !one_dtype(grads)) return false;
  const auto make = [&](DType dtype, int slots) { return TemplateCall(kernels, device, {dtype}, {slots}); };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    slots.add(call, grads);
    call.arg(found_inf).arg(inv_scale);
  };
  return launch_all(service, device, grads, make, pack, [](TemplateCall&) {});
}

bool amp_update_scale(const Service& service, Device& device, const View& scale, const View& tracker,
                      const View& found_inf, double growth, double backoff, int64_t interval) {
  if (call_vendor(service, device,
                  {output(scale), output(tracker), input(found_inf), attribute(growth), attribute(backoff),
                   attribute(interval)})) {
    return true;
  }
  static TemplateKernels kernels("optimizer:update_scale", {});
  if (!service.has_compiler) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {});
  if (!call.available()) return false;
  call.arg(scale).arg(tracker).arg(found_inf).real(growth).real(backoff).integer(interval).launch(service.op, 1);
  return scope.done();
}

}  // namespace hp::ops
