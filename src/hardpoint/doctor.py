"""What ``hardpoint doctor`` looks at: the machine, the frameworks, the adapters, the choice of the device."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SUPPORTED_TORCH = ("2.11", "2.13")
SUPPORTED_PADDLE = ("3.0", "3.3")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    ok: bool
    detail: str
    advice: str = ""
    #: False for what only limits Hardpoint, such as a missing compiler on a machine that builds nothing.
    needed: bool = True


def checkup() -> Iterator[Finding]:
    """Look at everything, cheapest first."""
    import hardpoint
    from hardpoint import _runtime

    yield Finding(
        "hardpoint",
        True,
        f"{hardpoint.__version__}, plug-in ABI {_runtime.ABI[0]}.{_runtime.ABI[1]}, "
        f"Python {platform.python_version()} on {platform.machine()}",
    )
    yield _package("apache-tvm-ffi", needed=True)
    yield _compiler()
    yield _tool("cmake", "python -m pip install cmake ninja")
    yield from _torch()
    yield from _paddle()
    yield from _plugins()


def _package(name: str, needed: bool) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"{sys.executable} -m pip install {name}", needed)


def _compiler() -> Finding:
    path = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if path is None:
        return Finding(
            "C++ compiler", False, "none found (only needed to build adapters)", "apt-get install g++", False
        )
    done = subprocess.run([path, "--version"], capture_output=True, text=True)
    return Finding("C++ compiler", True, done.stdout.splitlines()[0] if done.stdout else path)


def _tool(name: str, advice: str) -> Finding:
    path = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    return Finding(
        name, path is not None, path or "not found (only needed to build adapters)", "" if path else advice, False
    )


def _torch() -> Iterator[Finding]:
    from hardpoint.torch import _adapter

    torch = _package("torch", needed=False)
    if not torch.ok:
        yield Finding(
            "torch", False, "not installed", "python -m pip install torch, then: hardpoint build torch", False
        )
        return
    minor = ".".join(torch.detail.split(".")[:2])
    known = (
        tuple(map(int, SUPPORTED_TORCH[0].split(".")))
        <= tuple(map(int, minor.split(".")))
        <= tuple(map(int, SUPPORTED_TORCH[1].split(".")))
    )
    yield Finding(
        "torch",
        known,
        torch.detail + ("" if known else f", outside of the tested {SUPPORTED_TORCH[0]} to {SUPPORTED_TORCH[1]}"),
        needed=False,
    )
    path = _adapter.find()
    yield Finding(
        "torch adapter",
        path is not None,
        str(path) if path else f"not built for torch {minor}",
        "" if path else "hardpoint build torch",
    )


def _paddle() -> Iterator[Finding]:
    from hardpoint import _runtime
    from hardpoint.paddle import _adapter

    try:
        minor = _adapter.paddle_minor().replace("_", ".")
    except _runtime.PluginError:
        yield Finding(
            "Paddle", False, "not installed", "python -m pip install paddlepaddle, then: hardpoint build paddle", False
        )
        return
    known = SUPPORTED_PADDLE[0] <= minor <= SUPPORTED_PADDLE[1]
    outside = "" if known else f", outside of the known {SUPPORTED_PADDLE[0]} to {SUPPORTED_PADDLE[1]}"
    yield Finding("Paddle", known, minor + outside, needed=False)
    path = _adapter.find()
    yield Finding(
        "Paddle adapter",
        path is not None,
        str(path) if path else f"not built for Paddle {minor}",
        "" if path else "hardpoint build paddle",
    )
    yield from _other_paddle_plugins()


def _other_paddle_plugins() -> Iterator[Finding]:
    """Libraries beside ours: Paddle opens them all, and one that it cannot open ends its import."""
    spec = importlib.util.find_spec("paddle")
    assert spec is not None
    assert spec.origin is not None
    beside = Path(spec.origin).parents[1] / "paddle_custom_device"
    folder = Path(os.environ.get("CUSTOM_DEVICE_ROOT", beside))
    others = sorted(library.name for library in folder.glob("*.so") if library.name != "libhardpoint_paddle.so")
    if not others:
        return
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARDPOINT_")}
    done = subprocess.run([sys.executable, "-c", "import paddle"], env=environment, capture_output=True, text=True)
    said = re.search(r"Fail to open library: .*", done.stderr)
    yield Finding(
        "other Paddle plug-ins",
        done.returncode == 0,
        ", ".join(others) if done.returncode == 0 else said[0] if said else done.stderr.strip()[-300:],
        "" if done.returncode == 0 else f"until that is mended, or removed from {folder}, Paddle cannot be imported",
    )


def _plugins() -> Iterator[Finding]:
    from hardpoint import _runtime, plugins

    wanted = os.environ.get("HARDPOINT_DEVICE") or ""
    for found in plugins.find():
        try:
            plugin = found.load()
            yield Finding(f"plug-in {plugin.name}", True, f"{plugin.device_count} device(s), from {found.source}")
        except _runtime.PluginError as error:
            # Of those that Hardpoint brings along, a machine need only have what the one that is asked for needs.
            yield Finding(f"plug-in {found.name}", False, str(error), needed=not found.shipped or found.name in wanted)
    yield Finding("HARDPOINT_DEVICE", True, wanted or "not set: the vendor's plug-in, or sim after `import hardpoint`")
