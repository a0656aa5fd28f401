#include "ops/loss.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

// Targets in the kernels' form; `valid` is false if torch would raise an error.
struct Targets {
  Targets(const Tensor& logs, const Tensor& targets, at::IntArrayRef steps, at::IntArrayRef labels, int64_t blank)
      : blank(blank) {
    if (logs.dim() != 3 || (logs.scalar_type() != at::kFloat && logs.scalar_type() != at::kDouble)) return;
    const auto batches = static_cast<size_t>(logs.size(1));
    if ((targets.scalar_type() != at::kLong && targets.scalar_type() != at::kInt) || blank < 0 ||
        blank >= logs.size(2) || steps.size() != batches || labels.size() != batches || targets.dim() < 1 ||
        targets.dim() > 2 || (targets.dim() == 2 && targets.size(0) != logs.size(1)))
      return;
    stride = targets.stride(-1);
    int64_t offset = 0;
    std::vector<int64_t> all;
    for (size_t b = 0; b < batches; ++b) {
      if (steps[b] < 0 || steps[b] > logs.size(0) || labels[b] < 0) return;
      if (targets.dim() == 2 && labels[b] > targets.size(1)) return;
      if (targets.dim() == 2) offset = static_cast<int64_t>(b) * targets.stride(0);
      all.insert(all.end(), {steps[b], labels[b], offset});
      most = std::max(most, labels[b]);
      if (targets.dim() == 1) offset += labels[b] * stride;
    }
    if (targets.dim() == 1 && offset != targets.size(0) * stride) return;
    valid = true;
    if (batches == 0) return;
    const Tensor host = at::from_blob(all.data(), {static_cast<int64_t>(batches), 3}, at::kLong);
    lengths = empty({static_cast<int64_t>(batches), 3}, at::kLong, logs.device().index());
    copy_tensor(lengths, host, false);
  }
  hp::ops::CtcTargets kernel_targets(const Tensor& targets) const {
    return {view(targets), view(lengths), stride, blank};
  }

  bool valid = false;
  int64_t stride = 1, most = 0;
  const int64_t blank;
  Tensor lengths;
};

std::optional<std::tuple<Tensor, Tensor>> ctc_loss(const Overload& overload, const Tensor& log_probs,
                                                   const Tensor& targets, at::IntArrayRef input_lengths,
                                                   at::IntArrayRef target_lengths, int64_t blank,
                                                   bool /*zero_infinity*/) {
  const Targets checked(log_probs, targets, input_lengths, target_lengths, blank);
  if (!checked.valid || log_probs.numel() == 0) return {};
  const Tensor logs = log_probs.contiguous();
  const auto index = logs.device().index();
  Tensor losses = empty({logs.size(1)}, logs.scalar_type(), index);
  Tensor alpha = empty({logs.size(1), logs.size(0), 2 * checked.most + 1}, logs.scalar_type(), index);
  if (!hp::ops::ctc_loss(overload, device_holding(logs), view(losses), view(alpha), view(logs),
                         checked.kernel_targets(targets)))
    return {};
  return std::make_tuple(std::move(losses), std::move(alpha));
}

OptionalTensor ctc_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& log_probs,
                                 const Tensor& targets, at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                 const Tensor& neg_log_likelihood, const Tensor& log_alpha, int64_t blank,
                                 bool zero_infinity) {
  const Targets checked(log_probs, targets, input_lengths, target_lengths, blank);
  if (!checked.valid || log_probs.numel() == 0) return {};
  const Tensor logs = log_probs.contiguous(), g = grad.contiguous(), losses = neg_log_likelihood.contiguous(),
               alpha = log_alpha.contiguous();
  for (const Tensor& other : {g, losses, alpha}) {
    if (other.scalar_type() != logs.scalar_type() || other.dim() < 1 || other.size(0) != logs.size(1)) return {};
  }
  if (alpha.dim() != 3 || alpha.size(1) != logs.size(0) || alpha.size(2) != 2 * checked.most + 1) return {};
  Tensor out = at::zeros_like(logs);
  if (!hp::ops::ctc_loss_backward(overload, device_holding(logs), view(out), view(g), view(logs),
                                  checked.kernel_targets(targets), view(losses), view(alpha), zero_infinity))
    return {};
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/ctc.inc"
