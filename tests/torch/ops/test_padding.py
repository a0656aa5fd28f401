"""Reflection, replication and circular padding against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu
from torch.nn.functional import pad

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.uint8, torch.complex64, torch.complex128),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", entries("nn.functional.pad.reflect", "nn.functional.pad.replicate", "nn.functional.pad.replicate_negative")
)
def test_against_the_cpu(entry: Any) -> None:
    compare(entry, "padding", dtypes=DTYPES)


CASES = {
    (2, 3, 9): [(0, 0), (3, 2), (8, 8), (-2, 4), (5, -3)],
    (3, 9): [(4, 1)],
    (2, 3, 7, 9): [(3, 2, 1, 6), (-1, 2, 3, -2), (0, 8, 0, 0)],
    (2, 3, 4, 5, 6): [(1, 2, 3, 4, 2, 1), (-1, 5, 0, -1, 3, 3)],
}


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_amounts_and_layouts(mode: str, shape: tuple[int, ...], counted: Any) -> None:
    for padding in CASES[shape]:
        base = torch.randn(shape, dtype=torch.float64)
        for view in (lambda t: t, lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2)):
            given, ours = view(base.clone()).requires_grad_(), view(base.to("sim")).requires_grad_()
            expected, actual = pad(given, padding, mode), pad(ours, padding, mode)
            assert torch.equal(actual.cpu(), expected)
            seed = torch.randn_like(expected)
            (right,) = torch.autograd.grad(expected, given, seed)
            (grad,) = torch.autograd.grad(actual, ours, seed.to("sim"))
            torch.testing.assert_close(grad.cpu(), right)
    assert not on_cpu("padding")


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_wide_replication_and_special_values(mode: str, counted: Any) -> None:
    x = torch.tensor([[[1.0, float("nan"), float("inf"), -2.0]]])
    assert torch.equal(pad(x.to("sim"), (3, 3), mode).cpu().nan_to_num(7), pad(x, (3, 3), mode).nan_to_num(7))
    wide = torch.randn(2, 1, 3, 2, requires_grad=True)
    twin = wide.detach().to("sim").requires_grad_()
    amounts = (1, 1, 2, 2) if mode == "reflect" else (40, 70, 9, 100)
    pad(wide, amounts, mode).sum().backward()
    pad(twin, amounts, mode).sum().backward()
    torch.testing.assert_close(twin.grad.cpu(), wide.grad)
    assert not on_cpu("padding")


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_empty_batch(mode: str, rank: int, counted: Any) -> None:
    x = torch.randn(0, 3, *[4] * rank)
    given, ours = x.clone().requires_grad_(), x.to("sim").requires_grad_()
    expected, actual = pad(given, (2, 1) * rank, mode), pad(ours, (2, 1) * rank, mode)
    assert actual.shape == expected.shape
    actual.sum().backward()
    assert ours.grad is not None
    assert ours.grad.shape == x.shape
    assert not on_cpu("padding")
    for shape in ((2, 0, *[4] * rank), (2, 3, 0, *[4] * (rank - 1))):
        messages = []
        for device in ("cpu", "sim"):
            with pytest.raises(RuntimeError) as error:
                pad(torch.ones(shape, device=device), (1, 1) * rank, mode)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_errors_are_torchs_own() -> None:
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        pad(torch.ones(1, 2, 3, device="sim"), (3, 0), "reflect")
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        pad(torch.ones(1, 2, 3, 4, device="sim"), (0, 0, 3, 0), "reflect")
