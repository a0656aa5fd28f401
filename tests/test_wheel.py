"""The wheel, installed into an environment without the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from plugin_tools import ROOT

pytestmark = pytest.mark.slow

PROGRAM = """
import json, torch, hardpoint
from hardpoint.torch import _adapter
layer = torch.nn.Linear(3, 2, device="sim")
layer(torch.ones(4, 3, device="sim")).sum().backward()
print(json.dumps([hardpoint.__file__, str(_adapter.find()), layer.bias.grad.tolist()]))
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARDPOINT_")}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, env={**environment, **variables}, cwd="/", check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel. The other packages are found where they are."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    # The build folder of the editable install: nothing is compiled again.
    made = run(
        *(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(ROOT)),
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        CMAKE_BUILD_PARALLEL_LEVEL="2",
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert run(sys.executable, "-m", "venv", "--without-pip", str(folder / "env")).returncode == 0
    site = folder / "env" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # A path in a .pth file comes after the environment's own packages, and .pth files in it (that of the editable
    # install) are not read.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = folder.glob("*.whl")
    done = run(*pip, "install", "--no-index", "--no-deps", "--target", str(site), str(wheel))
    assert done.returncode == 0, done.stderr
    return folder / "env"


def test_trains_a_layer(installed: Path, tmp_path: Path) -> None:
    done = run(str(installed / "bin" / "python"), "-c", PROGRAM, HARDPOINT_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    package, adapter, gradient = eval(done.stdout)
    assert package.startswith(str(installed))
    assert adapter.startswith(str(installed))
    assert gradient == [4, 4]
    assert "building the adapter" not in done.stderr


def test_doctor(installed: Path, tmp_path: Path) -> None:
    done = run(str(installed / "bin" / "python"), "-m", "hardpoint.cli", "doctor", HARDPOINT_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_an_adapter(installed: Path, tmp_path: Path) -> None:
    """As for a torch that the wheel has no adapter for, with automatic builds off: torch works, a warning says why."""
    folders = list(installed.glob("lib/python*/site-packages/hardpoint/torch"))
    libraries = [library for folder in folders for library in folder.glob("_C_*.so")]
    assert len(libraries) == 1
    hidden = libraries[0].rename(libraries[0].with_suffix(".hidden"))
    try:
        code = "import torch; print((torch.ones(2) + 1).tolist())"
        variables = {"HARDPOINT_DEVICE": "sim", "HARDPOINT_BUILD": "0", "HARDPOINT_CACHE": str(tmp_path)}
        done = run(str(installed / "bin" / "python"), "-c", code, **variables)
    finally:
        hidden.rename(libraries[0])
    assert done.stdout == "[2.0, 2.0]\n", done.stderr
    assert "adapter is not built for torch" in done.stderr
    assert "hardpoint build torch" in done.stderr
