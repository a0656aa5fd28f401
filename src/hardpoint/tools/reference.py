"""Writes docs/operators.md from the operator tables: ``python -m hardpoint.tools.reference > docs/operators.md``."""

from __future__ import annotations

from collections.abc import Mapping

from hardpoint.ops import Op, all_ops

HEAD = """\
# Standard operators

Generated from `src/hardpoint/ops` by `python -m hardpoint.tools.reference`; do not edit it by hand.

A kernel takes its output first, then the inputs, then the attributes, and is exported as `__tvm_ffi_<operator>`. The
in-place and `out=` forms of an ATen overload that torch calls structured follow by themselves. *Portable* says for
which classes of dtypes Hardpoint has a kernel of its own. An overload that takes a number in place of a tensor
(`eq.Scalar`) passes the number. Where an operator has variants (`gelu`), the last attribute is the variant's position
in the list that stands there.

| operator | arguments | meaning | ATen overloads | portable |
|---|---|---|---|---|
"""


def portable_classes(op: Op) -> str:
    """The classes of dtypes that the operator has an expression for."""
    if op.kind != "pointwise":
        return ""
    expressions = list(op.variants.values()) or [op.expression]
    classes: list[str] = []
    for kind in ("float", "int", "bool"):
        if any(kind in e if isinstance(e, Mapping) else kind == "float" or "M(" not in e for e in expressions):
            classes.append(kind)
    return ", ".join(classes)


def row(op: Op) -> str:
    """One line of the table."""
    arguments = ", ".join(["out", *op.inputs, *op.attributes])
    if op.variants:
        arguments += f", variant ({', '.join(f'`{name}`' if name else 'none' for name in op.variants)})"
    overloads = ", ".join(f"`aten::{name}`" for name in op.aten) or "by the adapter's copy routines"
    # A bar would end the cell.
    meaning = op.doc.replace("|", "\\|")
    return f"| `{op.name}` | {arguments} | {meaning} | {overloads} | {portable_classes(op)} |\n"


def markdown() -> str:
    """The whole page."""
    return HEAD + "".join(row(op) for op in all_ops())


if __name__ == "__main__":
    print(markdown(), end="")
