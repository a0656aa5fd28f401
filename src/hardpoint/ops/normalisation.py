"""Layer, RMS, batch and group normalisation, and their backward."""

from hardpoint.ops import Op, Overload


def norm(name: str, inputs: tuple[str, ...], doc: str, attributes: tuple[str, ...], *aten: str) -> Op:
    """An operator of this family."""
    return Op(name, "custom", inputs, doc, dict.fromkeys(aten, Overload()), attributes=attributes)


OPS = (
    norm(
        "layer_norm",
        ("input", "weight", "bias"),
        "out, mean, rstd: rows of n elements brought to mean 0 and variance 1, times weight plus bias",
        ("n", "eps"),
        "native_layer_norm",
    ),
    norm(
        "layer_norm_backward",
        ("grad_out", "input", "mean", "rstd", "weight"),
        "the gradients of layer_norm for input, weight and bias",
        ("n",),
        "native_layer_norm_backward",
    ),
    norm(
        "rms_norm",
        ("input", "weight"),
        "out, rstd: rows of n elements divided by the root of their mean square, times weight",
        ("n", "eps"),
        "_fused_rms_norm",
    ),
    norm(
        "rms_norm_backward",
        ("grad_out", "input", "rstd", "weight"),
        "the gradients of rms_norm for input and weight",
        ("n",),
        "_fused_rms_norm_backward",
    ),
    norm(
        "batch_norm",
        ("input", "weight", "bias"),
        "out, save_mean, save_invstd, running_mean, running_var: channels brought to mean 0 and variance 1; the "
        "running statistics are read or updated",
        ("training", "momentum", "eps"),
        "native_batch_norm",
        "native_batch_norm.out",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit.out",
        "_native_batch_norm_legit.no_stats",
        "_native_batch_norm_legit.no_stats_out",
        "_batch_norm_with_update",
    ),
    norm(
        "batch_norm_backward",
        ("grad_out", "input", "weight", "running_mean", "running_var", "save_mean", "save_invstd"),
        "the gradients of batch_norm for input, weight and bias",
        ("train", "eps"),
        "native_batch_norm_backward",
        "batch_norm_backward",
    ),
    norm(
        "group_norm",
        ("input", "weight", "bias"),
        "out, mean, rstd: groups of channels brought to mean 0 and variance 1",
        ("group", "eps"),
        "native_group_norm",
    ),
    norm(
        "group_norm_backward",
        ("grad_out", "input", "mean", "rstd", "weight"),
        "the gradients of group_norm for input, weight and bias",
        ("group",),
        "native_group_norm_backward",
    ),
)
