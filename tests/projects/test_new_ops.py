"""An operator project, registered with torch from Python or C++: generate, build, install, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from virtual_environment import WITHOUT_FRAMEWORKS, Machine

from hardpoint.projects.render import TEMPLATES

pytestmark = pytest.mark.slow


PADDLE_ALONE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "torch" else find(name, *rest))
import paddle
from acme.paddle import silu_mul
print(silu_mul(paddle.ones([]), paddle.ones([])).item())
"""


@pytest.mark.parametrize("flags", [[], ["--cpp"]], ids=["python", "cpp"])
def test_ops(flags: list[str], machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = machine.hardpoint("new", "ops", "acme", *flags).stdout
    project = tmp_path / "acme"
    with capsys.disabled():
        print(f" {flags or 'python'}:", re.search(r"\d+ lines of code", said)[0], end=" ")
    # Without C++ code for torch, the build needs no framework and the wheel works with every Python and torch.
    hidden = {"CFLAGS": "-O0"} if flags else WITHOUT_FRAMEWORKS
    checked = machine.hardpoint("wheel", cwd=project, **hidden).stdout
    wheel = next((project / "dist").glob("*.whl"))
    assert "acme/libacme.so frameworks: no dependency on torch or Paddle" in checked
    assert ("acme/_C" in checked) == bool(flags)
    assert ("torch==" in checked) == bool(flags)
    assert ("-py3-none-" in wheel.name) != bool(flags)
    machine.pip("install", wheel)
    if flags:
        entry = "import acme, torch; x = torch.ones(2, device='sim'); print(acme.ops.silu_mul(x, x).tolist())"
        assert machine.run("-c", entry, HARDPOINT_DEVICE="sim").stdout.startswith("[0.7310")
    tested = machine.run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"), cwd=project, HARDPOINT_DEVICE="sim"
    ).stdout
    assert re.search(r"\d+ passed", tested)
    assert "skipped" not in tested
    if not flags:
        # With Paddle only.
        assert machine.run("-c", PADDLE_ALONE, HARDPOINT_DEVICE="sim").stdout.startswith("0.7310")
        # Without a compiler or a kernel, operators of torch and Paddle do the work.
        other = {
            "HARDPOINT_PLUGIN_PATH": str(TEMPLATES / "device" / "python" / "src" / "mychip" / "device.py"),
            "HARDPOINT_DEVICE": "mychip",
        }
        selected = ["-k", "values or broadcasting or graph or tiers", "tests"]
        tested = machine.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *selected, cwd=project, **other).stdout
        assert re.search(r"\d+ passed, 1 skipped", tested)
