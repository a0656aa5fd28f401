"""Finding plug-ins, choosing one, and loading it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, core, package_file, tvm_ffi_library

GROUP = "hardpoint.plugins"
#: The device that ``import hardpoint`` mounts when nothing else is chosen.
DEFAULT_DEVICE = "sim"


@dataclass(frozen=True)
class Found:
    """A plug-in that was found: by an installed package's entry point, or by HARDPOINT_PLUGIN_PATH."""

    name: str
    source: str
    shipped: bool
    load: Callable[[], Any]


def _from_entry_point(entry: EntryPoint) -> Found:
    def load() -> Any:
        try:
            target = entry.load()
            target = target() if callable(target) and not isinstance(target, type) else target
        except Exception as error:
            raise PluginError(f"plug-in '{entry.name}' ({entry.value}): {type(error).__name__}: {error}") from error
        return _load_target(target, f"{entry.name} ({entry.value})")

    package = entry.dist.name if entry.dist is not None else "?"
    return Found(entry.name, f"package {package}", package == "hardpoint", load)


def _from_path(path: Path) -> Found:
    return Found(path.stem.removeprefix("lib"), str(path), False, lambda: _load_library(path))


def _load_target(target: Any, origin: str) -> Any:
    """An entry point gives a path of a shared library, or a Python plug-in (an instance or a class)."""
    from hardpoint.plugin import Plugin

    if isinstance(target, type) and issubclass(target, Plugin):
        target = target()
    if isinstance(target, Plugin):
        return target._adopt(origin)
    if isinstance(target, (str, os.PathLike)):
        return _load_library(Path(target))
    raise PluginError(
        f"plug-in {origin}: expected the path of a shared library or a hardpoint.plugin.Plugin, "
        f"got {type(target).__name__}"
    )


def _load_library(path: Path) -> Any:
    if not path.exists():
        raise PluginError(
            f"{path}: there is no such file; check HARDPOINT_PLUGIN_PATH or reinstall the plug-in's package"
        )
    if path.suffix == ".py":
        return _load_python_file(path)
    _probe(path)
    return core.load(str(path))


def _load_python_file(path: Path) -> Any:
    import runpy

    from hardpoint.plugin import Plugin

    try:
        scope = runpy.run_path(str(path), run_name=path.stem)
    except Exception as error:
        raise PluginError(f"{path}: {type(error).__name__}: {error}") from error
    classes = [v for v in scope.values() if isinstance(v, type) and issubclass(v, Plugin) and v.__module__ == path.stem]
    if len(classes) != 1:
        raise PluginError(f"{path}: expected one class derived from hardpoint.plugin.Plugin, found {len(classes)}")
    return classes[0]()._adopt(str(path))


def _probe(path: Path) -> None:
    """Load the plug-in in a process of its own, once for each version of the file: a crash there is a message here."""
    status = path.stat()
    stamp = _cache_dir() / "probed" / f"{abs(hash_text(str(path.resolve()))):x}"
    key = f"{status.st_size} {status.st_mtime_ns}"
    try:
        if stamp.read_text() == key:
            return
    except OSError:
        pass
    core = package_file("lib/libhardpoint_core.so")
    code = (
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
        "raise SystemExit(ctypes.CDLL(sys.argv[2]).hp_probe(sys.argv[3].encode()))"
    )
    command = [sys.executable, "-S", "-E", "-c", code, tvm_ffi_library(), str(core), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise PluginError(f"{path}: hp_plugin_init did not return within 60 s") from None
    if done.returncode < 0:
        raise PluginError(
            f"{path}: crashed with signal {-done.returncode} while it was loaded in a process of its own; "
            f"run it under a debugger: gdb --args python -c \"import hardpoint.plugins as p; p.load_path('{path}')\""
        )
    if done.returncode != 0:
        # The message of a refused plug-in, from the same code that would refuse it here.
        raise PluginError((done.stderr.strip() or f"{path}: refused").splitlines()[-1])
    try:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(key)
    except OSError:
        pass  # a read-only home only costs the next process a second probe


def hash_text(text: str) -> int:
    """A hash that is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())


def _cache_dir() -> Path:
    if explicit := os.environ.get("HARDPOINT_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardpoint"


def load_path(path: str | os.PathLike[str]) -> Any:
    """Load a plug-in from a file, without mounting it."""
    return _load_library(Path(path))


def find() -> Iterator[Found]:
    """Every plug-in that is installed or on HARDPOINT_PLUGIN_PATH (files, or folders of ``*.so`` and ``*.py``)."""
    for part in filter(None, os.environ.get("HARDPOINT_PLUGIN_PATH", "").split(os.pathsep)):
        path = Path(part)
        if path.is_dir():
            yield from (_from_path(p) for p in sorted([*path.glob("*.so"), *path.glob("*.py")]))
        else:
            yield _from_path(path)
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        yield _from_entry_point(entry)


def choose() -> Any:
    """Load the plug-in that this program asked for: HARDPOINT_DEVICE, else the vendor's, else ``sim``."""
    wanted = os.environ.get("HARDPOINT_DEVICE")
    found = list(find())
    if wanted:
        return _load_named(wanted, found)
    vendors = [f for f in found if not f.shipped]
    if len(vendors) > 1:
        names = ", ".join(f"{f.name} ({f.source})" for f in vendors)
        raise PluginError(f"more than one plug-in is installed: {names}; set HARDPOINT_DEVICE to the one you want")
    return vendors[0].load() if vendors else _load_named(DEFAULT_DEVICE, found)


def _load_named(name: str, found: list[Found]) -> Any:
    # The name under which a plug-in was found is a hint; the device name is what the plug-in itself says.
    reasons = []
    for each in sorted(found, key=lambda f: f.name != name):
        if each.shipped and each.name != name:
            continue
        try:
            plugin = each.load()
        except PluginError as error:
            if each.name == name:
                raise
            reasons.append(str(error))
            continue
        if plugin.name == name:
            return plugin
    known = ", ".join(sorted({f.name for f in found})) or "none"
    refused = "".join(f"\n  refused: {r}" for r in reasons)
    raise PluginError(f"no plug-in gives a device named '{name}'; found: {known}{refused}")
