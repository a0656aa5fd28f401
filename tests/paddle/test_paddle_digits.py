"""examples/digits_paddle.py: same losses as on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.slow


def test_losses_equal_the_cpu() -> None:
    import digits_paddle

    losses, right = digits_paddle.train("sim", 6, quiet=True)
    expected, _ = digits_paddle.train("cpu", 6, quiet=True)
    assert len(losses) == 6 * 23
    assert losses == pytest.approx(expected, abs=1e-4)
    assert right > 0.95
