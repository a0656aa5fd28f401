"""What torch's own tables do not say, or say wrongly, about its overloads.

Not only of standard operators: also of those that the last tiers serve.
"""

#: Arguments that an overload writes although its schema does not say so.
HIDDEN_WRITES = {
    "native_batch_norm": ("running_mean", "running_var"),
    "native_batch_norm.out": ("running_mean", "running_var"),
    "batch_norm_update_stats": ("running_mean", "running_var"),
    "batch_norm_update_stats.out": ("running_mean", "running_var"),
}

#: Overloads that only devices have, and what the CPU calls the same. Arguments go by name; one that only the CPU's has
#: is None.
CPU_NAMES = {
    "convolution_overrideable": "convolution",
    "convolution_backward_overrideable": "convolution_backward",
}

#: What programs call, and the overloads that serve it on a device: rules may name either.
PARTS = {
    "conv1d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "conv2d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "conv3d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "conv_transpose1d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "conv_transpose2d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "conv_transpose3d": ("convolution_overrideable", "convolution_backward_overrideable"),
    "convolution": ("convolution_overrideable",),
    "convolution_backward": ("convolution_backward_overrideable",),
    "dropout": ("native_dropout", "native_dropout_backward"),
    "batch_norm": ("native_batch_norm", "native_batch_norm_backward"),
    "layer_norm": ("native_layer_norm", "native_layer_norm_backward"),
    "group_norm": ("native_group_norm", "native_group_norm_backward"),
    "cross_entropy_loss": ("_log_softmax", "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward"),
    "linear": ("addmm", "mm"),
    "matmul": ("mm", "bmm", "mv", "dot"),
}

#: Operators that may choose among equal elements: indices that differ are right if they lead to equal ones.
CHOICES = frozenset(
    {
        *("argmax", "argmin", "argsort", "sort", "topk", "kthvalue", "mode", "median", "nanmedian", "max", "min"),
        *("cummax", "cummin", "_cummax_helper", "_cummin_helper"),
    }
)

#: Results that only the operator's own gradient reads, in whatever form the device saves them: their positions.
PRIVATE_RESULTS = {
    "_embedding_bag": (1, 2, 3),
    "_embedding_bag_forward_only": (1, 2, 3),
    "_ctc_loss": (1,),
}

#: Overloads whose decomposition does not keep what they promise here, with the reason.
NOT_DECOMPOSED = {
    "fill_.Scalar": "needs more memory than the operator",
    "fill_.Tensor": "needs more memory than the operator",
    "relu": "takes booleans, which torch refuses",
    "relu_": "takes booleans, which torch refuses",
    "_reshape_alias": "a view, which the adapter makes itself",
    "as_strided": "a view, which the adapter makes itself",
    "copy_": "the adapter's own",
    "_to_copy": "the adapter's own",
    "_scaled_dot_product_flash_attention_for_cpu": "not for devices",
}
