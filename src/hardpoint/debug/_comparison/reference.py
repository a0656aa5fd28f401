"""Runs a torch call on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from hardpoint.debug._calls import schema
from hardpoint.debug._calls.torch_copy import replace, tensors
from hardpoint.debug._comparison import attention
from hardpoint.ops.torch_overloads import ATTENTION, CPU_NAMES

#: Dtype -> the wider dtype of its reference.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex32: torch.complex64,
    torch.complex64: torch.complex128,
}


class NoReferenceError(Exception):
    """The CPU cannot run this call; the message gives the reason."""


def cpu_overload(name: str) -> Any:
    """The function to call on the CPU for an overload; its name may differ."""
    bare = name.removeprefix("aten::")
    return schema.overload(f"aten::{CPU_NAMES[bare]}" if bare in CPU_NAMES else name)


def _cpu_arguments(name: str, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for :func:`cpu_overload`, with devices replaced by the CPU."""
    given = schema.by_name(name, arguments)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for formal in cpu_overload(name)._schema.arguments:
        value = given.get(formal.name)
        if isinstance(value, torch.device):
            value = torch.device("cpu")
        elif isinstance(value, torch.Generator):
            value = None
        if formal.kwarg_only:
            keywords[formal.name] = value
        else:
            positional.append(value)
    return positional, keywords


def call(name: str, arguments: list[Any]) -> list[Any]:
    """Run an overload on CPU arguments, modifying those that it writes. Raises :class:`NoReferenceError`."""
    if (composed := ATTENTION.get(name.removeprefix("aten::"))) is not None:
        if schema.by_name(name, arguments)["dropout_p"] != 0:
            raise NoReferenceError("dropout drops different elements on each device")
        return list(getattr(attention, composed)(*arguments))
    positional, keywords = _cpu_arguments(name, arguments)
    function = cpu_overload(name)
    try:
        try:
            results = function(*positional, **keywords)
        except RuntimeError as error:
            if "Expected a value of type 'Tensor'" not in str(error):
                raise
            # Not every operator accepts a Python number for a tensor.
            formals = (formal for formal in function._schema.arguments if not formal.kwarg_only)
            positional = [
                torch.tensor(v) if isinstance(v, (bool, int, float, complex)) and str(f.type) == "Tensor" else v
                for v, f in zip(positional, formals, strict=True)
            ]
            results = function(*positional, **keywords)
    except Exception as error:
        raise NoReferenceError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    if len(function._schema.returns) > 1:
        return list(results)
    return [] if results is None else [results]


def widen(values: list[Any]) -> list[Any]:
    """Copies of the arguments in wider dtypes. They do not share memory."""
    copies = {id(t): t.to(WIDER[t.dtype]) if t.dtype in WIDER else t.clone() for t in tensors(values)}
    return list(replace(values, copies))
