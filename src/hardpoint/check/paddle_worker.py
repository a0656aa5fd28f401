"""Run one of Paddle's test files on the mounted device, or on the CPU, without editing it.

A process gets one JSON argument (:class:`Job`) and writes the log that :mod:`hardpoint.check.suite_worker` describes.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import runpy
import sys
import tempfile
import types
import unittest
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hardpoint.paddle
from hardpoint.check import fork_server, paddle_script
from hardpoint.check.paddle_names import FOREIGN
from hardpoint.check.suite_worker import Log, is_fixture, name_of, owner, tests_of

_BUILT_IN = ("gpu", "xpu")  # Paddle's own
_PLACED = re.compile(r"\bCustomPlace\b|custom_device")


@dataclass
class Job:
    """What one process does."""

    file: str
    log: str
    #: Name of the mounted device, or ``cpu``.
    device: str
    #: Folders to import from, such as Paddle's ``test/legacy_test``.
    path: list[str] = field(default_factory=list)
    #: Tests to run; all if empty.
    only: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)

    def argument(self) -> str:
        """The job as text."""
        return json.dumps(asdict(self))


def _stand_in(real: type, make: Callable[..., Any]) -> type:
    """A class that replaces ``real``: calls construct with ``make``, and ``isinstance`` still tests for ``real``."""

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    return Meta(real.__name__, (), {})


class _Core(types.ModuleType):
    """``paddle.base.core`` as test files see it, with another ``CPUPlace``."""

    def __init__(self, real: Any, cpu_place: type) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(real=real, CPUPlace=cpu_place)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["real"], name, value)


def restore_names() -> None:
    """Give test files of earlier releases the names that Paddle and numpy have changed since."""
    import numpy
    from paddle.base import core

    for module, before, now in ((core, "get_attrtibute_type", "get_attribute_type"), (numpy, "product", "prod")):
        if not hasattr(module, before) and hasattr(module, now):
            setattr(module, before, getattr(module, now))


def install(device: str, replace_cpu: bool) -> None:
    """Make test files run on ``device``, with ``replace_cpu`` also where they name the CPU."""
    import paddle
    from paddle.base import core

    real_custom, real_cpu, real_set = core.CustomPlace, core.CPUPlace, paddle.device.set_device
    real_convert = paddle.device._convert_to_place
    mounted = tuple(core.get_all_custom_device_type())

    def place(index: int = 0) -> Any:
        return real_cpu() if device == "cpu" else real_custom(device, index)

    def custom(name: str, index: int = 0) -> Any:
        return place(index) if name in FOREIGN or name == device or device == "cpu" else real_custom(name, index)

    def rename(name: Any, replace_cpu: bool) -> Any:
        if isinstance(name, str):
            kind, _, index = name.partition(":")
            if kind in FOREIGN or (kind == "cpu" and replace_cpu) or (kind in mounted and device == "cpu"):
                return device if device == "cpu" or not index else f"{device}:{index}"
        return name

    def set_device(name: Any) -> Any:
        return real_set(rename(name, replace_cpu))

    def convert(name: Any) -> Any:
        return real_convert(rename(name, False))

    module: Any
    for module in (paddle, paddle.base, paddle.framework, core):
        if hasattr(module, "CustomPlace"):
            module.CustomPlace = _stand_in(real_custom, custom)
    if replace_cpu and device != "cpu":
        stand_in = _stand_in(real_cpu, place)
        for module in (paddle, paddle.base, paddle.framework):
            if hasattr(module, "CPUPlace"):
                module.CPUPlace = stand_in
        # Paddle's own modules, imported by now, keep the real `core`.
        paddle.base.core = _Core(core, stand_in)
    paddle.set_device = paddle.device.set_device = set_device
    paddle.device._convert_to_place = convert
    names = [*mounted, *FOREIGN]
    for module in (core, paddle.device):
        module.get_all_custom_device_type = lambda: list(names)
        module.is_compiled_with_custom_device = lambda name: name in names
    native = sys.modules["paddle.base.libpaddle"]
    for module, function in ((core, "get_custom_device_count"), (native, "_get_device_min_chunk_size")):
        setattr(module, function, _with_name(getattr(module, function), device))
    for function in ("get_available_device", "get_available_custom_device"):
        setattr(core, function, _with_foreign_names(getattr(core, function), device))
    vendor = types.ModuleType("paddle_custom_device")
    # Pretend to have the newest toolkit, so that no test is skipped.
    vendor.npu = types.SimpleNamespace(version=lambda: {"cann": "8.0.0"})  # type: ignore[attr-defined]
    sys.modules["paddle_custom_device"] = vendor
    # In static mode: `enable_static` restores the device that was current when Paddle entered dynamic mode, which was
    # the CPU in the server.
    paddle.enable_static()
    real_set("cpu" if device == "cpu" else device)
    paddle.disable_static()


def _with_name(original: Callable[[str], int], device: str) -> Callable[[str], int]:
    """A function of a kind of device that takes the other names for this one."""
    return lambda name: original(device if name in FOREIGN else name)


def _with_foreign_names(original: Callable[[], list[str]], device: str) -> Callable[[], list[str]]:
    """A list of devices, such as ``sim:1``, that has those of this kind under the other names, too."""

    def available() -> list[str]:
        found = original()
        parts = [name.partition(":") for name in found]
        indices = [index or "0" for kind, _, index in parts if kind == device]
        return [*found, *(f"{name}:{index}" for name in FOREIGN if name not in _BUILT_IN for index in indices)]

    return available


def _adapt_op_test(module: Any, device: str) -> None:
    """Let Paddle's ``OpTest`` check the device, in 16-bit floats too, and leave out checks that compare programs."""
    import paddle

    if device != "cpu":
        module.OpTest._get_places = lambda self: [paddle.CustomPlace(device, 0)]
    for name in ("check_output", "check_output_with_place", "check_grad", "check_grad_with_place"):
        setattr(module.OpTest, name, _without_primitives(getattr(module.OpTest, name)))


