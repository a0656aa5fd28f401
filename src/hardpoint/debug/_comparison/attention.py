"""Fused attention composed of plain operators. The CPU has no fused overload."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def _widen(tensor: Tensor) -> Tensor:
    """16-bit floats as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, scale: float) -> Tensor:
    """Scaled scores, with masked ones at minus infinity."""
    scores = query @ key.transpose(-2, -1) * scale
    if bias is not None:
        scores = scores.masked_fill(~bias, -math.inf) if bias.dtype == torch.bool else scores + _widen(bias)
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~visible, -math.inf)
    return scores


def _weights(scores: Tensor) -> Tensor:
    return torch.softmax(scores, -1).nan_to_num()  # fully masked rows become zero


def _expand_heads(query: Tensor, *tensors: Tensor) -> list[Tensor]:
    """Repeat the heads of keys and values that several query heads share."""
    return [_widen(t).repeat_interleave(query.shape[1] // t.shape[1], 1) for t in tensors]


def _scale(query: Tensor, given: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if given is None else given


def forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: float, causal: bool, *rest: Any
) -> list[Any]:
    """``_scaled_dot_product_fused_attention_overrideable`` without dropout."""
    keys, values = _expand_heads(query, key, value)
    scores = _scores(_widen(query), keys, bias, causal, _scale(query, rest[-1]))
    output = (_weights(scores) @ values).to(query.dtype)
    return [output, torch.logsumexp(scores, -1), None, None, query.shape[2], key.shape[2], None, None, None]


def backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any
) -> list[Tensor | None]:
    """Backward of :func:`forward` without dropout. Explicit, because autograd is disabled inside tools."""
    causal, scale = rest[8], _scale(query, rest[-1])
    keys, values = _expand_heads(query, key, value)
    queries, gradients = _widen(query), _widen(gradient)
    weights = _weights(_scores(queries, keys, bias, causal, scale))
    weights_grad = gradients @ values.transpose(-2, -1)
    scores_grad = weights * (weights_grad - (weights_grad * weights).sum(-1, keepdim=True)) * scale
    wide = scores_grad @ keys, scores_grad.transpose(-2, -1) @ queries, weights.transpose(-2, -1) @ gradients

    def sum_heads(gradient: Tensor, like: Tensor) -> Tensor:
        return gradient.unflatten(1, (like.shape[1], -1)).sum(2).to(like.dtype)

    return [*(sum_heads(g, t) for g, t in zip(wide, (query, key, value), strict=True)), None]
