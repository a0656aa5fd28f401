"""Scaled dot-product attention."""

from hardpoint.ops import Op, Overload
from hardpoint.ops.random import STATE

OPS = (
    Op(
        "attention",
        "custom",
        ("query", "key", "value", "mask"),
        "out, lse: softmax(scale query key^T + mask), of which dropout leaves a part, times value; and the logarithm "
        "of each query's sum of exponentials",
        {"_fused_sdp_choice": Overload(), "_scaled_dot_product_fused_attention_overrideable": Overload()},
        attributes=("causal", "scale", "dropout", *STATE),
    ),
    Op(
        "attention_backward",
        "custom",
        ("grad_out", "query", "key", "value", "mask", "out", "lse"),
        "the gradients of attention for query, key and value",
        {"_scaled_dot_product_fused_attention_overrideable_backward": Overload(host=("philox_seed", "philox_offset"))},
        attributes=("causal", "scale", "dropout", *STATE),
    ),
)
