"""Mapping of Paddle kernels to standard operators, one module per table of :mod:`hardpoint.ops`.

``KERNELS`` maps standard operator -> Paddle kernel -> :class:`Phi`. Kernels of custom operators are implemented by a
function of the same name in ``csrc/paddle/ops/<family>.cpp``. ``COMPOSED`` lists kernels that such a function composes
of several standard operators, ``PAIRS`` gradients of binary functions (both only in modules with a file of the same
name there), and ``SIGNATURES`` kernels that Paddle has for
GPUs only, so that there is no CPU kernel to take the signature from. ``selected_rows`` has tables of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hardpoint.ops import FAMILIES, Op, family_ops


@dataclass(frozen=True)
class Phi:
    """Mapping of a Paddle kernel to a pointwise operator. ``$2`` is the kernel's attribute at position 2."""

    #: Positions of the operator's inputs among the kernel's; empty: same order.
    inputs: tuple[int, ...] = ()
    #: Attributes of the operator in order: ``$N``, a literal number, or ``$N or NUMBER`` to replace a zero.
    attributes: tuple[float | str, ...] = ()
    #: One of ``Op.variants``, or ``$N`` for an attribute that selects one: a string, or a bool for the first two.
    variant: str = ""
    #: Whether Paddle refuses a second attribute that is less than the first.
    ascending: bool = False


#: Inputs in the same order, no attributes.
PLAIN = Phi()


@dataclass(frozen=True)
class Signature:
    """Arguments of a kernel in Paddle's order. There is no CPU kernel to fall back to."""

    #: ``name?`` is optional.
    inputs: tuple[str, ...]
    #: Name -> phi::AttributeType.
    attributes: Mapping[str, str]
    outputs: tuple[str, ...]


Kernels = Mapping[str, Mapping[str, Phi]]

#: Kernels left to Paddle, which only share the memory of a sparse tensor's members.
LEFT_TO_PADDLE = ("values_coo", "indices_coo", "values_csr", "sparse_coo_tensor")

#: Positions of outputs that stay float32 if the kernel's dtype is a 16-bit float: statistics, sums of losses.
FLOAT32_OUTPUTS = {
    "batch_norm": (1, 2, 3, 4),
    "batch_norm_infer": (1, 2),
    "batch_norm_grad": (1, 2),
    "layer_norm": (1, 2),
    "group_norm": (1, 2),
    "instance_norm": (1, 2),
    "cross_entropy_with_softmax": (1,),
}


def same(*names: str) -> dict[str, dict[str, Phi]]:
    """Operators with the same name in Paddle."""
    return {name: {name: PLAIN} for name in names}


def family_kernels(family: str) -> list[tuple[Op, str, Phi]]:
    """(operator, kernel, mapping) of one module."""
    if find_spec(f"hardpoint.ops.phi.{family}") is None:
        return []
    table: Kernels = import_module(f"hardpoint.ops.phi.{family}").KERNELS
    ops = {op.name: op for name in FAMILIES for op in family_ops(name)}
    return [(ops[name], kernel, phi) for name, kernels in table.items() for kernel, phi in kernels.items()]


def _optional(family: str, name: str) -> Any:
    if find_spec(f"hardpoint.ops.phi.{family}") is None:
        return ()
    return getattr(import_module(f"hardpoint.ops.phi.{family}"), name, ())


def composed(family: str) -> tuple[str, ...]:
    """Kernels of a module that are composed of several operators."""
    return tuple(_optional(family, "COMPOSED"))


def pairs(family: str) -> dict[str, tuple[str, str]]:
    """Gradients of a module that consist of two pointwise operators."""
    return dict(_optional(family, "PAIRS"))


def sparse(family: str) -> dict[str, str]:
    """Kernels of a module with tensors that are not dense -> the function that serves them, as a C++ expression."""
    functions = {kernel: f"&{kernel}" for kernel in _optional(family, "SPARSE")}
    lambdas = {
        kernel: f'with_dense_gradient(call, arguments, "{dense}", {lazy})'
        for kernel, (dense, lazy) in dict(_optional(family, "WITH_DENSE_GRADIENT")).items()
    }
    lambdas |= {
        kernel: f'on_values(call, arguments, "{dense}")'
        for kernel, dense in dict(_optional(family, "ON_VALUES")).items()
    }
    start = "[](Call& call, const SparseArguments& arguments)"
    return functions | {kernel: f"{start} {{ return {body}; }}" for kernel, body in lambdas.items()}


def signatures(family: str) -> dict[str, Signature]:
    """Signatures of kernels of a module that Paddle lacks on the CPU."""
    return dict(_optional(family, "SIGNATURES"))


def all_kernels() -> list[tuple[Op, str, Phi]]:
    """(operator, kernel, mapping) of all modules."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    return [entry for file in files for entry in family_kernels(file)]
