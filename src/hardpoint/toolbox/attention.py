"""Fused attention in plain operators: torch has it for devices only, so that the CPU cannot be asked."""

from __future__ import annotations

import math
from typing import Any

import torch


def _wide(tensor: Any) -> Any:
    """Sums are taken in single precision at least."""
    narrow = tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16)
    return tensor.float() if narrow else tensor


def _scores(query: Any, key: Any, bias: Any, causal: bool, scale: float) -> Any:
    """The scaled products, with what may not be seen at minus infinity."""
    scores = query @ key.transpose(-2, -1) * scale
    if bias is not None:
        scores = scores.masked_fill(~bias, -math.inf) if bias.dtype == torch.bool else scores + bias
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return scores


def _weights(scores: Any) -> Any:
    return torch.softmax(scores, -1).nan_to_num()  # a row that sees nothing is zero


def _for_each_head(query: Any, *tensors: Any) -> list[Any]:
    """Heads of keys and values may be shared by several of the queries."""
    return [_wide(t).repeat_interleave(query.shape[1] // t.shape[1], 1) for t in tensors]


def _scale_of(query: Any, given: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if given is None else given


def forward(query: Any, key: Any, value: Any, bias: Any, dropout: float, causal: bool, *rest: Any) -> list[Any]:
    """What ``_scaled_dot_product_fused_attention_overrideable`` must give without dropout."""
    keys, values = _for_each_head(query, key, value)
    scores = _scores(_wide(query), keys, _wide(bias), causal, _scale_of(query, rest[-1]))
    output = (_weights(scores) @ values).to(query.dtype)
    return [output, torch.logsumexp(scores, -1), None, None, query.shape[2], key.shape[2], None, None, None]


def backward(gradient: Any, query: Any, key: Any, value: Any, bias: Any, *rest: Any) -> list[Any]:
    """What its backward must give without dropout. By hand: autograd does not record what a tool does inside a call."""
    causal, scale = rest[8], _scale_of(query, rest[-1])
    keys, values = _for_each_head(query, key, value)
    wide, given = _wide(query), _wide(gradient)
    weights = _weights(_scores(wide, keys, _wide(bias), causal, scale))
    of_weights = given @ values.transpose(-2, -1)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
    gradients = of_scores @ keys, of_scores.transpose(-2, -1) @ wide, weights.transpose(-2, -1) @ given

    def summed(found: Any, like: Any) -> Any:
        return found.unflatten(1, (like.shape[1], -1)).sum(2).to(like.dtype)

    return [*(summed(g, t) for g, t in zip(gradients, (query, key, value), strict=True)), None]
