"""Finds plug-ins, chooses one, and loads it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hardpoint._build_process import write_or_remove
from hardpoint._runtime import PluginError, cache_dir, core, package_file, tvm_ffi_library
from hardpoint.devices import paddle_bridge

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

#: The entry-point group of plug-ins.
GROUP = "hardpoint.plugins"
#: The device that ``import hardpoint`` mounts when nothing else is chosen.
DEFAULT_DEVICE = "sim"
#: Time limit for hp_plugin_init in the probe process.
PROBE_SECONDS = 60.0
#: Exit status of the probe process: this for a good plug-in, plus 1 for a refused one. Any other status means that the
#: plug-in ended the process.
_PROBE_STATUS = 90

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A plug-in found through an entry point or an environment variable.

    Attributes:
        name: Name of the entry point or file. The device's name is known only after loading.
        source: The package or path it came from.
        load: Loads the plug-in without mounting it.
        probe: Loads the plug-in in a child process only; None unless it is part of Hardpoint.
    """

    name: str
    source: str
    load: Callable[[], LoadedPlugin]
    probe: Callable[[], None] | None = None

    @property
    def shipped(self) -> bool:
        """Whether the plug-in is part of Hardpoint."""
        return self.probe is not None


def _from_entry_point(entry: EntryPoint) -> Found:
    def target() -> object:
        try:
            given: object = entry.load()
            return given() if callable(given) and not isinstance(given, type) else given
        except (Exception, SystemExit) as error:
            raise PluginError(f"plug-in '{entry.name}' ({entry.value}): {type(error).__name__}: {error}") from error

    package = entry.dist.name if entry.dist is not None else "?"
    return Found(
        entry.name,
        f"package {package}",
        lambda: _load_target(target(), f"{entry.name} ({entry.value})"),
        (lambda: probe(Path(str(target())))) if package == "hardpoint" else None,
    )


def _from_path(path: Path) -> Found:
    return Found(path.stem.removeprefix("lib"), str(path), lambda: load_path(path))


def _from_empty_folder(folder: Path) -> Found:
    def load() -> LoadedPlugin:
        raise PluginError(f"{folder}: the folder has no *.so or *.py file; check HARDPOINT_PLUGIN_PATH")

    return Found(folder.name, str(folder), load)


def _from_paddle(path: Path) -> Found:
    name = path.stem.removeprefix("lib").removeprefix("paddle_")
    return Found(name, str(path), lambda: paddle_bridge.load(path))


def _load_target(target: object, origin: str) -> LoadedPlugin:
    """Load the value of an entry point: the path of a shared library, or a Python plug-in (instance or class)."""
    from hardpoint import _plugin_adapter
    from hardpoint.plugin import Plugin

    if isinstance(target, type) and issubclass(target, Plugin):
        target = _construct(target, origin)
    if isinstance(target, Plugin):
        return _plugin_adapter.load(target, origin)
    if isinstance(target, (str, os.PathLike)):
        return load_path(target)
    raise PluginError(
        f"plug-in {origin}: expected the path of a shared library or a hardpoint.plugin.Plugin, "
        f"got {type(target).__name__}"
    )


def _construct(factory: Callable[[], T], origin: str) -> T:
    """Call vendor code, and turn its exceptions into a PluginError."""
    try:
        return factory()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{origin}: {type(error).__name__}: {error}") from error


def load_path(path: str | os.PathLike[str], *, trial: bool = True) -> LoadedPlugin:
    """Load a plug-in from a file, without mounting it.

    Args:
        path: A shared library, or a Python file that defines one :class:`hardpoint.plugin.Plugin`.
        trial: Load the library in a child process first, so that a crash becomes an error message. A debugger needs
            False.
    """
    path = Path(path).absolute()  # dlopen looks for a bare file name in the system's folders only
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise PluginError(
            f"{path}: no such file; check HARDPOINT_PLUGIN_PATH or reinstall the plug-in's package"
        ) from None
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror}; check HARDPOINT_PLUGIN_PATH") from None
    if not stat.S_ISREG(mode):
        raise PluginError(f"{path}: is not a file; name the plug-in's library or Python file")
    if path.suffix == ".py":
        if trial:
            probe(path)
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


def _load_python_file(path: Path) -> LoadedPlugin:
    import runpy

    from hardpoint import _plugin_adapter
    from hardpoint.plugin import Plugin

    # The bare stem could hide a module of that name: run_path puts the file in sys.modules while it runs.
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
    return _plugin_adapter.load(_construct(classes[0], str(path)), str(path))


