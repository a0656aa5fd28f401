"""Names that a device or a namespace of operators may have."""

from __future__ import annotations

import keyword
import os
import re
import sys
from importlib.util import find_spec

#: As the core accepts them (csrc/core/plugin.cpp).
VALID = re.compile(r"[a-z][a-z0-9_]{0,31}")
#: torch's own device types and namespaces, for a machine without torch; with it, torch itself is asked too.
TORCH_DEVICES = re.findall(
    r"\w+",
    "cpu cuda mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia xpu ipu privateuseone",
)
TORCH_NAMESPACES = re.findall(r"\w+", "aten prim prims prepacked quantized inductor higher_order c10d profiler")
#: Packages that every project here needs beside its own.
PACKAGES = ("hardpoint", "torch", "paddle", "numpy", "pytest", "setuptools", "tvm_ffi", "tests", "src")


class BadName(ValueError):
    """A name that a project cannot have; the message says why."""


def check(name: str, kind: str) -> None:
    """Refuse a name that is no identifier, or that somebody else has. ``kind`` is "device" or "ops"."""
    if not VALID.fullmatch(name):
        raise BadName(
            f"'{name}' cannot be a name: it takes at most 32 of a-z, 0-9 and _, and starts with a letter, "
            "because it becomes a Python package and what users write in their programs"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise BadName(f"'{name}' is a word of Python itself; choose another name")
    if name in sys.stdlib_module_names or name in PACKAGES:
        raise BadName(f"'{name}' is a Python package that others import; choose another name")
    taken = _device_taken(name) if kind == "device" else _namespace_taken(name)
    if taken:
        raise BadName(f"'{name}' cannot be the name of {'a device' if kind == 'device' else 'a namespace'}: it {taken}")


def _device_taken(name: str) -> str | None:
    from hardpoint.paddle import RESERVED

    if name in TORCH_DEVICES:
        return "is a device type of torch itself"
    if name in RESERVED:
        return "is a device type of Paddle itself"
    if name == "sim":
        return "is Hardpoint's simulated device"
    if not _import_torch():
        return None
    from hardpoint.torch import what_hides

    return what_hides(name)


def _namespace_taken(name: str) -> str | None:
    if name in TORCH_NAMESPACES:
        return "is one of torch's own"
    if not _import_torch():
        return None
    import torch

    spaces = {operator.partition("::")[0] for operator in torch._C._dispatch_get_all_op_names()}
    return "has operators in this torch already" if name in spaces else None


def _import_torch() -> bool:
    """Whether torch is there; importing it here mounts nothing."""
    if find_spec("torch") is None:
        return False
    kept = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch  # noqa: F401
    finally:
        if kept is None:
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = kept
    return True
