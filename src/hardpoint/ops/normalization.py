"""Layer, RMS, batch and group normalization, and their backward."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "layer_norm(input, weight, bias; n, eps)",
        "out, mean, rstd: rows of n elements normalized to mean 0 and variance 1, times weight plus bias",
        "native_layer_norm",
    ),
    custom_op(
        "layer_norm_backward(grad_out, input, mean, rstd, weight; n)",
        "the gradients of layer_norm for input, weight and bias",
        "native_layer_norm_backward",
    ),
    custom_op(
        "rms_norm(input, weight; n, eps)",
        "out, rstd: rows of n elements divided by their root mean square, times weight",
        "_fused_rms_norm",
    ),
    custom_op(
        "rms_norm_backward(grad_out, input, rstd, weight; n)",
        "the gradients of rms_norm for input and weight",
        "_fused_rms_norm_backward",
    ),
    custom_op(
        "batch_norm(input, weight, bias; training, momentum, eps)",
        "out, save_mean, save_invstd, running_mean, running_var: channels normalized to mean 0 and variance 1; "
        "reads or updates the running statistics",
        "native_batch_norm native_batch_norm.out _native_batch_norm_legit _native_batch_norm_legit.out "
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit.no_stats_out _batch_norm_with_update",
    ),
    custom_op(
        "batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd; train, eps)",
        "the gradients of batch_norm for input, weight and bias",
        "native_batch_norm_backward batch_norm_backward",
    ),
    custom_op(
        "group_norm(input, weight, bias; group, eps)",
        "out, mean, rstd: groups of channels normalized to mean 0 and variance 1",
        "native_group_norm",
    ),
    custom_op(
        "group_norm_backward(grad_out, input, mean, rstd, weight; group)",
        "the gradients of group_norm for input, weight and bias",
        "native_group_norm_backward",
    ),
)