def probe(path: Path, subject: Path | None = None) -> None:
    """Load a plug-in in a child process, once for each version of the file, so that a crash becomes an error message.

    Args:
        path: The library or Python file to load.
        subject: The file whose versions count, if ``path`` is the bridge to it.
    """
    file = subject or path
    status = file.stat()
    stamp = cache_dir() / "probed" / f"{zlib.crc32(str(file.resolve()).encode()):x}"
    key = f"{status.st_size} {status.st_mtime_ns}"
    try:
        if stamp.read_text() == key:
            return
    except OSError:
        pass
    load_in_child(path, subject)
    with contextlib.suppress(OSError):  # with a full or read-only cache the next process probes again
        stamp.parent.mkdir(parents=True, exist_ok=True)
        write_or_remove(stamp, key.encode())


#: Loads a library through the core, without the hardpoint package.
_PROBE_LIBRARY = f"""
import ctypes, sys
core, library, tvm_ffi, steps = sys.argv[1:]
ctypes.CDLL(tvm_ffi, mode=ctypes.RTLD_GLOBAL)
raise SystemExit({_PROBE_STATUS} + ctypes.CDLL(core).hp_probe(library.encode(), int(steps)))
"""
#: Runs a Python file. Its exceptions do not matter here: the user's process shows them.
_PROBE_PYTHON = f"""
import os, sys
from hardpoint import _discovery
steps = int(sys.argv[2])
os.write(steps, b"in the Python file\\n")
try:
    _discovery.load_path(sys.argv[1], trial=False)
except Exception:
    pass
os.write(steps, b"\\x1e")
os._exit({_PROBE_STATUS})
"""


