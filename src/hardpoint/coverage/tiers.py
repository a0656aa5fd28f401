"""The tier that serves each ATen overload, from the operator tables or from a conformance report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hardpoint.check.expectations import DTYPES
from hardpoint.check.report import Report, base_name
from hardpoint.coverage.portable import portable_dtypes
from hardpoint.ops import Op, all_ops
from hardpoint.ops.torch_overloads import CPU_NAMES

#: Best first. ``adapter``: memory, views and copies. ``composite``: torch calls other operators, each with a tier of
#: its own.
TIERS = ("adapter", "vendor", "portable", "decomposition", "composite", "cpu")

#: Dtype -> its kind in the operator tables.
_KINDS = {
    **dict.fromkeys(("float32", "float64", "bfloat16", "float16"), "float"),
    **dict.fromkeys(("int64", "int32", "uint8"), "int"),
    "bool": "bool",
    "complex64": "complex",
}

#: Operators for sparse, quantized and nested tensors and for other devices: never called on a dense device.
_UNUSED = re.compile(
    r"sparse|quantize|mkldnn|nested|cudnn|miopen|_coo|_cs[rc]|_bs[rc]|coalesce|_cslt|fbgemm|_mps_|_test|xnnpack|"
    r"ccol_indices|crow_indices|col_indices|row_indices|_values|^aten::values|^aten::q_|^aten::_?indices|int_repr|"
    r"_fake_quant|dense_dim|_jagged|padded_dense|_spdim|_spsolve|_cufft|_triton|_vulkan|_mtia|hspmm|sspaddmm|_fw_primal"
)


@dataclass
class Operator:
    """One ATen overload."""

    name: str
    #: Dtype -> tier; several measured tiers are joined by ``+``.
    tiers: dict[str, str]
    #: The standard operator that serves it.
    standard: str = ""
    #: Whether the tiers come from a conformance report.
    measured: bool = False
    #: Whether torch has a decomposition for it.
    decomposable: bool = False

    def worst_tier(self) -> str:
        """The worst tier of any dtype."""
        tiers = {tier for joined in self.tiers.values() for tier in joined.split("+")}
        return max(tiers, key=TIERS.index) if tiers else "cpu"


@dataclass
class Coverage:
    """All overloads on one device."""

    device: str
    operators: list[Operator] = field(default_factory=list)

    def filter(self, pattern: str = "", tier: str = "") -> None:
        """Keep only operators that match a regular expression and are served by a tier in some dtype."""
        if tier and tier not in TIERS:
            raise ValueError(f"tier must be one of {', '.join(TIERS)}, not '{tier}'")
        match = re.compile(pattern).search
        self.operators = [
            op
            for op in self.operators
            if match(op.name) and (not tier or any(tier in t.split("+") for t in op.tiers.values()))
        ]

    def totals(self) -> dict[str, dict[str, int]]:
        """Dtype -> tier -> number of overloads."""
        counts = {d: Counter(op.tiers[d] for op in self.operators if d in op.tiers) for d in DTYPES}
        return {dtype: dict(sorted(tiers.items())) for dtype, tiers in counts.items()}


def required_overloads() -> list[str]:
    """The overloads that need a kernel on a dense device.

    That is, overloads with a CPU or composite kernel, except those that torch always decomposes.
    """
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and not _UNUSED.search(name)
        and (has(name, "CPU") or has(name, "CompositeExplicitAutograd"))
        and not has(name, "CompositeImplicitAutograd")
    )


def _standard_operator(name: str, table: dict[str, Op]) -> Op | None:
    """The standard operator for an overload; in-place and ``out=`` variants use that of the functional overload."""
    bare = name.removeprefix("aten::")
    base, _, overload = bare.partition(".")
    if bare in table:
        return table[bare]
    functional = base_name(name)
    if base != functional:
        return table.get(f"{functional}.{overload}" if overload else functional)
    if not overload.endswith("out") and not overload.startswith("grad_input"):
        return None
    stem = overload.removesuffix("out").rstrip("_")
    direct = table.get(f"{base}.{stem}" if stem else base)
    return direct or next((op for key, op in table.items() if key.split(".")[0] == base), None)


def _portable_kinds(op: Op) -> set[str]:
    """The classes of dtypes that portable kernels serve. Custom operators handle every dtype that torch accepts."""
    if op.kind != "pointwise":
        return set(_KINDS.values())
    expressions = op.variants.values() or [op.expression]
    complex_too = any(isinstance(e, Mapping) and "complex" in e for e in expressions)
    return {*portable_dtypes(op), *(["complex"] if complex_too else [])}


def _without_kernel(name: str, op: Op) -> str:
    """The tier of an overload of a standard operator that neither a vendor nor a portable kernel serves."""
    overload = op.aten.get(name)
    if op.kind == "copy":
        return "adapter"
    if overload is None or name in CPU_NAMES:
        return "cpu"
    return "composite" if overload.composite or overload.device_only else "cpu"


def _from_tables() -> list[Operator]:
    import torch
    from torch._decomp import decomposition_table

    from hardpoint import _discovery

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    plugin = _discovery.choose()
    compiles = "compiler" in plugin.extensions
    table = {overload: op for op in all_ops() for overload in op.aten}
    decomposable = {f"aten::{key.name().removeprefix('aten::')}" for key in decomposition_table if hasattr(key, "name")}
    operators = []
    for name in required_overloads():
        op = _standard_operator(name, table)
        registered = has(name, "PrivateUse1")
        if registered and op is not None:
            portable = _portable_kinds(op) if compiles else set()
            otherwise = _without_kernel(name.removeprefix("aten::"), op)
            tiers = {
                d: "vendor" if plugin.has_kernel(op.name) else "portable" if _KINDS[d] in portable else otherwise
                for d in DTYPES
            }
        else:
            composite = has(name, "CompositeExplicitAutograd")
            tiers = dict.fromkeys(DTYPES, "adapter" if registered else "composite" if composite else "cpu")
        standard = op.name if registered and op else ""
        operators.append(Operator(name, tiers, standard, decomposable=name in decomposable))
    return operators


def collect(report: str | Path | Report | None = None) -> Coverage:
    """The coverage of the chosen device. Tiers measured in a conformance report replace those of the tables."""
    import hardpoint.torch

    device = hardpoint.torch.mount()
    coverage = Coverage(device, _from_tables())
    if report is not None:
        _apply_report(coverage, report if isinstance(report, Report) else Report.load(report))
    return coverage


def _apply_report(coverage: Coverage, report: Report) -> None:
    measured: dict[str, dict[str, set[str]]] = {}
    for result in report.results:
        for name, dtypes in result.tiers.items():
            for dtype, tiers in dtypes.items():
                measured.setdefault(name, {}).setdefault(dtype, set()).update(tiers)
    known = {op.name: op for op in coverage.operators}
    for name, by_dtype in sorted(measured.items()):
        op = known.get(name)
        if op is None:
            op = Operator(name, {})
            coverage.operators.append(op)
        op.measured = True
        op.tiers = {d: "+".join(sorted(by_dtype[d], key=TIERS.index)) for d in DTYPES if d in by_dtype}
    coverage.device = report.device
