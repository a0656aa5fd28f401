"""A vendor's wheel built with an older Hardpoint (contract 1.1, see fixtures/wheels) runs unchanged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python

(WHEEL,) = (ROOT / "tests" / "fixtures" / "wheels").glob("frost-*.whl")


def has_paddle() -> bool:
    spec = importlib.util.find_spec("paddle")
    return spec is not None and spec.origin is not None  # tests/paddle is a namespace package of that name


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), str(WHEEL)], check=True)
    return str(folder)


@pytest.mark.slow
def test_in_torch(installed: str, tmp_path: Path) -> None:
    code = """
import torch, hardpoint
assert hardpoint.mounted()[0] == "frost"
generator = torch.Generator().manual_seed(0)
first, second = (torch.randn(8, 8, generator=generator, requires_grad=True) for _ in range(2))
twins = [t.detach().to("frost").requires_grad_() for t in (first, second)]
def loss(a, b): return (a @ b + a).tanh().square().mean()
expected, found = loss(first, second), loss(*twins)
expected.backward()
found.backward()
torch.testing.assert_close(found.cpu(), expected)
for one, other in zip((first, second), twins):
    torch.testing.assert_close(other.grad.cpu(), one.grad)
tiers = hardpoint.counters()
answer = {name: sorted(tiers[name]) for name in ("aten::mm", "aten::add.Tensor", "aten::tanh")}
"""
    answer = ask_python(code, tmp_path, PYTHONPATH=installed, HARDPOINT_DEVICE="frost")
    assert answer == {"aten::mm": ["vendor"], "aten::add.Tensor": ["vendor"], "aten::tanh": ["cpu"]}


@pytest.mark.slow
@pytest.mark.skipif(not has_paddle(), reason="Paddle is not installed")
def test_in_paddle(installed: str, tmp_path: Path) -> None:
    code = """
import paddle, hardpoint
paddle.set_device("frost")
a = paddle.arange(6, dtype="float32").reshape([2, 3])
answer = dict(sum=(a + a).tolist(), product=(a @ a.T).tolist(), place=str(a.place))
answer["tiers"] = hardpoint.counters()["phi::add"]
"""
    answer = ask_python(code, tmp_path, PYTHONPATH=installed, HARDPOINT_DEVICE="frost")
    assert answer["sum"] == [[0, 2, 4], [6, 8, 10]]
    assert answer["product"] == [[5, 14], [14, 50]]
    assert "frost" in answer["place"]
    assert "vendor" in answer["tiers"]