def load_in_child(path: Path, subject: Path | None = None) -> None:
    """Load a plug-in in a child process. Raises PluginError if it is refused, crashes, hangs or exits there."""
    setting = f"{paddle_bridge.VARIABLE}={subject} " if subject else ""
    environment = {k: v for k, v in os.environ.items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    if path.suffix == ".py":
        command = [sys.executable, "-c", _PROBE_PYTHON, str(path)]
        environment["HARDPOINT_DEVICE"] = DEFAULT_DEVICE  # if the file imports torch: not itself
    else:
        core = package_file("lib/libhardpoint_core.so")
        command = [sys.executable, "-S", "-E", "-c", _PROBE_LIBRARY, str(core), str(path), tvm_ffi_library()]
    # In memory, not a pipe: a pipe has no end while a daemon that the plug-in starts keeps it open.
    with os.fdopen(os.memfd_create("hardpoint-probe"), "w+", encoding="utf-8", errors="replace") as steps:
        process = subprocess.Popen(
            [*command, str(steps.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(steps.fileno(),),
            env=environment,
        )
        try:
            status = _wait(process, steps.fileno())
        finally:
            process.kill()
            process.wait()
        steps.seek(0)
        passed, end, reason = steps.read().partition("\x1e")
    step = (passed.splitlines() or ["before it was loaded"])[-1]
    if subject:
        step = step.replace("hp_plugin_init", "InitPlugin")
    # The function that did not return, if it is one.
    function = step.removeprefix("in ") if step.startswith("in ") else ""
    if status is None:
        raise PluginError(
            f"{path}: {function or 'loading it'} did not return within {PROBE_SECONDS:g} s in the probe process"
            f"{'' if function else f', {step}'}; look for a wait on the driver or on a lock"
        )
    if status < 0:
        raise PluginError(
            f"{path}: crashed with signal {-status} in the probe process: {_signal_name(-status)} {step}; "
            f"run it under a debugger: {setting}gdb --args "
            f"{sys.executable} -c \"import hardpoint._discovery as d; d.load_path('{path}', trial=False)\""
        )
    if status == _PROBE_STATUS + 1 and reason:
        raise PluginError(reason.strip())
    if status != _PROBE_STATUS or not end:
        advice = f"{function} must return" if function else "loading it must not end the process"
        if function == "hp_plugin_init" or function == "device_count":
            advice += ", with host->fail(...) when something is wrong"
        raise PluginError(f"{path}: ended the probe process with exit status {status}; {advice}")


def _wait(process: subprocess.Popen[bytes], steps: int) -> int | None:
    """Wait for the probe process and return its status; None if the plug-in hangs. Starting Python does not count."""
    end = time.monotonic() + 10 * PROBE_SECONDS
    started = False
    while (status := process.poll()) is None and time.monotonic() < end:
        if not started and os.fstat(steps).st_size:
            started, end = True, time.monotonic() + PROBE_SECONDS
        time.sleep(0.005)
    return status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "it ended"


def find() -> Iterator[Found]:
    """Find plug-ins in ``HARDPOINT_PLUGIN_PATH``, ``HARDPOINT_PADDLE_PLUGIN`` and the installed packages.

    ``HARDPOINT_PLUGIN_PATH`` lists files, or folders of ``*.so`` and ``*.py`` files.
    """
    seen = set()
    for part in filter(None, os.environ.get("HARDPOINT_PLUGIN_PATH", "").split(os.pathsep)):
        path = Path(part)
        if os.path.isdir(path):
            files = sorted([*path.glob("*.so"), *path.glob("*.py")])
            if not files:
                yield _from_empty_folder(path)
        else:
            files = [path]
        for file in files:
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield _from_path(file)
    if paddle := os.environ.get(paddle_bridge.VARIABLE):
        yield _from_paddle(Path(paddle))
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        yield _from_entry_point(entry)


def choose() -> LoadedPlugin:
    """Load the chosen plug-in: the first name in ``HARDPOINT_DEVICE``, else the vendor's, else ``sim``."""
    wanted = os.environ.get("HARDPOINT_DEVICE")
    found = list(find())
    if wanted:
        return _load_named(wanted.split(",")[0].strip(), found)
    vendors = [f for f in found if not f.shipped]
    if len(vendors) > 1:
        return _load_only_usable(vendors)
    return _load(vendors[0]) if vendors else _load_named(DEFAULT_DEVICE, found)


def _load_only_usable(vendors: list[Found]) -> LoadedPlugin:
    """Load the only plug-in of several that is not refused, and warn about the others."""
    usable, reasons = [], []
    for each in vendors:
        try:
            usable.append((each, _load(each)))
        except PluginError as error:
            reasons.append(str(error))
    if not usable:
        raise PluginError(f"all {len(vendors)} plug-ins were refused:{_list(reasons)}")
    usable = [(each, plugin) for i, (each, plugin) in enumerate(usable) if plugin not in [p for _, p in usable[:i]]]
    if len(usable) > 1:
        names = ", ".join(f"{plugin.name} ({each.source})" for each, plugin in usable)
        if len({plugin.name for _, plugin in usable}) == 1:
            raise PluginError(
                f"several plug-ins have a device of the same name: {names}; remove all but one from "
                f"HARDPOINT_PLUGIN_PATH and from the installed packages{_list(reasons)}"
            )
        raise PluginError(
            f"more than one plug-in was found: {names}; set HARDPOINT_DEVICE to one of these names{_list(reasons)}"
        )
    plugin = usable[0][1]
    message = f"hardpoint: chose '{plugin.name}', the only usable plug-in of {len(vendors)}:{_list(reasons)}"
    warnings.warn(message, RuntimeWarning, stacklevel=2)
    return plugin


def _list(reasons: list[str]) -> str:
    return "".join(f"\n  refused: {reason}" for reason in reasons)


def missing_hardware(found: Found, error: Exception) -> str:
    """Return a short reason if a shipped plug-in found no driver or no device, else an empty string."""
    pattern = r"(?:hp_plugin_init failed \(not supported\): |: (?=plug-in '\w+' found no device))(.*?)(?:[:.] |$)"
    reason = re.search(pattern, str(error), re.MULTILINE) if found.shipped else None
    return reason[1] if reason else ""


def choose_all(on_error: Callable[[Exception], None]) -> Iterator[LoadedPlugin]:
    """Load every plug-in in ``HARDPOINT_DEVICE``, or the chosen one. Errors go to ``on_error``."""
    for name in os.environ.get("HARDPOINT_DEVICE", "").split(","):
        try:
            yield _load_named(name.strip(), list(find())) if name.strip() else choose()
        except PluginError as error:
            on_error(error)


def mount(plugin: LoadedPlugin) -> None:
    """Mount a plug-in, unless it is mounted already: frameworks share it."""
    if plugin.name in core.mounted():
        return
    core.mount(plugin)
    _origins[plugin.name] = plugin.origin
    if hasattr(plugin, "python"):
        plugin.python._register_kernels()


_origins: dict[str, str] = {}


def origin(name: str) -> str:
    """Return where a mounted plug-in came from: the path of its library, or its loader's description."""
    return _origins.get(name, "")


_loaded: dict[tuple[str, str], LoadedPlugin] = {}


def _load(found: Found) -> LoadedPlugin:
    """Load a plug-in. A mounted one is reused, since it must not be initialized twice."""
    key = (found.name, found.source)
    plugin = _loaded.get(key)
    if plugin is None or plugin.name not in core.mounted():
        plugin = _loaded[key] = found.load()
    return plugin


def _load_named(name: str, found: list[Found]) -> LoadedPlugin:
    # Found.name is a hint; the loaded plug-in has the device's name.
    available, reasons = [], []
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
        available.append(f"{plugin.name} ({each.source})")
    available += [each.name for each in found if _works_here(each)]
    names = ", ".join(available) or "none"
    raise PluginError(f"no plug-in provides a device named '{name}'; available: {names}{_list(reasons)}")


def _works_here(found: Found) -> bool:
    """Return whether this machine has the driver and device of a plug-in that is part of Hardpoint."""
    if found.probe is None:
        return False
    try:
        found.probe()
    except PluginError:
        return False
    return True
