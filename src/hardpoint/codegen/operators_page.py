"""Prints ``docs/reference/operators.md`` from the operator tables: ``python -m hardpoint.codegen.operators_page``."""

from __future__ import annotations

from hardpoint.coverage.portable import portable_dtypes
from hardpoint.ops import Op, all_ops

HEAD = """\
# Standard operators

Generated from `src/hardpoint/ops` by `python -m hardpoint.codegen.operators_page`. Do not edit.

A kernel is exported as `__tvm_ffi_<operator>`. It takes the output, then the inputs, then the attributes. The in-place
and `out=` variants of a structured ATen overload are derived from it. An overload that takes a number in place of a
tensor, such as `eq.Scalar`, passes the number. For an operator with variants, such as `gelu`, the last attribute is the
index of the variant in the list. *Portable* lists the kinds of dtypes with a portable kernel.

| operator | arguments | meaning | ATen overloads | portable |
|---|---|---|---|---|
"""


def row(op: Op) -> str:
    """One row of the table."""
    arguments = ", ".join(["out", *op.inputs, *op.attributes])
    if op.variants:
        arguments += f", variant ({', '.join(f'`{name}`' if name else 'none' for name in op.variants)})"
    overloads = ", ".join(f"`aten::{name}`" for name in op.aten) or "none"
    meaning = op.doc.replace("|", "\\|")
    return f"| `{op.name}` | {arguments} | {meaning} | {overloads} | {', '.join(portable_dtypes(op))} |\n"


def markdown() -> str:
    """The page as Markdown."""
    return HEAD + "".join(row(op) for op in all_ops())


if __name__ == "__main__":
    print(markdown(), end="")
