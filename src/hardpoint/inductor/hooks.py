"""Runs the registrations when parts of Dynamo and Inductor are imported, which most programs never do."""

from __future__ import annotations

import sys
import types
from typing import Any

from hardpoint._import_hook import after_import

#: torch.compile imports this module before it compiles anything with Inductor, but after it has traced.
COMPILER = "torch._inductor.compile_fx"
#: Dynamo imports these before it traces.
INTERFACES, TRITON = "torch._dynamo.device_interface", "torch.utils._triton"
FLEX_ATTENTION = "torch.nn.attention.flex_attention"
SCAN = "torch._higher_order_ops.associative_scan"
#: Devices for which PyTorch generates the code of a pointwise scan.
SCAN_DEVICES = ("cuda", "xpu")


def install(name: str) -> None:
    """Register the device with Dynamo and Inductor: now, or when they are imported."""
    after_import(INTERFACES, lambda: _register_interface(name))
    after_import(TRITON, lambda: _accept_triton(name))
    after_import(COMPILER, lambda: _register(name))
    after_import(FLEX_ATTENTION, lambda: _accept_flex_attention(name))
    after_import(SCAN, lambda: _accept_scan(name))


def _register_interface(name: str) -> None:
    from hardpoint.inductor import interface

    interface.register(name)


def _accept_triton(name: str) -> None:
    from hardpoint.inductor import availability

    availability.accept_triton(name)


def _accept_flex_attention(name: str) -> None:
    """Skip FlexAttention's check for the device: its list of devices is fixed. Code for unlisted devices is a GPU's."""
    module = sys.modules[FLEX_ATTENTION]
    original = getattr(module, "_validate_device", None)
    if original is None:
        return

    def validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != name:
            original(query, key, value)

    vars(module)["_validate_device"] = validate_device


def _accept_scan(name: str) -> None:
    """Let ``associative_scan`` take pointwise functions: code inside of it compares with a fixed list of devices."""
    function = getattr(sys.modules[SCAN], "associative_scan", None)
    if isinstance(function, types.FunctionType):
        function.__code__ = _with_constant(function.__code__, SCAN_DEVICES, (*SCAN_DEVICES, name))


def _with_constant(code: types.CodeType, old: object, new: object) -> types.CodeType:
    """Code in which a constant is replaced, also in the functions that it defines."""
    constants = []
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            value = _with_constant(value, old, new)
        constants.append(new if value == old else value)
    return code.replace(co_consts=tuple(constants))


def _register(name: str) -> None:
    from hardpoint.inductor import cache_key, device_graphs, registration

    cache_key.extend(name)
    registration.register(name)
    device_graphs.install(name)
