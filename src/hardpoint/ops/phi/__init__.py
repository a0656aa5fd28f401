"""Which of Paddle's kernels map onto the standard operators: one file for each of csrc/paddle/ops, beside the tables.

Each has ``KERNELS``: standard operator -> kernel of Paddle -> how it maps. Of a custom operator nothing more is said
here: a function of the kernel's name in ``csrc/paddle/ops/<family>.cpp`` settles it. It may have ``COMPOSED``: kernels
that such a function puts together of several standard operators; ``PAIRS``: gradients of functions of two tensors; and
``SIGNATURES``: those that Paddle has for GPUs alone, which have no kernel for the CPU to take the arguments from.
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
    """How a kernel of Paddle maps onto a pointwise operator. ``$2`` is the kernel's attribute at position 2."""

    #: For each of the operator's inputs, the position of the kernel's; empty: in the same order.
    inputs: tuple[int, ...] = ()
    #: The operator's attributes, in order; a number stands for itself.
    attributes: tuple[float | str, ...] = ()
    #: One of ``Op.variants``, or the kernel's attribute that chooses: a string, or a truth value for the first two.
    variant: str = ""


#: Inputs in the same order, no attributes.
PLAIN = Phi()


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel, in Paddle's order. The last tier has no kernel for it."""

    #: ``name?`` may be absent.
    inputs: tuple[str, ...]
    #: Name -> one of phi::AttributeType.
    attributes: Mapping[str, str]
    outputs: tuple[str, ...]


Kernels = Mapping[str, Mapping[str, Phi]]

#: Kernels that Paddle serves itself: it is called with what is not dense as well.
LEFT_TO_PADDLE = ("add_n",)


def same(*names: str) -> dict[str, dict[str, Phi]]:
    """Operators that Paddle has under the same name."""
    return {name: {name: PLAIN} for name in names}


def family_kernels(family: str) -> list[tuple[Op, str, Phi]]:
    """The kernels of one file: operator, kernel, mapping."""
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
    """The kernels of a file that are put together of several operators."""
    return tuple(_optional(family, "COMPOSED"))


def pairs(family: str) -> dict[str, tuple[str, str]]:
    """The gradients of a file that two pointwise operators make."""
    return dict(_optional(family, "PAIRS"))


def signatures(family: str) -> dict[str, Signature]:
    """The kernels of a file that Paddle has no kernel for the CPU of."""
    return dict(_optional(family, "SIGNATURES"))


def all_kernels() -> list[tuple[Op, str, Phi]]:
    """The kernels of every file."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    return [entry for file in files for entry in family_kernels(file)]
