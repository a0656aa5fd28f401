"""The standard operators, as data.

Nothing else in Hardpoint knows an operator by name: adapters, reports and documentation are made from these tables. A
standard operator's name is the name of its kernel: a plug-in that exports ``__tvm_ffi_add`` serves every ATen overload
that ``add`` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Literal

#: How the adapter prepares the operands before it calls the kernel.
#:
#: ``pointwise``: brought to one dtype and the output's shape (broadcast by stride 0); a CPU scalar becomes a number.
#: ``copy``: one operand of any dtype and layout; served by the adapter's copy routines.
#: ``custom``: a function of that name in the adapter (``csrc/torch/ops/<family>.cpp``) settles shapes; another one of
#: that name in ``csrc/ops`` calls the kernels, for every framework.
Kind = Literal["pointwise", "copy", "custom"]

#: How a pointwise overload without a structured kernel finds its output's shape and dtype: one of the usual set-ups of
#: TensorIterator.
#:
#: ``real``: of a complex input, the output is real; ``angle``: the same, and whole numbers become floating-point ones.
#: ``complex``: real inputs, a complex output. ``scalar_first`` and ``scalar_last``: that input is a number.
Iteration = Literal[
    "unary",
    "unary_float",
    "binary",
    "comparison",
    "force_bool",
    "where",
    "real",
    "angle",
    "complex",
    "scalar_first",
    "scalar_last",
]

#: An expression for every real dtype, or one for each class of dtypes that has one: ``float``, ``int``, ``bool`` and
#: ``complex``; one for a single dtype (``bf16``) comes before its class's. Complex numbers have no signs for
#: arithmetic, only functions: ``M(add)(self, other)``; see kernels/math_complex.h. Where the output is real or bool, it
#: gets the real part.
Expression = str | Mapping[str, str]


@dataclass(frozen=True)
class Overload:
    """How an ATen overload maps onto its standard operator."""

    #: Arguments that are the kernel's attributes, in order; a number stands for itself, ``name=value`` gives an
    #: optional argument a value when it is absent, in the adapter's language.
    attributes: tuple[str | int, ...] = ()
    #: An argument that chooses among the operator's variants: a string, by its position in ``Op.variants``.
    chooser: str = ""
    iteration: Iteration | None = None
    #: Inputs of a vendor's kernel that are made of the overload's arguments, in the adapter's language.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Of a custom operator: its function settles the output's shape itself, although torch has a structured kernel.
    own_shape: bool = False
    #: The adapter's function takes every call: there is no CPU kernel of that name for the last tier.
    takes_all: bool = False
    #: For ``custom``: tensor arguments that may be on the host as well.
    host: tuple[str, ...] = ()
    #: For ``custom``: what the adapter's function gets after the overload's own arguments, in the adapter's language.
    #: It tells overloads apart that have the same arguments.
    more: tuple[str, ...] = ()
    #: For ``custom``: torch composes the overload of others, and does so for what the device does not take.
    composite: bool = False


@dataclass(frozen=True)
class Reduction:
    """How a reduction combines elements, in C: ``acc`` so far and the next element ``x``, both of the type ``A``.

    ``M(exp)`` is the function of that type in kernels/math.h, ``MAXIMUM`` and ``MINIMUM`` pass a NaN on.
    """

    #: What to start with: combined with anything, it changes nothing.
    initial: str
    #: Must not depend on the order: lanes are combined with it, too. Holds for vectors as it is.
    combine: str
    #: What is gathered of an element ``x``, which has the type of the input; ``p`` is a number given with the call.
    map: str = "x"
    #: The result, of ``count`` elements in all.
    finish: str = "acc"


@dataclass(frozen=True)
class Op:
    """A standard operator: ``name(output, *inputs, *attributes)`` in destination-passing style."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    doc: str
    #: ATen overload -> its mapping. For an overload with a structured kernel, the out= and in-place variants follow by
    #: themselves.
    aten: Mapping[str, Overload] = field(default_factory=dict)
    #: Names of the attributes, as the expression uses them.
    attributes: tuple[str, ...] = ()
    #: One output element in C, from ``inputs`` and ``attributes``, in the computation's type ``T``. ``M(exp)`` is the
    #: function of that type in kernels/math.h. Empty: no portable kernel.
    expression: Expression = ""
    #: For operators that a string attribute chooses among: its values, each with an expression.
    variants: Mapping[str, Expression] = field(default_factory=dict)
    #: torch's name of a dtype -> how far a result may be from the CPU's, relative and absolute; where nothing is said,
    #: torch's own tolerance of the dtype holds.
    tolerance: Mapping[str, tuple[float, float]] = field(default_factory=dict)


#: The modules of this package that hold tables.
FAMILIES = (
    "pointwise",
    "activation",
    "special",
    "derivative",
    "reduction",
    "extremes",
    "moments",
    "scan",
    "sort",
    "softmax",
    "normalisation",
    "loss",
    "attention",
    "matmul",
    "convolution",
    "recurrent",
    "creation",
    "shape",
    "indexing",
    "selection",
    "scatter",
    "unique",
    "pooling",
    "resampling",
    "padding",
    "grid",
    "random",
    "optimizer",
    "step",
    "ctc",
    "distance",
    "embedding_bag",
    "fft",
    "foreach",
    "hash",
    "histogram",
    "linalg",
    "segment",
)


def family_ops(family: str) -> tuple[Op, ...]:
    """The standard operators of one family."""
    return tuple(import_module(f"hardpoint.ops.{family}").OPS)


def all_ops() -> Iterator[Op]:
    """Every standard operator, family by family."""
    for family in FAMILIES:
        yield from family_ops(family)


@cache
def tolerances() -> dict[tuple[str, str], tuple[float, float]]:
    """ATen's name of an operator, without the overload, and torch's name of a dtype -> the operator's tolerance."""
    return {
        (overload.partition(".")[0], dtype): tolerance
        for op in all_ops()
        for overload in op.aten
        for dtype, tolerance in op.tolerance.items()
    }


def find(name: str) -> Op:
    """The standard operator of that name."""
    for op in all_ops():
        if op.name == name:
            return op
    raise KeyError(f"there is no standard operator '{name}'")
