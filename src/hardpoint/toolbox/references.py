"""The same call on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from hardpoint.ops.torch_overloads import ATTENTION, CPU_NAMES
from hardpoint.toolbox import attention, snapshots
from hardpoint.toolbox.describing import overload

#: What a result is compared with when its own dtype leaves doubt.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex32: torch.complex64,
    torch.complex64: torch.complex128,
}


class NoReference(Exception):
    """The CPU cannot do this call; the message says why."""


def function_for(name: str) -> Any:
    """What the CPU calls the operator of that full name."""
    bare = name.removeprefix("aten::")
    return overload(f"aten::{CPU_NAMES[bare]}" if bare in CPU_NAMES else name)


def arrange(name: str, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments for :func:`function_for`, with the CPU for a device."""
    given = dict(zip((a.name for a in overload(name)._schema.arguments), arguments, strict=True))
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument in function_for(name)._schema.arguments:
        value = given.get(argument.name)
        if isinstance(value, torch.device):
            value = torch.device("cpu")
        elif isinstance(value, torch.Generator):
            value = None
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named


def call(name: str, arguments: list[Any]) -> list[Any]:
    """The results of the operator on CPU arguments; those that it writes are written. Raises :class:`NoReference`."""
    if (computed := ATTENTION.get(name.removeprefix("aten::"))) is not None:
        given = dict(zip((a.name for a in overload(name)._schema.arguments), arguments, strict=True))
        if given["dropout_p"] != 0:
            raise NoReference("dropout leaves other elements out on every device")
        return list(getattr(attention, computed)(*arguments))
    positional, named = arrange(name, arguments)
    function = function_for(name)
    try:
        try:
            results = function(*positional, **named)
        except RuntimeError as error:
            if "Expected a value of type 'Tensor'" not in str(error):
                raise
            # torch takes a number of the program for a tensor in some operators only.
            formals = (a for a in function._schema.arguments if not a.kwarg_only)
            positional = [
                torch.tensor(v) if isinstance(v, (bool, int, float, complex)) and str(f.type) == "Tensor" else v
                for v, f in zip(positional, formals, strict=True)
            ]
            results = function(*positional, **named)
    except Exception as error:
        raise NoReference(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    if len(function_for(name)._schema.returns) > 1:
        return list(results)
    return [] if results is None else [results]


def widen(values: Any) -> Any:
    """Arguments in wider dtypes; what shares memory does not any more."""
    others = {id(t): t.to(WIDER[t.dtype]) for t in snapshots.tensors(values) if t.dtype in WIDER}
    return snapshots.replace(values, others)
