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
