"""Decompositions of the operators that ``torch.nn``'s attention and encoder layers call in inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """Attention with its projections: the output, and the attention weights or None."""
    import torch
    from torch.nn import functional

    inputs = (query, key, value)
    if (
        query.dim() != 3
        or query.numel() == 0
        or query.shape[2] != embed_dim
        or embed_dim % num_head != 0
        or any(x.shape != query.shape for x in inputs)
        or qkv_weight.shape != (3 * embed_dim, embed_dim)
        or qkv_bias.shape != (3 * embed_dim,)
    ):
        raise RuntimeError("invalid arguments")
    if key is query and value is query:
        projected = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        weights = zip(inputs, qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        projected = tuple(functional.linear(*each) for each in weights)
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in projected)
    probabilities: Any = None
    if mask is None and not need_weights:
        context = functional.scaled_dot_product_attention(q, k, v)
    else:
        scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
        if mask is None:
            probabilities = scores.softmax(-1)
        else:
            probabilities = torch._masked_softmax(scores, mask.to(torch.bool), 3, mask_type)
        context = probabilities @ v
    out = functional.linear(context.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, probabilities.mean(1) if average_attn_weights else probabilities


def encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """``torch.nn.TransformerEncoderLayer``."""
    from torch.nn import functional

    def self_attention(x: Any) -> Any:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def feed_forward(x: Any) -> Any:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    def norm_1(x: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + self_attention(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + self_attention(src))
    return norm_2(x + feed_forward(x))


TRANSFORMERS: dict[str, Callable[..., Any]] = {
    "aten::_native_multi_head_attention": attention,
    "aten::_transformer_encoder_layer_fwd": encoder_layer,
}
