"""CTC loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import compare, entries, move

import hardpoint

ENTRIES = entries("nn.functional.ctc_loss")


@pytest.mark.parametrize("entry", ENTRIES)
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, "ctc", limit=8, gradients=())


@pytest.mark.parametrize("entry", ENTRIES)
def test_gradients_against_the_cpu(entry: Any) -> None:
    """A float32 loss in the hundreds has gradient errors of 1e-5, on the CPU too."""
    for sample in list(entry.sample_inputs("cpu", torch.float32, requires_grad=True)):
        gradients = []
        for target in (torch.float64, torch.float32, "sim"):
            given = move(sample.input, target)
            loss = entry(given, *move(sample.args, target), **sample.kwargs)
            gradients.append(torch.autograd.grad(loss.sum(), given)[0].cpu().double())
        exact, cpu, ours = gradients
        assert (ours - exact).norm() <= 1.5 * (cpu - exact).norm() + 1e-6 * exact.norm()


CASES = {
    # More labels than time steps, no labels, repeated labels.
    "rows": (
        torch.tensor([[1, 2, 2, 3, 1], [4, 4, 5, 0, 0], [1, 2, 3, 4, 5], [9, 9, 9, 9, 9]]),
        (12, 10, 3, 1),
        (5, 3, 5, 0),
    ),
    "in a line": (torch.tensor([1, 1, 2, 5, 3, 4, 2, 2, 2], dtype=torch.int32), (12, 10, 12, 11), (4, 2, 0, 3)),
    "another blank": (torch.tensor([[0, 1], [2, 2], [1, 0], [3, 4]]), (12, 12, 12, 12), (2, 2, 2, 2)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_and_gradients(case: str, zero_infinity: bool, dtype: torch.dtype) -> None:
    targets, steps, labels = CASES[case]
    blank = 5 if case == "another blank" else 0
    logits = torch.randn(12, 4, 6, dtype=dtype)
    results = []
    hardpoint.reset_counters()
    for device in ("cpu", "sim"):
        logs = logits.to(device).log_softmax(2).requires_grad_()
        loss = F.ctc_loss(logs, targets.to(device), steps, labels, blank, "none", zero_infinity)
        weight = torch.arange(1, 5, dtype=dtype, device=device)
        results.append([t.detach().cpu() for t in (loss, *torch.autograd.grad(loss, logs, weight))])
    for right, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, right, equal_nan=True, rtol=1e-5, atol=2e-6)
    tiers = hardpoint.counters()
    assert tiers["aten::_ctc_loss"] == {"portable": 1}
    assert tiers["aten::_ctc_loss_backward"] == {"portable": 1}


def test_labels_that_there_are_none_of() -> None:
    logs = torch.randn(6, 1, 4, device="sim").log_softmax(2)
    with pytest.raises(IndexError):
        F.ctc_loss(logs, torch.tensor([[1, 77]], device="sim"), (6,), (2,)).cpu()
