"""Validate names of devices and operator namespaces."""

from __future__ import annotations

import keyword
import os
import re
import sys
from importlib.util import find_spec

#: The rule of the core (csrc/core/runtime/plugin.cpp).
VALID = re.compile(r"[a-z][a-z0-9_]{0,31}")
#: Device types and namespaces of torch, for machines without torch; otherwise torch is queried too.
TORCH_DEVICES = re.findall(
    r"\w+",
    "cpu cuda mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia xpu ipu privateuseone",
)
TORCH_NAMESPACES = re.findall(r"\w+", "aten prim prims prepacked quantized inductor higher_order c10d profiler")
#: Packages that a project uses.
PACKAGES = ("hardpoint", "torch", "paddle", "numpy", "pytest", "setuptools", "tvm_ffi", "tests", "src")


class BadName(ValueError):
    """An invalid project name; the message gives the reason."""


def check(name: str, kind: str) -> None:
    """Raise BadName if the name is not an identifier or is taken. ``kind`` is "device" or "ops"."""
    if not VALID.fullmatch(name):
        raise BadName(
            f"'{name}' is not a valid name: use at most 32 characters of a-z, 0-9 and _, starting with a letter; "
            "the name becomes a Python package and is used in programs"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise BadName(f"'{name}' is a Python keyword; choose another name")
    if name in sys.stdlib_module_names or name in PACKAGES:
        raise BadName(f"'{name}' is the name of an existing Python package; choose another name")
    taken = _device_taken(name) if kind == "device" else _namespace_taken(name)
    if taken:
        raise BadName(f"'{name}' cannot be the name of {'a device' if kind == 'device' else 'a namespace'}: it {taken}")


def _device_taken(name: str) -> str | None:
    from hardpoint.paddle import RESERVED

    if name in TORCH_DEVICES:
        return "is a built-in device type of torch"
    if name in RESERVED:
        return "is a built-in device type of Paddle"
    if name == "sim":
        return "is Hardpoint's simulated device"
    if not _import_torch():
        return None
    from hardpoint.torch import name_conflict

    return name_conflict(name)


def _namespace_taken(name: str) -> str | None:
    if name in TORCH_NAMESPACES:
        return "is a namespace of torch"
    if not _import_torch():
        return None
    import torch

    spaces = {operator.partition("::")[0] for operator in torch._C._dispatch_get_all_op_names()}
    return "already has operators in this torch" if name in spaces else None


def _import_torch() -> bool:
    """Import torch, if installed, without mounting a device; returns whether it is installed."""
    if find_spec("torch") is None:
        return False
    previous = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch  # noqa: F401
    finally:
        if previous is None:
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = previous
    return True
