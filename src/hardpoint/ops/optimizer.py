"""Steps of optimisers on lists of tensors. No vendor's kernel is asked: a contract for lists is still to come."""

from hardpoint.ops import Op, Overload


def _fused(name: str, doc: str) -> Op:
    return Op(name, "custom", (), doc, {f"_{name}_": Overload(), f"_{name}_.tensor_lr": Overload(host=("lr",))})


OPS = (
    _fused("fused_adam", "a step of Adam"),
    _fused("fused_adamw", "a step of AdamW"),
    _fused("fused_sgd", "a step of SGD"),
    _fused("fused_adagrad", "a step of Adagrad"),
    Op(
        "amp_unscale",
        "custom",
        (),
        "gradients times inv_scale; found_inf = 1 if one is not finite",
        {"_amp_foreach_non_finite_check_and_unscale_": Overload()},
    ),
    Op(
        "amp_update_scale",
        "custom",
        ("self", "growth_tracker", "found_inf"),
        "the next scale of gradients",
        {"_amp_update_scale_": Overload()},
    ),
)
