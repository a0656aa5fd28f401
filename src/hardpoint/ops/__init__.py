"""Tables of the standard operators.

Wrappers, reports and documentation are generated from these tables. The name of a standard operator is the name of its
kernel: a plug-in that exports ``__tvm_ffi_add`` serves every ATen overload that ``add`` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Literal

#: How the adapter prepares operands and calls the kernel.
#:
#: ``pointwise``: operands are converted to one dtype and expanded to the output shape; a CPU scalar becomes a number.
#: ``copy``: one operand of any dtype and layout; served by the adapter's copy routines. ``custom``: a function of that
#: name in ``csrc/torch/ops/<family>.cpp`` computes shapes; one in ``csrc/ops``, for every framework, calls the kernels.
Kind = Literal["pointwise", "copy", "custom"]

#: TensorIterator setup that infers shape and dtype of a pointwise overload without a structured kernel.
#:
#: ``real``: complex inputs give real outputs; ``angle``: the same, and integers give floating-point outputs.
#: ``complex``: real inputs give complex outputs. ``scalar_first``, ``scalar_last``: that input is a number.
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

#: An expression for all real dtypes, or one per dtype class: ``float``, ``int``, ``bool`` and ``complex``; one for a
#: single dtype (``bf16``) overrides its class. Complex arithmetic uses functions instead of operators, such as
#: ``M(add)(self, other)`` (math_complex.h). A real or bool output gets the real part.
Expression = str | Mapping[str, str]


@dataclass(frozen=True)
class Overload:
    """Mapping of an ATen overload to its standard operator."""

    #: Arguments to pass as attributes, in order: a name, a literal number, or ``name=default`` with a C++ default for
    #: an optional argument.
    attributes: tuple[str | int, ...] = ()
    #: String argument that selects one of ``Op.variants``.
    variant_argument: str = ""
    iteration: Iteration | None = None
    #: C++ expressions for inputs of a vendor kernel that are not arguments of the overload.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: For ``custom``: the adapter's function computes the output shape although torch has a structured kernel.
    custom_shape: bool = False
    #: The adapter's function must take every call, because the CPU has no kernel of that name, or one whose result
    #: describes the CPU.
    device_only: bool = False
    #: For ``custom``: tensor arguments that may be on the host.
    host: tuple[str, ...] = ()
    #: For ``custom``: C++ arguments appended in the call of the adapter's function, to distinguish overloads with equal
    #: arguments.
    extra_arguments: tuple[str, ...] = ()
    #: For ``custom``: calls that the device declines go to torch's composite implementation.
    composite: bool = False


@dataclass(frozen=True)
class Reduction:
    """C expressions of a reduction, with accumulator ``acc`` and next element ``x``, both of type ``A``.

    ``M(exp)`` is the function for that type in kernels/headers/math.h; ``MAXIMUM`` and ``MINIMUM`` propagate NaN.
    """

    #: Identity element.
    initial: str
    #: Combines two values; must be associative and commutative, and valid for vector types.
    combine: str
    #: Applied to each element ``x`` of the input type; ``p`` is a scalar argument of the call.
    map: str = "x"
    #: Result from ``acc`` and the number of elements ``count``.
    finish: str = "acc"


@dataclass(frozen=True)
class Op:
    """A standard operator: ``name(output, *inputs, *attributes)`` in destination-passing style."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    doc: str
    #: ATen overload -> mapping. Structured overloads imply their out= and in-place variants.
    aten: Mapping[str, Overload] = field(default_factory=dict)
    #: Names of the attributes in the expression.
    attributes: tuple[str, ...] = ()
    #: One output element in C, from ``inputs`` and ``attributes``, in the computation's type ``T``. ``M(exp)`` is the
    #: function of that type in kernels/headers/math.h. Empty: no portable kernel.
    expression: Expression = ""
    #: For operators with a string attribute: value -> expression.
    variants: Mapping[str, Expression] = field(default_factory=dict)
    #: torch dtype name -> relative and absolute tolerance against the CPU; torch's default for other dtypes.
    tolerance: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: The result is bool, whatever the inputs are.
    boolean: bool = False

    @property
    def keeps_floats(self) -> bool:
        """Whether the operator accepts floating-point inputs and returns their dtype."""
        each = [e for e in (self.expression, *self.variants.values()) if isinstance(e, Mapping)]
        return not self.boolean and all("float" in e for e in each)


PLAIN = Overload()


def parse_signature(signature: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Name, inputs and attributes of ``name(input, ...; attribute, ...)``."""
    name, _, arguments = signature.removesuffix(")").partition("(")
    inputs, _, attributes = arguments.partition(";")
    return name, tuple(_names(inputs)), tuple(_names(attributes))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def custom_op(signature: str, doc: str, aten: str = "", overload: Overload = PLAIN) -> Op:
    """A ``custom`` operator. Spaces separate its ATen overloads, which all have the same mapping."""
    name, inputs, attributes = parse_signature(signature)
    return Op(name, "custom", inputs, doc, dict.fromkeys(aten.split(), overload), attributes)


def pointwise_op(
    signature: str,
    doc: str,
    aten: str,
    expression: Expression = "",
    *,
    iteration: Iteration | None = None,
    variants: Mapping[str, Expression] | None = None,
) -> Op:
    """A ``pointwise`` operator. Spaces separate its ATen overloads, whose attributes are those of the signature."""
    name, inputs, attributes = parse_signature(signature)
    overloads = dict.fromkeys(aten.split(), Overload(attributes, iteration=iteration))
    names = tuple(attribute.partition("=")[0] for attribute in attributes)
    return Op(name, "pointwise", inputs, doc, overloads, names, expression, variants or {})


#: Modules of this package with operator tables.
FAMILIES = (
    "pointwise",
    "activation",
    "special",
    "derivative",
    "reduction",
    "min_max",
    "variance",
    "scan",
    "sort",
    "softmax",
    "normalization",
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
    "grid_sample",
    "random",
    "optimizer",
    "optimizer_single_tensor",
    "ctc",
    "distance",
    "embedding_bag",
    "fft",
    "foreach",
    "hash_tensor",
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
    """(ATen name without overload, torch dtype name) -> tolerance."""
    return {
        (overload.partition(".")[0], dtype): tolerance
        for op in all_ops()
        for overload in op.aten
        for dtype, tolerance in op.tolerance.items()
    }


def find(name: str) -> Op:
    """Look up a standard operator by name."""
    for op in all_ops():
        if op.name == name:
            return op
    raise KeyError(f"no standard operator '{name}'")
