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

from hardpoint import paddle_bridge
from hardpoint._runtime import PluginError, core, package_file, tvm_ffi_library
from hardpoint.kernels import Override

GROUP = "hardpoint.plugins"
#: The device that ``import hardpoint`` mounts when nothing else is chosen.
DEFAULT_DEVICE = "sim"
#: How long a plug-in's hp_plugin_init may take when it is tried in a process of its own.
PROBE_SECONDS = 60.0
#: Exit status of that process, plus 1 for a refusal; any other means that the plug-in itself ended it.
_PROBE_STATUS = 90


@dataclass(frozen=True)
class Found:
    """A plug-in that was found: by an installed package's entry point, or by an environment variable."""

    name: str
    source: str
    shipped: bool
    load: Callable[[], Any]


def _from_entry_point(entry: EntryPoint) -> Found:
    def load() -> Any:
        try:
            target = entry.load()
            target = target() if callable(target) and not isinstance(target, type) else target
        except (Exception, SystemExit) as error:
            raise PluginError(f"plug-in '{entry.name}' ({entry.value}): {type(error).__name__}: {error}") from error
        return _load_target(target, f"{entry.name} ({entry.value})")

    package = entry.dist.name if entry.dist is not None else "?"
    return Found(entry.name, f"package {package}", package == "hardpoint", load)


def _from_path(path: Path) -> Found:
    return Found(path.stem.removeprefix("lib"), str(path), False, lambda: _load_library(path))


def _from_paddle(path: Path) -> Found:
    return Found(
        path.stem.removeprefix("lib").removeprefix("paddle_"), str(path), False, lambda: paddle_bridge.load(path)
    )


def _load_target(target: Any, origin: str) -> Any:
    """An entry point gives a path of a shared library, or a Python plug-in (an instance or a class)."""
    from hardpoint.plugin import Plugin

    if isinstance(target, type) and issubclass(target, Plugin):
        target = _construct(target, origin)
    if isinstance(target, Plugin):
        return target._adopt(origin)
    if isinstance(target, (str, os.PathLike)):
        return _load_library(Path(target))
    raise PluginError(
        f"plug-in {origin}: expected the path of a shared library or a hardpoint.plugin.Plugin, "
        f"got {type(target).__name__}"
    )


def _construct(plugin: Callable[[], Any], origin: str) -> Any:
    try:
        return plugin()
    except (Exception, SystemExit) as error:
        raise PluginError(f"{origin}: {type(error).__name__}: {error}") from error


def _load_library(path: Path, trial: bool = True) -> Any:
    path = path.absolute()  # the loader looks for a bare file name in the system's folders only
    if not path.exists():
        raise PluginError(
            f"{path}: there is no such file; check HARDPOINT_PLUGIN_PATH or reinstall the plug-in's package"
        )
    if path.suffix == ".py":
        return _load_python_file(path)
    try:
        if trial:
            probe(path)
        return core.load(str(path))
    except PluginError as error:
        if paddle_bridge.is_paddle_plugin(path):
            hint = f"it is a Paddle plug-in: hardpoint mount-paddle-plugin {path}, or set {paddle_bridge.VARIABLE}"
            raise PluginError(f"{error}\n{hint}") from None
        raise


def _load_python_file(path: Path) -> Any:
    import runpy

    from hardpoint.plugin import Plugin

    # Not the bare stem: while the file runs it stands in sys.modules, where it could hide a module of that name.
    module = f"hardpoint_plugin_{path.stem}"
    scope = _construct(lambda: runpy.run_path(str(path), run_name=module), str(path))
    own = (v for v in scope.values() if isinstance(v, type) and issubclass(v, Plugin) and v.__module__ == module)
    classes = list(dict.fromkeys(own))
    if len(classes) != 1:
        names = ", ".join(c.__name__ for c in classes) or "none"
        raise PluginError(
            f"{path}: expected one class derived from hardpoint.plugin.Plugin, found {len(classes)} ({names}); "
            "a plug-in file defines exactly one"
        )
    return _construct(classes[0], str(path))._adopt(str(path))


