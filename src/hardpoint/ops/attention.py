"""Scaled dot-product attention."""

from dataclasses import replace

from hardpoint.ops import Overload, custom_op
from hardpoint.ops.random import STATE

OPS = (
    replace(
        custom_op(
            f"attention(query, key, value, mask; causal, scale, dropout, {STATE})",
            "out, lse: dropout(softmax(scale query key^T + mask)) value, and the log-sum-exp of each query",
        ),
        # The CPU's function chooses among CPU kernels, which the device does not have.
        aten={
            "_fused_sdp_choice": Overload(device_only=True),
            "_scaled_dot_product_fused_attention_overrideable": Overload(),
        },
    ),
    custom_op(
        f"attention_backward(grad_out, query, key, value, mask, out, lse; causal, scale, dropout, {STATE})",
        "the gradients of attention for query, key and value",
        "_scaled_dot_product_fused_attention_overrideable_backward",
        Overload(host=("philox_seed", "philox_offset")),
    ),
)
