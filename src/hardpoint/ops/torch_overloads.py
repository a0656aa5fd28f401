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

#: Attention that torch has for devices only -> the function of hardpoint.toolbox.attention that computes it.
ATTENTION = {
    "_scaled_dot_product_fused_attention_overrideable": "forward",
    "_scaled_dot_product_fused_attention_overrideable_backward": "backward",
}

#: What these find in the memory that they write is no input.
OVERWRITES = frozenset({"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_"})

#: Pointwise overloads that torch brings to others before a device sees them, but not in graphs -> the standard
#: operator, the arguments that are its inputs, and those that are its attributes.
IN_GRAPHS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "add.Scalar": ("add", ("self", "other"), ("alpha",)),
    "sub.Scalar": ("sub", ("self", "other"), ("alpha",)),
    "rsub.Scalar": ("sub", ("other", "self"), ("alpha",)),
    "rsub.Tensor": ("sub", ("other", "self"), ("alpha",)),
    "mul.Scalar": ("mul", ("self", "other"), ()),
    "div.Scalar": ("div", ("self", "other"), ()),
    "masked_fill.Scalar": ("where", ("mask", "value", "self"), ()),
    "masked_fill.Tensor": ("where", ("mask", "value", "self"), ()),
}

#: The same elements in another dtype or other memory.
CONVERSIONS = ("_to_copy", "clone")

#: Results that may share memory with an argument although the schema does not say so.
HIDDEN_VIEWS = ("_unsafe_view", "reshape", "contiguous")

#: Forms that graphs have of operators which write buffers -> the operator, the positions of the buffers among its
#: arguments, which are those of their new values among the form's results, and that of the argument that says whether
#: gradients do without the old values.
UPDATES = {"_native_batch_norm_legit_functional": ("native_batch_norm", (3, 4), 5)}

#: Overloads that torch's tracing takes apart whatever the device has for them. In graphs of ours they stay whole: their
#: parts need more launches, and more memory for gradients.
KEPT_WHOLE = (
    *(
        f"{name}{dims}d{form}"
        for name in ("upsample_nearest", "_upsample_nearest_exact")
        for dims in (1, 2, 3)
        for form in ("", ".vec")
    ),
    *("upsample_linear1d.vec", "upsample_trilinear3d.vec"),
    *(f"upsample_{kind}2d{form}" for kind in ("bilinear", "bicubic") for form in ("", ".vec")),
    *(f"_upsample_{kind}2d_aa.vec" for kind in ("bilinear", "bicubic")),
)
