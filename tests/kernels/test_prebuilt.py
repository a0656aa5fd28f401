"""Prebuilt kernels of the package, which run without a compiler."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hardpoint._runtime import package_file
from hardpoint.kernels import prebuilt
from hardpoint.kernels.generator import generate

pytestmark = pytest.mark.slow

PREBUILT_KERNELS = [line.split("\t") for line in package_file("kernels/prebuilt_kernels.txt").read_text().splitlines()]

PROGRAM = """
import os, torch, hardpoint
from torch import nn
if "TEST_PACKAGE" in os.environ:
    hardpoint.__path__.insert(0, os.environ["TEST_PACKAGE"])  # where prebuilt kernels are looked for
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
x, y = torch.randn(8, 1, 8, 8), torch.arange(8)
losses = []
for device in ("cpu", "sim"):
    model = net.to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    net = net.cpu()
    for p in net.parameters():
        p.grad = None
print([name for name, tiers in hardpoint.counters().items() if "cpu" in tiers])
"""


def run(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "HARDPOINT_DEVICE": "sim",
            "HARDPOINT_CACHE": str(cache),
            "HARDPOINT_CC": "/nonexistent",
            **environment,
        },
    )


def test_every_listed_kernel_is_built_for_this_cpu_and_all_others_in_the_package() -> None:
    archives = sorted(package_file("prebuilt").glob("*.zip"))
    assert len(archives) >= 1  # that of this CPU, as the next test shows
    keys = {
        prebuilt.key(made[0]) for name, text in PREBUILT_KERNELS if (made := generate(name, text, "c", 1)) is not None
    }
    assert len(keys) > 100
    for archive in archives:
        with zipfile.ZipFile(archive) as opened:
            assert set(opened.namelist()) == keys, archive.name
            assert opened.testzip() is None


def test_training_without_a_compiler(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout == "[]\n", done.stderr
    assert not list((tmp_path / "kernels").glob("*/*")), "something was compiled"


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
def test_older_cpu_levels(level: str, tmp_path: Path) -> None:
    """Compiles the program's kernels for the level as wheels do. The editable install has only those for this CPU."""
    tools = sorted(Path(__file__).parents[2].glob("build/*/plugins/sim/hardpoint_sim_prebuild"))
    if not tools or platform.machine() != "x86_64":
        pytest.skip("no build folder, or not an x86-64 build")
    recorded = tmp_path / "kernels.txt"
    assert run(tmp_path / "recording", HARDPOINT_RECORD_KERNELS=str(recorded)).returncode == 0
    generator = package_file("codegen/run.py")
    package = tmp_path / "package"
    subprocess.run(
        [sys.executable, generator, "prebuild", tools[-1], recorded, package / "prebuilt", f"c-{level}"], check=True
    )
    assert [path.name for path in (package / "prebuilt").iterdir()] == [f"c-{level}.zip"]
    done = run(tmp_path / "cache", HARDPOINT_SIM_ARCH=level, TEST_PACKAGE=str(package))
    assert done.stdout == "[]\n", done.stderr
    assert not list((tmp_path / "cache" / "kernels").glob("*/*")), "something was compiled"


def test_falls_back_to_the_cpu_without_prebuilt_kernels_and_compiler(tmp_path: Path) -> None:
    done = run(tmp_path, HARDPOINT_PREBUILT="0")
    assert "aten::relu" not in done.stdout  # a native sim kernel
    assert "aten::convolution_overrideable" in done.stdout, done.stderr
