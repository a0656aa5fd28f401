#include "ops/optimizer.h"

#include <cmath>

#include "core/dispatch/template_call.h"

namespace hp::ops {
namespace {

constexpr int kFewParameters = 4, kMaxParameters = 32;

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

// The tensors of one launch.
struct Slots {
  size_t begin, count;
  void add(TemplateCall& call, const Views& list) const {
    for (size_t k = begin; k < begin + count; ++k) call.pointer(k < list.size() ? list[k].data : nullptr);
  }
};

// Assigns work-groups to the tensors from `begin` on and returns their number.
template <int kSlots>
int64_t assign_groups(const TemplateCall& call, const Views& list, size_t begin, Lists<kSlots>& lists) {
  int64_t groups = 0;
  for (size_t k = 0; k < kSlots; ++k) {
    lists.first[k] = groups;
    lists.size[k] = begin + k < list.size() ? list[begin + k].numel() : 0;
    groups += call.groups_for(lists.size[k]);
  }
  lists.first[kSlots] = groups;
  return groups;
}

// Launches for up to kSlots tensors of one dtype at a time. `pack` adds the arguments before the table, `finish` those
// after it.
template <int kSlots, class Make, class Pack, class Finish>
bool launch_slots(const OpBinding& binding, const Views& params, Make make, Pack pack, Finish finish) {
  if (!make(params[0].dtype, kSlots).available()) return false;
  for (size_t begin = 0; begin < params.size(); begin += kSlots) {
    TemplateCall call = make(params[begin].dtype, kSlots);
    Lists<kSlots> lists;
    const int64_t groups = assign_groups(call, params, begin, lists);
    pack(call, Slots{begin, kSlots});
    finish(call.value(lists));
    call.launch(binding.op, groups);
  }
  return true;
}

template <class Make, class Pack, class Finish>
bool launch_all(const OpBinding& binding, const Device& device, const Views& params, Make make, Pack pack,
                Finish finish) {
  PortableScope scope(binding);
  if (params.empty()) return scope.done();
  if (!is_float(params[0].dtype)) return false;
  // Short lists use the small kernel, which wastes few parameters.
  const bool wide = params.size() > kFewParameters && takes_many_arguments(device);
  return (wide ? launch_slots<kMaxParameters>(binding, params, make, pack, finish)
               : launch_slots<kFewParameters>(binding, params, make, pack, finish)) &&
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

bool fused_adam(const OpBinding& binding, Device& device, const Views& params, const Views& grads,
                const Views& averages, const Views& squares, const Views& max_squares, const Views& steps,
                const StepOptions& step, const AdamOptions& options) {
  static KernelTemplate kernels("optimizer:adam", {"T"}, {"SLOTS", "DECOUPLED", "AMSGRAD", "MAXIMIZE"});
  if (!binding.portable_allowed || !one_dtype(params)) return false;
  const AdamNumbers numbers{
      step.lr,           options.beta1, options.beta2, std::log(options.beta1), std::log(options.beta2),
      step.weight_decay, options.eps};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype}, {slots, options.decoupled, options.amsgrad, step.maximize});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &averages, &squares, &max_squares, &steps}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(binding, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool fused_sgd(const OpBinding& binding, Device& device, const Views& params, const Views& grads, const Views& buffers,
               const StepOptions& step, const SgdOptions& options) {
  static KernelTemplate kernels("optimizer:sgd", {"T"}, {"SLOTS", "MOMENTUM", "NESTEROV", "MAXIMIZE", "FIRST"});
  if (!binding.portable_allowed || !one_dtype(params)) return false;
  const SgdNumbers numbers{step.lr, step.weight_decay, options.momentum, options.dampening};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype},
                        {slots, !buffers.empty(), options.nesterov, step.maximize, options.first_step});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &buffers}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(binding, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool fused_adagrad(const OpBinding& binding, Device& device, const Views& params, const Views& grads, const Views& sums,
                   const Views& steps, const StepOptions& step, double lr_decay, double eps) {
  static KernelTemplate kernels("optimizer:adagrad", {"T"}, {"SLOTS", "MAXIMIZE"});
  if (!binding.portable_allowed || !one_dtype(params)) return false;
  const AdagradNumbers numbers{step.lr, lr_decay, step.weight_decay, eps};
  const auto make = [&](DType dtype, int slots) {
    return TemplateCall(kernels, device, {dtype}, {slots, step.maximize});
  };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    for (const Views* list : {&params, &grads, &sums, &steps}) slots.add(call, *list);
    add_scalars(call, step);
  };
  return launch_all(binding, device, params, make, pack, [&](TemplateCall& call) { call.value(numbers); });
}

bool amp_unscale(const OpBinding& binding, Device& device, const Views& grads, const View& found_inf,
                 const View& inv_scale) {
  static KernelTemplate kernels("optimizer:unscale", {"T"}, {"SLOTS"});
  if (!binding.portable_allowed || !one_dtype(grads)) return false;
  const auto make = [&](DType dtype, int slots) { return TemplateCall(kernels, device, {dtype}, {slots}); };
  const auto pack = [&](TemplateCall& call, const Slots& slots) {
    slots.add(call, grads);
    call.arg(found_inf).arg(inv_scale);
  };
  return launch_all(binding, device, grads, make, pack, [](TemplateCall&) {});
}

bool amp_update_scale(const OpBinding& binding, Device& device, const View& scale, const View& tracker,
                      const View& found_inf, double growth, double backoff, int64_t interval) {
  if (call_vendor(binding, device,
                  {output(scale), output(tracker), input(found_inf), attribute(growth), attribute(backoff),
                   attribute(interval)})) {
    return true;
  }
  static KernelTemplate kernels("optimizer:update_scale", {});
  if (!binding.portable_allowed) return false;
  TemplateCall call(kernels, device, {});
  return call.arg(scale).arg(tracker).arg(found_inf).real(growth).real(backoff).integer(interval).run(binding, 1);
}

}  // namespace hp::ops
