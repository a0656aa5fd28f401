// Autocast with CUDA's operator lists, which torch provides as macros.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// NOLINTBEGIN: torch defines the form of these macros.
#define HP_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define HP_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define HP_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define HP_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

namespace at::autocast {

namespace {
Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "binary_cross_entropy is unsafe under autocast: its input is often the rounded output of a sigmoid. ",
              "Use binary_cross_entropy_with_logits (torch.nn.BCEWithLogitsLoss), or leave autocast for this call.");
}
}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(HP_LOWER)
  AT_FORALL_FP32(HP_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(HP_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(HP_PROMOTE)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace at::autocast
// NOLINTEND
