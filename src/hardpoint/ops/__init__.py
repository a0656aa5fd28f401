"""The standard operators, as data.

Nothing else in Hardpoint knows an operator by name: adapters, reports and documentation are made from these tables. A
standard operator's name is the name of its kernel: a plug-in that exports ``__tvm_ffi_add`` serves every ATen overload
that ``add`` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

#: How the adapter prepares the operands before it calls the kernel.
#:
#: ``pointwise``: brought to one dtype and the output's shape (broadcast by stride 0); a CPU scalar becomes a number.
#: ``matmul``: passed as they are.
#: ``fill``: the output alone.
#: ``copy``: one operand of any dtype and layout; served by the adapter's copy routines.
Kind = Literal["pointwise", "matmul", "fill", "copy"]


@dataclass(frozen=True)
class Op:
    """A standard operator: ``name(output, *inputs, *attributes)`` in destination-passing style."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    doc: str
    #: ATen overload -> its arguments (or constants) that are the kernel's attributes, in order. For an overload with a
    #: structured kernel, the out= and in-place variants follow by themselves.
    aten: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)


def all_ops() -> Iterator[Op]:
    """Every standard operator, family by family."""
    from hardpoint.ops import creation, matmul, pointwise

    for family in (pointwise, matmul, creation):
        yield from family.OPS
