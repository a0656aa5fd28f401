"""The public Python API: names, types, and objects with fields."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugin_tools import ROOT

import hardpoint
import hardpoint.torch
from hardpoint.kernels import Kernel
from hardpoint.plugin import Plugin

hardpoint.torch.mount()

PROGRAM = """
import hardpoint
from hardpoint import kernel
from hardpoint.devices import sim
from hardpoint.plugin import DeviceProperties, Info, Plugin, Streams

for device in hardpoint.devices():
    reveal_type(device)  # hardpoint._runtime.Device
    name: str = device.name + str(device)
    free: float = device.free_memory / device.total_memory
reveal_type(hardpoint.__version__)  # str
calls: int = hardpoint.counters()["aten::add.Tensor"]["vendor"]
hardpoint.counters()["aten::add.Tensor"]["gpu"]  # error
sim.set_fault(3)  # error

@kernel("relu")
def relu(out: object, x: object) -> None: ...

relu.remove()
relu(1, 2)
relu(1)  # error

class Chip(Plugin, Streams, Info):
    name = "chip"

    def allocate(self, device: int, count: int) -> int:
        return 0

    def free(self, device: int, address: str) -> None: ...  # error

    def properties(self, device: int) -> DeviceProperties:
        return {"name": "chip", "cores": 3}  # error

    def query_stream(self, device: int, stream: int) -> str:  # error
        return ""

    @kernel("add")
    def add(self, out: object, a: object, b: object, alpha: float) -> None: ...

Chip().add(1, 2, 3, 4.0)
Chip().add(1, 2)  # error
"""


@pytest.mark.slow
def test_mypy_checks_a_user_program(tmp_path: Path) -> None:
    """mypy reports the marked lines and no others."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    found = re.findall(r"program\.py:(\d+): (error|note: Revealed type is (.*))", done.stdout)
    expected = {}
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        if "reveal_type" in line:
            expected[number] = f'"{line.partition("# ")[2]}"'
        elif line.endswith("# error"):
            expected[number] = ""
    assert {int(number): revealed for number, _, revealed in found} == expected, done.stdout + done.stderr


def signatures(module: str) -> Iterator[tuple[str, inspect.Signature]]:
    """Public functions and methods that a module defines or exports."""

    def visit(owner: str, scope: dict[str, object], home: str) -> Iterator[tuple[str, inspect.Signature]]:
        for name, value in scope.items():
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            if isinstance(value, (property, staticmethod, classmethod)):
                value = value.fget if isinstance(value, property) else value.__func__
            if inspect.isfunction(value) and value.__module__.startswith("hardpoint"):
                yield f"{owner}.{name}", inspect.signature(value)
            elif inspect.isclass(value) and value.__module__.startswith(home):
                fields = getattr(value, "__annotations__", {})
                yield f"{owner}.{name}", inspect.Signature(return_annotation=", ".join(map(str, fields.values())))
                yield from visit(f"{owner}.{name}", dict(vars(value)), home)

    loaded = importlib.import_module(module)
    exported = getattr(loaded, "__all__", None)
    scope = {n: getattr(loaded, n) for n in exported} if exported else dict(vars(loaded))
    home = "hardpoint" if exported else module
    own = {n: v for n, v in scope.items() if getattr(v, "__module__", "").startswith(home)}
    yield from visit(module, own, home)


@pytest.mark.parametrize(
    "module",
    [
        *("hardpoint", "hardpoint.plugin", "hardpoint.kernels", "hardpoint.kernels.custom", "hardpoint.torch"),
        *("hardpoint.torch.metadata", "hardpoint.paddle", "hardpoint.paddle.dlpack", "hardpoint.graph"),
        *("hardpoint.debug", "hardpoint.devices", "hardpoint.devices.sim", "hardpoint.devices.cuda"),
    ],
)
def test_no_any_in_public_signatures(module: str) -> None:
    found = dict(signatures(module))
    assert found
    assert [f"{name}{text}" for name, text in found.items() if re.search(r"\bAny\b", str(text))] == []
    unannotated = [name for name, text in found.items() if text.return_annotation is inspect.Signature.empty]
    assert unannotated == []


def test_devices_have_fields() -> None:
    first, *_ = devices = hardpoint.devices("sim")
    assert [str(device) for device in devices] == [f"sim:{i}" for i in range(len(devices))]
    assert (first.plugin, first.index) == ("sim", 0)
    assert "sim" in first.name.lower()
    assert first.compute_units > 0
    assert 0 < first.free_memory <= first.total_memory
    assert set(devices) <= set(hardpoint.devices())
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.index = 1  # type: ignore[misc]
    with pytest.raises(hardpoint.PluginError, match="nowhere"):
        hardpoint.devices("nowhere")


def test_version_comes_from_the_project() -> None:
    written = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert written
    assert hardpoint.__version__ == written[1]
    assert not hasattr(hardpoint, "nonsense")


# ---- One decorator for kernels


def test_kernel_is_one_function() -> None:
    assert hardpoint.kernel is hardpoint.plugin.kernel is hardpoint.kernels.kernel


class Kernels:
    """A mix-in with kernels."""

    @hardpoint.kernel("relu", strided=True)
    def relu(self, out: list[int], x: int) -> None:
        """Write max(x, 0) to out."""
        out.append(max(x, 0))


class Chip(Kernels, Plugin):
    name = "chip"


class Faster(Chip):
    @hardpoint.kernel("relu")
    def relu(self, out: list[int], x: int) -> None:
        super().relu(out, x)
        out.append(-1)


def test_a_kernel_in_a_class_body_is_a_method() -> None:
    assert isinstance(Chip.relu, Kernel)
    assert (Chip.relu.name, Chip.relu.strided, Chip.relu.device) == ("relu", True, None)
    assert Chip.relu.__doc__ == "Write max(x, 0) to out."
    out: list[int] = []
    Faster().relu(out, 3)
    assert out == [3, -1]


def test_kernels_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = []
    monkeypatch.setattr(Kernel, "register", lambda self, device: registered.append((device, self)) or self)
    plugin = Faster()
    plugin._register_kernels()
    ((device, kernel),) = registered
    assert (device, kernel.name, kernel.strided) == ("chip", "relu", False)
    out: list[int] = []
    kernel(out, -3)
    assert out == [0, -1]


def test_kernels_of_a_class_take_no_device() -> None:
    with pytest.raises(TypeError, match="omit device="):

        class Wrong(Plugin):
            @hardpoint.kernel("relu", device="sim")
            def relu(self, out: object, x: object) -> None: ...

    with pytest.raises(TypeError, match="kernel 'relu' already"):

        class Twice(Plugin):
            @hardpoint.kernel("exp")
            @hardpoint.kernel("relu")
            def both(self, out: object, x: object) -> None: ...


def test_functions_of_a_class_can_replace_kernels() -> None:
    """Outside a class body, a function replaces the device's kernel, including one defined in a class."""

    class Holder:
        @staticmethod
        def relu(out: object, x: object) -> None:
            raise NotImplementedError

    with hardpoint.kernel("relu", device="sim")(Holder.relu) as replaced:
        assert replaced.device == "sim"
    assert replaced.device is None
