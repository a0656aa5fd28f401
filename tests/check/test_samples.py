"""Samples and comparisons."""

from __future__ import annotations

import pytest
import torch

import hardpoint  # noqa: F401
from hardpoint.check import compare
from hardpoint.check.samples import Sample, noncontiguous, pick, to_device, widened


def test_pick_prefers_distinct_samples() -> None:
    plain = [Sample(torch.ones(3, 4)) for _ in range(50)]
    rare = [Sample(torch.ones(())), Sample(torch.ones(0, 3)), Sample(torch.ones(2, 2), (), {"keepdim": True})]
    chosen = pick([*plain[:20], rare[0], *plain[20:], rare[1], rare[2]], 4)
    assert len(chosen) == 4
    for wanted in rare:
        assert any(s is wanted for s in chosen)
    assert pick(plain[:3], 4) == plain[:3]


def test_layouts_are_kept_on_the_device() -> None:
    base = torch.randn(4, 6)
    shared = base.t()[1:, ::2].requires_grad_()
    conjugate = torch.randn(3, dtype=torch.complex64).conj()
    sample = Sample(shared, (shared, base[0].expand(3, 6)), {"other": conjugate, "device": torch.device("cpu")})
    placed = to_device(sample, "sim")
    assert placed.input is placed.args[0]
    assert placed.input.stride() == shared.stride()
    assert placed.input.storage_offset() == shared.storage_offset()
    assert placed.input.requires_grad
    assert placed.args[1].stride() == (0, 1)
    assert placed.kwargs["other"].is_conj()
    assert placed.kwargs["device"] == "sim"
    for ours, right in zip(placed.tensors(), sample.tensors(), strict=True):
        assert ours.device.type == "sim"
        assert torch.equal(ours.detach().cpu(), right.detach())


def test_noncontiguous_sample_has_the_same_values() -> None:
    sample = Sample(torch.randn(3, 4, 5), (torch.randn(7, requires_grad=True), torch.tensor(3.0)))
    made = noncontiguous(sample)
    assert not made.input.is_contiguous()
    assert not made.args[0].is_contiguous()
    assert made.args[0].requires_grad
    for ours, right in zip(made.tensors(), sample.tensors(), strict=True):
        assert torch.equal(ours, right)


def test_references_are_wider() -> None:
    wide = widened(Sample(torch.ones(2, dtype=torch.bfloat16), (torch.ones(2, dtype=torch.int64),)))
    assert [t.dtype for t in wide.tensors()] == [torch.float32, torch.int64]
    assert widened(Sample(torch.ones(2, dtype=torch.int32))).input.dtype is torch.float64


def test_values_are_compared() -> None:
    x = torch.randn(5)
    assert compare.values(x.to("sim"), x, "sim") == ""
    assert "not close" in compare.values((x + 1e-3).to("sim"), x, "sim")
    assert "shape" in compare.values(x[:4].to("sim"), x, "sim")
    assert "float64" in compare.values(x.to("sim"), x.double(), "sim")
    assert "on cpu" in compare.values(x, x, "sim")
    assert "2 results" in compare.values([x.to("sim")], [x, x], "sim")
    assert compare.values([3, True], [3, True], "sim") == ""
    assert "expected 3, got 4" in compare.values(4, 3, "sim")
    special = torch.tensor([float("nan"), float("inf"), -0.0])
    assert compare.values(special.to("sim"), special, "sim") == ""
    assert "not close" in compare.values(-special.to("sim"), special, "sim")


def test_tolerance_depends_on_the_error_of_the_cpu() -> None:
    exact = torch.linspace(1, 2, 8, dtype=torch.float64)
    native = (exact + 1e-3).float()  # the CPU's error
    for error, right in ((-1e-3, True), (3e-3, True), (2e-2, False)):
        ours = (exact + error).float().to("sim")
        assert (compare.values(ours, native, "sim", lambda: exact) == "") is right
    assert compare.values((exact - 1e-3).float().to("sim"), native, "sim") != ""


@pytest.mark.parametrize("wrong", [lambda t: t * 1.3, lambda t: t + 0.2, lambda t: t.abs(), lambda t: t * float("inf")])
def test_distributions_are_compared(wrong) -> None:
    torch.manual_seed(0)
    assert compare.distribution([torch.randn(2000)], [torch.randn(2000)]) == ""
    assert compare.distribution([wrong(torch.randn(2000))], [torch.randn(2000)]) != ""


def test_gradients_among_equal_elements() -> None:
    x = torch.tensor([[1.0, 2.0, 1.0], [2.0, 3.0, 3.0]])
    gradient = torch.tensor([[5.0, 0.0, 7.0], [1.0, 8.0, 8.5]])
    other = torch.tensor([[7.0, 1.0, 5.0], [0.0, 8.5, 8.0]])
    assert torch.equal(compare.among_equals(gradient, x), compare.among_equals(other, x))
    assert torch.equal(compare.among_equals(gradient, x), gradient)
    moved = torch.tensor([[0.0, 5.0, 7.0], [1.0, 8.0, 8.5]])  # moved from a 1 to a 2
    assert not torch.equal(compare.among_equals(moved, x), gradient)
    assert compare.among_equals(gradient[0], x) is not None  # broadcast: unchanged
