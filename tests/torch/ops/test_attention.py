"""Scaled dot-product attention against a float64 reference on the CPU, with gradients, without O(S^2) memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import FLOATS, IN_DOUBLE, compare, entries, on_cpu
from torch.nn.attention import SDPBackend, sdpa_kernel

import hardpoint

FUSED = "aten::_scaled_dot_product_fused_attention_overrideable"


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries("nn.functional.scaled_dot_product_attention"))
def test_samples(entry: Any) -> None:
    # Samples are up to 9 and scores in the hundreds, so float32 scores are off by 1e-5, as is what follows from them.
    # For 16-bit floats, the gradient is computed from the rounded result, as in every such attention.
    compare(entry, "attention", limit=40, skip="dropout_p", low=5e-2, single=1e-4, **IN_DOUBLE)


def check(q: Any, k: Any, v: Any, mask: Any = None, fused: bool = True, **options: Any) -> None:
    dtype = q.dtype
    close = {torch.float64: (1e-7, 1e-7), torch.float32: (1e-4, 2e-5)}.get(dtype, (2e-2, 2e-2))
    right = [t.detach().double().requires_grad_() for t in (q, k, v)]
    exact = None if mask is None else mask.double() if mask.is_floating_point() else mask
    with sdpa_kernel(SDPBackend.MATH):
        expected = F.scaled_dot_product_attention(*right, exact, **options)
    ours = [t.detach().to("sim").requires_grad_() for t in (q, k, v)]
    hardpoint.reset_counters()
    actual = F.scaled_dot_product_attention(*ours, None if mask is None else mask.to("sim"), **options)
    assert (FUSED in hardpoint.counters()) is fused
    assert actual.dtype is dtype
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual.cpu(), expected.to(dtype), rtol=close[0], atol=close[1])
    seed = torch.randn(expected.shape, dtype=dtype)
    a = torch.autograd.grad(actual, ours, seed.to("sim"))
    b = torch.autograd.grad(expected, right, seed.double())
    for mine, wanted in zip(a, b, strict=True):
        torch.testing.assert_close(mine.cpu(), wanted.to(dtype), rtol=4 * close[0], atol=4 * close[1])
    assert not on_cpu("attention")


def inputs(dtype: torch.dtype, batch: int, heads: int, key_heads: int, queries: int, keys: int, dim: int, values: int):
    return (
        torch.randn(batch, heads, queries, dim).to(dtype),
        torch.randn(batch, key_heads, keys, dim).to(dtype),
        torch.randn(batch, key_heads, keys, values).to(dtype),
    )


SHAPES = [(1, 1, 1, 1, 1, 1, 1), (2, 3, 3, 5, 7, 8, 8), (1, 2, 2, 200, 130, 64, 64), (2, 4, 2, 70, 65, 33, 20)]
WIDE = [(1, 2, 1, 17, 300, 256, 16), (1, 1, 1, 64, 64, 80, 256)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, *WIDE], ids=str)
def test_shapes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    q, k, v = inputs(dtype, *shape)
    for causal in (False, True):
        check(q, k, v, is_causal=causal, enable_gqa=shape[1] != shape[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_masks(dtype: torch.dtype) -> None:
    q, k, v = inputs(dtype, 2, 4, 4, 50, 70, 16, 16)
    masks = [
        torch.randn(50, 70).to(dtype),
        torch.randn(2, 4, 50, 70).to(dtype),
        torch.randn(2, 1, 1, 70).to(dtype),
        torch.randn(4, 50, 1).to(dtype).expand(4, 50, 70),
        torch.randn(70, 50).to(dtype).t(),
        torch.rand(50, 70) < 0.6,
        torch.rand(2, 1, 50, 70) < 0.6,
    ]
    masks[5][7] = False  # a query that attends to nothing
    for mask in masks:
        check(q, k, v, mask, scale=0.4)


def test_layouts() -> None:
    packed = torch.randn(2, 30, 3, 4, 16)
    q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
    check(q, k, v, is_causal=True)
    check(q.transpose(2, 3).contiguous().transpose(2, 3), k, v)
    check(q[:, :, ::2], k[:, :, 1:], v[:, :, 1:])
    check(q[:, :1].expand(2, 4, 30, 16), k, v)


def test_unsupported_calls_use_other_paths() -> None:
    q, k, v = inputs(torch.float32, 1, 2, 2, 9, 9, 8, 8)
    check(q[0], k[0], v[0], fused=False)
    wide = inputs(torch.float32, 1, 1, 1, 5, 5, 300, 8)
    check(*wide, fused=False)
    mask = torch.randn(9, 9, device="sim", requires_grad=True)
    F.scaled_dot_product_attention(q.to("sim"), k.to("sim"), v.to("sim"), mask).sum().backward()
    assert mask.grad is not None


def test_a_mask_beside_is_causal_is_refused() -> None:
    q, k, v = (x.sim() for x in inputs(torch.float32, 1, 2, 2, 9, 9, 8, 8))
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, k, v, torch.ones(9, 9, dtype=torch.bool, device="sim"), is_causal=True)


def test_choice_of_the_implementation() -> None:
    q, k, v = inputs(torch.float32, 1, 2, 2, 9, 9, 8, 8)
    check(q, k, v)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.OVERRIDEABLE):
        with sdpa_kernel(backend):
            check(q, k, v)
    with sdpa_kernel(SDPBackend.MATH):
        check(q, k, v, fused=False)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        check(q, k, v, fused=False)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        check(q, k, v)
        check(q[0], k[0], v[0], fused=False)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q[0].sim(), k[0].sim(), v[0].sim())


def test_dropout_of_matrix_products() -> None:
    """MATH draws the same numbers as dropout does."""
    q, k, v = (x.sim() for x in inputs(torch.float64, 2, 3, 3, 5, 7, 8, 8))
    torch.manual_seed(3)
    with sdpa_kernel(SDPBackend.MATH):
        actual = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(3)
    expected = F.dropout((q @ k.mT / 8**0.5).softmax(-1), 0.5) @ v
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 2, 2, 200, 130, 64, 64), (2, 4, 2, 70, 65, 33, 20)], ids=str)
def test_dropout(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """With an identity matrix as the values, the dropout mask is visible in the result."""
    q, k, v = inputs(dtype, *shape)
    share, keys, p = shape[1] // shape[2], shape[4], 0.3
    options: dict[str, Any] = {"dropout_p": p, "is_causal": True, "enable_gqa": True}
    identity = torch.eye(keys, dtype=dtype).expand(shape[0], shape[2], keys, keys)
    torch.manual_seed(3)
    kept = F.scaled_dot_product_attention(q.to("sim"), k.to("sim"), identity.to("sim"), **options).cpu() != 0
    right = [t.detach().double().requires_grad_() for t in (q, k, v)]
    scores = right[0] @ right[1].repeat_interleave(share, 1).mT / shape[5] ** 0.5
    seen = torch.ones(shape[3], keys, dtype=torch.bool).tril()
    assert abs(1 - p - kept[..., seen].double().mean().item()) < 4 * (p * (1 - p) / kept[..., seen].numel()) ** 0.5
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1) * kept / (1 - p)
    expected = weights @ right[2].repeat_interleave(share, 1)
    ours = [t.detach().to("sim").requires_grad_() for t in (q, k, v)]
    torch.manual_seed(3)
    hardpoint.reset_counters()
    actual = F.scaled_dot_product_attention(*ours, **options)
    assert FUSED in hardpoint.counters()
    close = {torch.float64: 1e-5, torch.float32: 1e-4}.get(dtype, 4e-2)  # probabilities are rounded to 16 bits
    torch.testing.assert_close(actual.cpu(), expected.to(dtype), rtol=close, atol=close)
    seed = torch.randn(expected.shape, dtype=dtype)
    a = torch.autograd.grad(actual, ours, seed.to("sim"))
    b = torch.autograd.grad(expected, right, seed.double())
    for mine, wanted in zip(a, b, strict=True):
        torch.testing.assert_close(mine.cpu(), wanted.to(dtype), rtol=4 * close, atol=4 * close)
    assert not torch.equal(actual, F.scaled_dot_product_attention(*ours, **options))
    assert not F.scaled_dot_product_attention(*ours, dropout_p=1.0, enable_gqa=True).any()


def test_memory_stays_small() -> None:
    length = 4096
    q, k, v = (torch.randn(1, 1, length, 16, device="sim") for _ in range(3))
    F.scaled_dot_product_attention(q, k, v)
    torch.sim.synchronize()
    before = torch.sim.memory_allocated()
    torch.sim.reset_peak_memory_stats()
    F.scaled_dot_product_attention(q, k, v)
    torch.sim.synchronize()
    assert torch.sim.max_memory_allocated() - before < length * length


def test_modules() -> None:
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    twin = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    twin.load_state_dict(layer.state_dict())
    twin.to("sim")
    x = torch.randn(3, 20, 32)
    right, _ = layer(x, x, x, need_weights=False)
    hardpoint.reset_counters()
    ours, _ = twin(*[x.to("sim")] * 3, need_weights=False)
    torch.testing.assert_close(ours.cpu(), right, rtol=1e-4, atol=1e-5)
    assert FUSED in hardpoint.counters()
    right.sum().backward()
    ours.sum().backward()
    for a, b in zip(twin.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)


def test_an_undefined_gradient_gives_undefined_gradients() -> None:
    inputs = [torch.ones(1, 2, 4, 8, device="sim", requires_grad=True) for _ in range(3)]
    out = torch._C._functions.UndefinedGrad()(torch.nn.functional.scaled_dot_product_attention(*inputs))
    assert torch.autograd.grad(out, inputs, torch.ones_like(out), allow_unused=True) == (None, None, None)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # on the CPU
@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, None), (None, 0, 0)], ids=str)
def test_vmap(dims: tuple[int | None, ...]) -> None:
    tensors = [torch.randn(*([3] if dim == 0 else []), 2, 4, 5, 8) for dim in dims]
    weigh = torch.func.grad(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).sin().sum())
    for function in (F.scaled_dot_product_attention, weigh):
        mapped = torch.func.vmap(function, dims)
        torch.testing.assert_close(mapped(*(t.sim() for t in tensors)).cpu(), mapped(*tensors), rtol=1e-4, atol=1e-5)