def probe(path: Path, subject: Path | None = None) -> None:
    """Load the plug-in in a process of its own, once for each version of the file: a crash there is a message here.

    ``subject`` is the file in question when `path` is the bridge to it.
    """
    file = subject or path
    entry = "InitPlugin" if subject else "hp_plugin_init"
    setting = f"{paddle_bridge.VARIABLE}={subject} " if subject else ""
    status = file.stat()
    stamp = _cache_dir() / "probed" / f"{abs(hash_text(str(file.resolve()))):x}"
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
        f"raise SystemExit({_PROBE_STATUS} + ctypes.CDLL(sys.argv[2]).hp_probe(sys.argv[3].encode()))"
    )
    command = [sys.executable, "-S", "-E", "-c", code, tvm_ffi_library(), str(core), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        raise PluginError(
            f"{path}: {entry} did not return within {PROBE_SECONDS:g} s in a process of its own; "
            "look for a wait on the driver or on a lock"
        ) from None
    if done.returncode < 0:
        raise PluginError(
            f"{path}: crashed with signal {-done.returncode} while it was loaded in a process of its own; "
            f"run it under a debugger: {setting}gdb --args "
            f"{sys.executable} -c \"import hardpoint.plugins as p; p.load_path('{path}', probe=False)\""
        )
    if done.returncode == _PROBE_STATUS + 1:
        # The message of a refused plug-in, from the same code that would refuse it here. It starts a line with the
        # path; what the plug-in itself printed comes before it.
        raise PluginError(done.stderr[max(f"\n{done.stderr}".rfind(f"\n{path}: "), 0) :].strip())
    if done.returncode != _PROBE_STATUS:
        advice = "" if subject else ", with host->fail(...) when something is wrong"
        raise PluginError(
            f"{path}: ended the process with exit status {done.returncode} while it was loaded in one of its own; "
            f"{entry} must return{advice}"
        )
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


def load_path(path: str | os.PathLike[str], *, probe: bool = True) -> Any:
    """Load a plug-in from a file, without mounting it.

    ``probe=False`` leaves out the trial in a process of its own: a crash then is a crash here, for a debugger to see.
    """
    return _load_library(Path(path), probe)


def find() -> Iterator[Found]:
    """Every plug-in that is installed or on HARDPOINT_PLUGIN_PATH (files, or folders of ``*.so`` and ``*.py``).

    And the Paddle plug-in that HARDPOINT_PADDLE_PLUGIN names.
    """
    for part in filter(None, os.environ.get("HARDPOINT_PLUGIN_PATH", "").split(os.pathsep)):
        path = Path(part)
        if path.is_dir():
            yield from (_from_path(p) for p in sorted([*path.glob("*.so"), *path.glob("*.py")]))
        else:
            yield _from_path(path)
    if paddle := os.environ.get(paddle_bridge.VARIABLE):
        yield _from_paddle(Path(paddle))
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        yield _from_entry_point(entry)


def choose() -> Any:
    """Load the plug-in that this program asked for: HARDPOINT_DEVICE, else the vendor's, else ``sim``.

    Of several names in HARDPOINT_DEVICE, which only Paddle has room for, the first.
    """
    wanted = os.environ.get("HARDPOINT_DEVICE")
    found = list(find())
    if wanted:
        return _load_named(wanted.split(",")[0].strip(), found)
    vendors = [f for f in found if not f.shipped]
    if len(vendors) > 1:
        names = ", ".join(f"{f.name} ({f.source})" for f in vendors)
        raise PluginError(f"more than one plug-in is installed: {names}; set HARDPOINT_DEVICE to the one you want")
    return _load(vendors[0]) if vendors else _load_named(DEFAULT_DEVICE, found)


def chosen(refused: Callable[[Exception], None]) -> Iterator[Any]:
    """Load every plug-in that this program asked for; ``refused`` is told what is wrong with those that do not load."""
    for name in os.environ.get("HARDPOINT_DEVICE", "").split(","):
        try:
            yield _load_named(name.strip(), list(find())) if name.strip() else choose()
        except PluginError as error:
            refused(error)


def mount(plugin: Any) -> None:
    """Mount a plug-in, unless it is already: frameworks share it."""
    if plugin.name in core.mounted():
        return
    core.mount(plugin)
    _origins[plugin.name] = plugin.origin
    python = getattr(plugin, "python", None)
    if python is not None:
        python.overrides = [Override(plugin.name, *kernel) for kernel in python._kernels()]


_origins: dict[str, str] = {}


def origin(name: str) -> str:
    """Where a mounted plug-in came from: its library's path, or whatever its loader called it."""
    return _origins.get(name, "")


_loaded: dict[tuple[str, str], Any] = {}


def _load(found: Found) -> Any:
    """Load a plug-in; one that is mounted is not started a second time."""
    key = (found.name, found.source)
    plugin = _loaded.get(key)
    if plugin is None or plugin.name not in core.mounted():
        plugin = _loaded[key] = found.load()
    return plugin


def _load_named(name: str, found: list[Found]) -> Any:
    # The name under which a plug-in was found is a hint; the device name is what the plug-in itself says.
    reasons = []
    for each in sorted(found, key=lambda f: f.name != name):
        if each.shipped and each.name != name:
            continue
        try:
            plugin = _load(each)
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
