"""Arguments that PyTorch's samples leave at their default, each with another value: ``keepdim``, ``alpha``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import torch

from hardpoint.check.samples import Sample, copied

#: Arguments whose other values change no result, or are not for the device.
NOT_VARIED = frozenset(
    (
        *("inplace", "unsafe", "sorted", "stable", "sparse", "non_blocking", "copy", "pin_memory", "requires_grad"),
        *("check_errors", "training", "train", "recompute_scale_factor", "mode", "compute_mode", "dim_size"),
        *("sparse_grad", "center", "onesided", "return_complex", "size_average", "reduce"),
        *("hermitian", "rcond"),  # promises about the input
    )
)
#: Variations of a sample.
MAX_VARIATIONS = 10


class Parameter(NamedTuple):
    """A parameter of an operator that has a default. ``position`` is -1 for keywords only."""

    name: str
    kind: str
    default: Any
    position: int


@cache
def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Parameters that are numbers, booleans or lists of integers, and have a default."""
    try:
        given = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return tuple(_of_schema(function))
    return tuple(
        Parameter(p.name, type(p.default).__name__, p.default, -1 if p.kind is p.KEYWORD_ONLY else number)
        for number, p in enumerate(given)
        if type(p.default) in (bool, int, float)
    )


#: Factors, whose sign matters.
_FACTORS = ("alpha", "beta", "value")
_KINDS = {"bool": "bool", "int": "int", "float": "float", "number": "float", "List[int]": "ints"}


def _of_schema(function: Callable[..., Any]) -> Iterable[Parameter]:
    from torch.jit._builtins import _find_builtin

    name, seen = _find_builtin(function), set()
    for schema in torch._C._jit_get_schemas_for_operator(name) if name else ():
        for number, argument in enumerate(schema.arguments):
            written = str(argument.type).removeprefix("Optional[")
            kind = _KINDS.get(written if written.startswith("List") and "]]" not in written else written.rstrip("]"))
            if kind is None and written.startswith("List[int]"):
                kind = "ints"
            if kind and argument.has_default_value() and argument.name not in seen:
                seen.add(argument.name)
                position = -1 if argument.kwarg_only else number
                yield Parameter(argument.name, kind, argument.default_value, position)


def _others(kind: str, default: Any) -> list[Any]:
    """Other values of a parameter."""
    if kind == "bool":
        return [not default]
    if kind == "int":
        return [2] if default == 1 else [0] if default is None else [default + 1, default - 1]
    if kind == "float":
        return [0.75 if default is None else default * 1.5 + 0.25]
    if isinstance(default, int):
        return [default + 1]
    return [[0]] if default is None else [[n + 1 for n in default]] if default else []


def variations(function: Callable[..., Any], sample: Sample) -> list[Sample]:
    """The sample with one argument changed: each that it leaves at the default, and each keyword that it gives."""
    whole = not any(t.is_floating_point() or t.is_complex() for t in sample.tensors())
    found = []
    names = {parameter.position: parameter.name for parameter in parameters(function)}
    for number, given in enumerate(sample.args):
        if type(given) in (bool, float) and names.get(number + 1, "inplace") not in NOT_VARIED:
            (other,) = _others(type(given).__name__, given)
            args = (*sample.args[:number], other, *sample.args[number + 1 :])
            found.append(replace(sample, args=args, label=f"{names[number + 1]}={other}"))
    for name, kind, default, position in parameters(function):
        if name in NOT_VARIED or 0 <= position - 1 < len(sample.args):
            continue
        given = sample.kwargs.get(name, default)
        if name in sample.kwargs and type(given) not in (bool, int, float):
            continue
        others = _others(kind, given)
        if name in _FACTORS and kind in ("int", "float") and default == 1:
            others = [*others, -2]
        for value in others:
            changed = round(value) + 1 if kind == "float" and whole else value
            found.append(replace(sample, kwargs={**sample.kwargs, name: changed}, label=f"{name}={changed}"))
    return [copied(each) for each in found[:MAX_VARIATIONS]]  # some operators write their arguments


def dimension(function: Callable[..., Any], sample: Sample) -> str | int | None:
    """Where the sample has a dimension: the keyword, or its position after the input; None if it has none."""
    if isinstance(sample.kwargs.get("dim"), int):
        return "dim"
    try:
        names = list(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        from torch.jit._builtins import _find_builtin

        name = _find_builtin(function)
        schemas = torch._C._jit_get_schemas_for_operator(name) if name else ()
        integers = [s for s in schemas if any(a.name == "dim" and str(a.type) == "int" for a in s.arguments)]
        names = [a.name for a in integers[0].arguments] if integers else []
    position = names.index("dim") - 1 if "dim" in names else -1
    if 0 <= position < len(sample.args) and isinstance(sample.args[position], int):
        return position
    return None


def along(sample: Sample, where: str | int, dim: int) -> Sample:
    """The sample with another dimension."""
    if isinstance(where, str):
        return replace(sample, kwargs={**sample.kwargs, where: dim})
    return replace(sample, args=(*sample.args[:where], dim, *sample.args[where + 1 :]))
