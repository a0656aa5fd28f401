#include "ops/optimizer.h"

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::Views;

// Collects views of the lists, without the positions of empty tensors. False if the kernels do not support the dtypes,
// or the tensors of one position differ in layout.
bool gather_lists(at::TensorList params, std::initializer_list<std::pair<at::TensorList, Views*>> lists) {
  for (size_t k = 0; k < params.size(); ++k) {
    const Tensor& param = params[k];
    if (!param.is_non_overlapping_and_dense()) return false;
    for (const auto& [tensors, views] : lists) {
      if (tensors.empty()) continue;
      const Tensor& tensor = tensors[k];
      if (tensor.scalar_type() != param.scalar_type() || tensor.sizes() != param.sizes() ||
          !same_strides(tensor, param) || tensor.device() != param.device()) {
        return false;
      }
      if (param.numel() != 0) views->push_back(view(tensor));
    }
  }
  return true;
}

bool gather_steps(at::TensorList params, at::TensorList steps, Views& views) {
  if (steps.size() != params.size()) return false;
  for (size_t k = 0; k < steps.size(); ++k) {
    if (steps[k].scalar_type() != at::kFloat || steps[k].numel() != 1 || steps[k].device() != params[0].device()) {
      return false;
    }
    if (params[k].numel() != 0) views.push_back(view(steps[k]));
  }
  return true;
}

bool one_float(const OptionalTensor& tensor) {
  return !tensor || !tensor->defined() || (tensor->scalar_type() == at::kFloat && tensor->numel() == 1);
}

std::optional<hp::ops::StepOptions> options_of(double lr, double weight_decay, bool maximize,
                                               const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (!one_float(grad_scale) || !one_float(found_inf)) return std::nullopt;
  return hp::ops::StepOptions{lr, {}, view(grad_scale), view(found_inf), maximize, weight_decay};
}

// A learning rate in device memory is read by the kernel.
void set_rate(hp::ops::StepOptions& options, const Tensor& lr) {
  if (on_device(lr) && lr.scalar_type() == at::kFloat) {
    options.lr_tensor = view(lr);
  } else {
    options.lr = lr.item<double>();
  }
}
void set_rate(hp::ops::StepOptions& options, double lr) { options.lr = lr; }

template <class Rate>
bool adam(const Overload& overload, bool decoupled, at::TensorList params, at::TensorList grads,
          at::TensorList exp_avgs, at::TensorList exp_avg_sqs, at::TensorList max_exp_avg_sqs,
          at::TensorList state_steps, const Rate& lr, double beta1, double beta2, double weight_decay, double eps,
          bool amsgrad, bool maximize, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (params.empty()) return true;
  auto options = options_of(0, weight_decay, maximize, grad_scale, found_inf);
  Views p, g, m, v, x, n;
  if (!options || grads.size() != params.size() || exp_avgs.size() != params.size() ||
      exp_avg_sqs.size() != params.size() || (amsgrad && max_exp_avg_sqs.size() != params.size()) ||
      !gather_lists(params, {{params, &p},
                             {grads, &g},
                             {exp_avgs, &m},
                             {exp_avg_sqs, &v},
                             {amsgrad ? max_exp_avg_sqs : at::TensorList(), &x}}) ||
      !gather_steps(params, state_steps, n)) {
    return false;
  }
  set_rate(*options, lr);
  return hp::ops::fused_adam(overload, device_holding(params[0]), p, g, m, v, x, n, *options,
                             {beta1, beta2, eps, decoupled, amsgrad});
}

bool fused_adam(const Overload& overload, const auto&... args) { return adam(overload, false, args...); }
bool fused_adamw(const Overload& overload, const auto&... args) { return adam(overload, true, args...); }

template <class Rate>
bool fused_sgd(const Overload& overload, at::TensorList self, at::TensorList grads, at::TensorList buffers,
               double weight_decay, double momentum, const Rate& lr, double dampening, bool nesterov, bool maximize,
               bool is_first_step, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return true;
  auto options = options_of(0, weight_decay, maximize, grad_scale, found_inf);
  Views p, g, m;
  if (!options || grads.size() != self.size() || (momentum != 0 && buffers.size() != self.size()) ||
      !gather_lists(self, {{self, &p}, {grads, &g}, {momentum != 0 ? buffers : at::TensorList(), &m}})) {
    return false;
  }
  set_rate(*options, lr);
  return hp::ops::fused_sgd(overload, device_holding(self[0]), p, g, m, *options,
                            {momentum, dampening, nesterov, is_first_step});
}

template <class Rate>
bool fused_adagrad(const Overload& overload, at::TensorList self, at::TensorList grads, at::TensorList state_sums,
                   at::TensorList state_steps, const Rate& lr, double lr_decay, double weight_decay, double eps,
                   bool maximize, const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return true;
  auto options = options_of(0, weight_decay, maximize, grad_scale, found_inf);
  Views p, g, m, n;
  if (!options || grads.size() != self.size() || state_sums.size() != self.size() ||
      !gather_lists(self, {{self, &p}, {grads, &g}, {state_sums, &m}}) || !gather_steps(self, state_steps, n)) {
    return false;
  }
  set_rate(*options, lr);
  return hp::ops::fused_adagrad(overload, device_holding(self[0]), p, g, m, n, *options, lr_decay, eps);
}

bool amp_unscale(const Overload& overload, at::TensorList self, const Tensor& found_inf, const Tensor& inv_scale) {
  if (self.empty()) return true;
  if (!one_float(found_inf) || !one_float(inv_scale)) return false;
  Views grads;
  return gather_lists(self, {{self, &grads}}) &&
         hp::ops::amp_unscale(overload, device_holding(self[0]), grads, view(found_inf), view(inv_scale));
}

bool amp_update_scale(const Overload& overload, const Tensor& self, const Tensor& growth_tracker,
                      const Tensor& found_inf, double growth, double backoff, int64_t interval) {
  if (!one_float(self) || !one_float(found_inf) || growth_tracker.scalar_type() != at::kInt ||
      growth_tracker.numel() != 1) {
    return false;  // the CPU tier raises torch's error
  }
  return hp::ops::amp_update_scale(overload, device_holding(self), view(self), view(growth_tracker), view(found_inf),
                                   growth, backoff, interval);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/optimizer.inc"
