"""Optimizer steps on lists of tensors. There is no vendor kernel: the contract has no lists yet."""

from hardpoint.ops import Op, Overload, custom_op


def _fused(name: str, doc: str) -> Op:
    return Op(name, "custom", (), doc, {f"_{name}_": Overload(), f"_{name}_.tensor_lr": Overload(host=("lr",))})


OPS = (
    _fused("fused_adam", "a step of Adam"),
    _fused("fused_adamw", "a step of AdamW"),
    _fused("fused_sgd", "a step of SGD"),
    _fused("fused_adagrad", "a step of Adagrad"),
    custom_op(
        "amp_unscale()",
        "gradients times inv_scale; found_inf = 1 if any is not finite",
        "_amp_foreach_non_finite_check_and_unscale_",
    ),
    custom_op("amp_update_scale(self, growth_tracker, found_inf)", "next gradient scale", "_amp_update_scale_"),
)
