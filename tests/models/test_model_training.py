"""Every model trains on the device as on the CPU, without the CPU tier."""

from __future__ import annotations

import pytest
import torch
from model_zoo import CASES
from training import HALF_TOLERANCE, statistics, trained

MODELS = [pytest.param(c.name, marks=() if c.quick else pytest.mark.slow) for c in CASES.values()]
NORMED = [pytest.param(n, marks=pytest.mark.slow) for n in ("digits", "resnet18", "resnet50", "mobilenet")]
HALVES = [
    pytest.param(name, dtype, marks=pytest.mark.slow, id=f"{name}-{str(dtype)[6:]}")
    for name in ("gpt2", "resnet18", "bert")
    for dtype in HALF_TOLERANCE
]


def learns(losses: list[float]) -> bool:
    """Compare the last losses with the first, over the two batches that alternate."""
    return sum(losses[-2:]) < 0.95 * sum(losses[:2])


@pytest.mark.parametrize("name", MODELS)
def test_losses(name):
    expected = trained(name, "cpu").losses
    assert learns(expected)
    assert trained(name, "sim").losses == pytest.approx(expected, rel=CASES[name].tolerance)


@pytest.mark.parametrize("name", NORMED)
def test_losses_in_double_precision(name):
    expected = trained(name, "cpu", double=True).losses
    assert trained(name, "sim", double=True).losses == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_no_cpu_tier(name):
    assert trained(name, "sim").cpu_tier == {}


@pytest.mark.parametrize("name", NORMED)
def test_running_statistics(name):
    """In double precision: in float32, a single flipped ReLU makes two trainings diverge."""
    expected, state = trained(name, "cpu", double=True).state, trained(name, "sim", double=True).state
    names = statistics(CASES[name].build())
    assert names
    for key in names:
        torch.testing.assert_close(state[key], expected[key], rtol=1e-9, atol=1e-12, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize(("name", "dtype"), HALVES)
def test_autocast_losses(name, dtype):
    expected = trained(name, "cpu").losses
    losses = trained(name, "sim", dtype).losses
    assert learns(losses)
    assert losses == pytest.approx(expected, rel=HALF_TOLERANCE[dtype])
    assert losses != trained(name, "sim").losses, "autocast had no effect"


@pytest.mark.parametrize(("name", "dtype"), HALVES)
def test_autocast_no_cpu_tier(name, dtype):
    assert trained(name, "sim", dtype).cpu_tier == {}
