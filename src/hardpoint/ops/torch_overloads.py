"""Facts about torch's overloads that its own tables lack or get wrong, also for operators served by the last tiers."""

#: Arguments that an overload writes without declaring it in its schema.
HIDDEN_WRITES = {
    "native_batch_norm": ("running_mean", "running_var"),
    "native_batch_norm.out": ("running_mean", "running_var"),
    "batch_norm_update_stats": ("running_mean", "running_var"),
    "batch_norm_update_stats.out": ("running_mean", "running_var"),
}

#: Device-only overloads -> the equivalent CPU overload. Arguments are matched by name; missing ones are None.
CPU_NAMES = {
    "convolution_overrideable": "convolution",
    "convolution_backward_overrideable": "convolution_backward",
}

#: Overloads whose CPU kernels lack integers, which other devices have: they run in float64.
FLOAT64_ON_CPU = ("histc", "histc.out")

#: Function in programs -> overloads that serve it on a device; rules accept either name.
DEVICE_OVERLOADS = {
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

#: Operators that may return any of several equal elements: different indices are correct if they select equal elements.
TIE_BREAKING = frozenset(
    {
        *("argmax", "argmin", "argsort", "sort", "topk", "kthvalue", "mode", "median", "nanmedian", "max", "min"),
        *("cummax", "cummin", "_cummax_helper", "_cummin_helper"),
    }
)

#: Positions of results that only the operator's gradient reads; their format is private to the device.
PRIVATE_RESULTS = {
    "_embedding_bag": (1, 2, 3),
    "_embedding_bag_forward_only": (1, 2, 3),
    "_ctc_loss": (1,),
}

#: Overloads whose decomposition must not be used, with the reason.
NOT_DECOMPOSED = {
    "fill_.Scalar": "needs more memory than the operator",
    "fill_.Tensor": "needs more memory than the operator",
    "relu": "accepts bool, which torch rejects",
    "relu_": "accepts bool, which torch rejects",
    "_reshape_alias": "a view, implemented by the adapter",
    "as_strided": "a view, implemented by the adapter",
    "copy_": "implemented by the adapter",
    "_to_copy": "implemented by the adapter",
    "_scaled_dot_product_flash_attention_for_cpu": "CPU only",
}

#: Device-only attention overloads -> forward or backward.
ATTENTION = {
    "_scaled_dot_product_fused_attention_overrideable": "forward",
    "_scaled_dot_product_fused_attention_overrideable_backward": "backward",
}

#: Operators that overwrite their output without reading it.
OVERWRITES = frozenset({"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_"})

#: Pointwise overloads that reach the device only in graphs, because torch redirects them in eager mode -> standard
#: operator, arguments that are its inputs, and arguments that are its attributes.
POINTWISE_IN_GRAPHS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "add.Scalar": ("add", ("self", "other"), ("alpha",)),
    "sub.Scalar": ("sub", ("self", "other"), ("alpha",)),
    "rsub.Scalar": ("sub", ("other", "self"), ("alpha",)),
    "rsub.Tensor": ("sub", ("other", "self"), ("alpha",)),
    "mul.Scalar": ("mul", ("self", "other"), ()),
    "div.Scalar": ("div", ("self", "other"), ()),
    "masked_fill.Scalar": ("where", ("mask", "value", "self"), ()),
    "masked_fill.Tensor": ("where", ("mask", "value", "self"), ()),
}

#: Copies, possibly to another dtype.
CONVERSIONS = ("_to_copy", "clone")

#: Overloads that split a tensor into chunks, with the dimension as argument 2.
SPLITS = ("split.Tensor", "split_with_sizes")

#: Operators whose result may alias an argument without declaring it in the schema.
HIDDEN_VIEWS = ("_unsafe_view", "reshape", "contiguous")

#: Functionalized operators that return updated buffers -> in-place operator; positions of the buffers, both among its
#: arguments and among the functionalized results; position of the argument that, if true, means that the backward pass
#: does not read the old buffers.
FUNCTIONAL_UPDATES = {"_native_batch_norm_legit_functional": ("native_batch_norm", (3, 4), 5)}

#: Overloads that torch's tracing always decomposes. Graph mode keeps them: decomposed they need more launches and more
#: memory for gradients.
NOT_DECOMPOSED_IN_GRAPHS = (
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