def _without_primitives(check: Callable[..., Any]) -> Callable[..., Any]:
    """An ``OpTest`` method without the check of Paddle's decomposition into primitive operators."""

    @functools.wraps(check)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("only_check_prim", False):
            type(args[0]).op_type = args[0].op_type  # OpTest.tearDownClass asks for it
            return None
        return check(*args, **{**kwargs, "check_prim": False, "check_prim_pir": False})

    return wrapper


def _seed() -> None:
    import numpy
    import paddle

    random.seed(0)
    numpy.random.seed(0)
    paddle.seed(0)


def _late_error(device: str) -> str:
    """Wait for the device. An error of its kernels belongs to this test, not to the next one."""
    import paddle

    if device == "cpu":
        return ""
    try:
        paddle.device.synchronize(f"{device}:0")
    except Exception as error:
        return f"reported after the test: {type(error).__name__}: {error}"[:1200]
    return ""


def _run_tests(job: Job, log: Log, module: Any) -> None:
    for library in ("op_test", "tests.op_test"):
        if library in sys.modules:
            _adapt_op_test(sys.modules[library], job.device)
    classes = {owner(name) for name in job.only if is_fixture(name)}

    def wanted(name: str) -> bool:
        return name not in job.skip and (not job.only or name in job.only or owner(name) in classes)

    found = unittest.defaultTestLoader.loadTestsFromModule(module)
    tests = [test for test in tests_of(found) if wanted(name_of(test))]
    log.write(planned=[name_of(test) for test in tests])
    unittest.TestSuite(tests).run(log)


def _alias_tests(folders: list[str]) -> None:
    """PaddleCustomDevice's files import Paddle's test library as the package ``tests``."""
    package = types.ModuleType("tests")
    package.__path__ = folders
    sys.modules["tests"] = package


def main(argument: str) -> None:
    """Run a job."""
    job = Job(**json.loads(argument))
    file = Path(job.file)
    sys.path[:0] = [str(file.parent), *job.path]
    os.chdir(file.parent)
    hardpoint.paddle.mount()
    restore_names()
    _alias_tests([*job.path, str(file.parent)])
    paddle_script.redirect(job.device)
    install(job.device, replace_cpu=_PLACED.search(file.read_text()) is None)
    with open(job.log, "a") as stream:
        log = Log(stream, before=_seed, settle=lambda: _late_error(job.device))
        ran = False

        def run_main(*args: Any, **kwargs: Any) -> None:
            nonlocal ran
            ran = True
            _run_tests(job, log, sys.modules["__main__"])

        unittest.main = run_main  # type: ignore[misc,assignment]
        sys.argv = [job.file]
        hardpoint.reset_counters()
        try:
            namespace = runpy.run_path(job.file, run_name="__main__")
        except Exception as error:
            log.write(test="import", status="failed", detail=f"{type(error).__name__}: {error}"[:1200])
            return
        if not ran:
            module = types.ModuleType("__main__")
            vars(module).update(namespace)
            _run_tests(job, log, module)
        log.write_tiers(hardpoint.counters())


def load() -> None:
    """Import Paddle without its plug-ins, none of which may be mounted before a fork."""
    variable = "CUSTOM_DEVICE_ROOT"
    given = os.environ.get(variable)
    with tempfile.TemporaryDirectory() as empty:
        os.environ[variable] = empty
        import paddle  # noqa: F401
    os.environ.pop(variable)
    if given is not None:
        os.environ[variable] = given


if __name__ == "__main__":
    load()
    fork_server.serve(main)
