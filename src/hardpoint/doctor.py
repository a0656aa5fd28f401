"""The checks of ``hardpoint doctor``: the machine, frameworks, adapters and plug-ins."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardpoint._adapters import Adapter


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: What was checked.
        ok: Whether it is in order.
        detail: Version, path or problem.
        advice: How to fix a problem.
        needed: Whether a problem makes ``hardpoint doctor`` fail. A missing compiler does not, for example.
    """

    subject: str
    ok: bool
    detail: str
    advice: str = ""
    needed: bool = True


def checkup() -> Iterator[Finding]:
    """Run all checks, cheapest first."""
    import hardpoint
    from hardpoint import _runtime
    from hardpoint.torch import _adapter

    yield Finding(
        "hardpoint",
        True,
        f"{hardpoint.__version__}, plug-in ABI {_runtime.ABI[0]}.{_runtime.ABI[1]}, "
        f"Python {platform.python_version()} on {platform.machine()}",
    )
    yield _package("apache-tvm-ffi", needed=True)
    yield _compiler()
    yield _cmake()
    yield from _framework("torch", "torch", _adapter.ADAPTER)
    yield from _paddle()
    yield from _plugins()


def _package(name: str, needed: bool) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"{sys.executable} -m pip install {name}", needed)


def _compiler() -> Finding:
    from hardpoint import _adapter_checks

    path = _adapter_checks.compiler()
    if path is None:
        return Finding(
            "C++ compiler", False, "none found (only needed to build adapters)", "apt-get install g++", False
        )
    return Finding("C++ compiler", True, _adapter_checks.compiler_version(path))


def _cmake() -> Finding:
    from hardpoint import _adapter_checks

    if path := _adapter_checks.tool("cmake"):
        return Finding("cmake", True, path)
    detail = "not found (only needed to build adapters)"
    return Finding("cmake", False, detail, _adapter_checks.INSTALL_TOOLS, False)


def _framework(name: str, package: str, adapter: Adapter) -> Iterator[Finding]:
    from hardpoint import _adapters

    if adapter.installed() is None:
        yield Finding(name, False, "not installed", f"python -m pip install {package}", False)
        return
    version = adapter.version()
    oldest, newest = adapter.supported
    known = _adapters.version_numbers(oldest) <= _adapters.version_numbers(version) <= _adapters.version_numbers(newest)
    yield Finding(name, known, version + ("" if known else f"; tested versions are {oldest} to {newest}"), needed=False)
    yield from _adapter(f"{name} adapter", adapter)


def _adapter(subject: str, adapter: Adapter) -> Iterator[Finding]:
    from hardpoint import _adapter_build, _adapter_checks

    if path := adapter.find():
        yield Finding(subject, True, str(path))
        return
    incomplete = [path for path, *_ in adapter.libraries()]
    state = f"{incomplete[0]} is incomplete" if incomplete else f"not built for {adapter.label()}"
    command = f"hardpoint build {adapter.framework}"
    if problems := list(_adapter_checks.all_problems(adapter)):
        for problem in problems:
            yield Finding(subject, False, f"{state}, and cannot be built: {problem.text}", problem.advice)
    elif failure := _adapter_build.failure(adapter):
        yield Finding(subject, False, failure, f"{command}, after a repair")
    elif os.environ.get("HARDPOINT_BUILD") == "0":
        yield Finding(subject, False, f"{state}, and HARDPOINT_BUILD=0 turns automatic builds off", command)
    else:
        yield Finding(subject, False, f"{state}; the first use builds it, once", f"to build it now: {command}", False)


def _paddle() -> Iterator[Finding]:
    from hardpoint.paddle import _adapter

    yield from _framework("Paddle", "paddlepaddle", _adapter.ADAPTER)
    if _adapter.ADAPTER.installed() is not None:
        yield from _other_paddle_plugins()


def _other_paddle_plugins() -> Iterator[Finding]:
    """Check that Paddle imports with the other plug-ins in its folder: one broken library stops the import."""
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
    failure = re.search(r"Fail to open library: .*", done.stderr)
    yield Finding(
        "other Paddle plug-ins",
        done.returncode == 0,
        ", ".join(others) if done.returncode == 0 else failure[0] if failure else done.stderr.strip()[-300:],
        "" if done.returncode == 0 else f"Paddle cannot be imported: repair the library, or remove it from {folder}",
    )


def _plugins() -> Iterator[Finding]:
    from hardpoint import _discovery, _runtime

    wanted = os.environ.get("HARDPOINT_DEVICE") or ""
    for found in _discovery.find():
        try:
            plugin = found.load()
            yield Finding(f"plug-in {plugin.name}", True, f"{plugin.device_count} device(s), from {found.source}")
        except _runtime.PluginError as error:
            # A shipped plug-in whose hardware is missing is a problem only if it was asked for.
            yield Finding(f"plug-in {found.name}", False, str(error), needed=not found.shipped or found.name in wanted)
    if not wanted:
        yield Finding("HARDPOINT_DEVICE", True, "not set: the vendor's plug-in, or sim after `import hardpoint`")
        return
    problems: list[Exception] = []
    names = [plugin.name for plugin in _discovery.choose_all(problems.append)]
    if names:
        yield Finding("HARDPOINT_DEVICE", True, ", ".join(names))
    for problem in problems:
        yield Finding("HARDPOINT_DEVICE", False, str(problem), "set it to one of the devices, or unset it")
