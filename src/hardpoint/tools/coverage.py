"""Which tier serves each ATen overload: from the tables and the dispatcher, or as a conformance run saw it."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hardpoint.check.report import Report, base_name
from hardpoint.check.tables import DTYPES
from hardpoint.ops import Op, all_ops
from hardpoint.tools import page
from hardpoint.tools.reference import portable_classes

#: Best first. ``adapter``: memory, views and copies, served by the adapter itself. ``composite``: torch runs it as
#: other operators, each of which is served by a tier of its own.
TIERS = ("adapter", "vendor", "portable", "decomposition", "composite", "cpu")

CLASS = {
    **dict.fromkeys(("float32", "float64", "bfloat16", "float16"), "float"),
    **dict.fromkeys(("int64", "int32", "uint8"), "int"),
    "bool": "bool",
    "complex64": "complex",
}

#: Operators of other kinds of tensors and of other devices' libraries: a dense device never sees them.
_ELSEWHERE = re.compile(
    r"sparse|quantize|mkldnn|nested|cudnn|miopen|_coo|_cs[rc]|_bs[rc]|coalesce|_cslt|fbgemm|_mps_|_test|xnnpack|"
    r"ccol_indices|crow_indices|col_indices|row_indices|_values|^aten::values|^aten::q_|^aten::_?indices|int_repr|"
    r"_fake_quant|dense_dim|_jagged|padded_dense|_spdim|_spsolve|_cufft|_triton|_vulkan|_mtia|hspmm|sspaddmm|_fw_primal"
)


@dataclass
class Operator:
    """One ATen overload."""

    name: str
    #: Dtype -> the tier that serves it; measured tiers that differ by call are joined by ``+``.
    tiers: dict[str, str]
    #: The standard operator whose kernel serves it.
    standard: str = ""
    #: Whether the tiers were seen in a run.
    measured: bool = False
    #: Whether torch can write it as other operators.
    decomposable: bool = False

    def worst(self) -> str:
        """The least of the tiers that serve it."""
        seen = {t for joined in self.tiers.values() for t in joined.split("+")}
        return max(seen, key=TIERS.index) if seen else "cpu"


@dataclass
class Coverage:
    """All of them on one device."""

    device: str
    operators: list[Operator] = field(default_factory=list)

    def keep(self, pattern: str = "", tier: str = "") -> None:
        """Leave only operators that match, and that a tier serves in some dtype."""
        if tier and tier not in TIERS:
            raise ValueError(f"there is no tier {tier}; there are {', '.join(TIERS)}")
        match = re.compile(pattern).search
        self.operators = [
            op
            for op in self.operators
            if match(op.name) and (not tier or any(tier in t.split("+") for t in op.tiers.values()))
        ]

    def totals(self) -> dict[str, dict[str, int]]:
        """Dtype -> tier -> overloads."""
        table: dict[str, dict[str, int]] = {}
        for dtype in DTYPES:
            counts = Counter(op.tiers[dtype] for op in self.operators if dtype in op.tiers)
            table[dtype] = dict(sorted(counts.items()))
        return table


def needed() -> list[str]:
    """The overloads that need a kernel on a dense device: what the CPU or a composite kernel serves, unless torch
    always runs them as other operators.
    """
    import torch

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and not _ELSEWHERE.search(name)
        and (has(name, "CPU") or has(name, "CompositeExplicitAutograd"))
        and not has(name, "CompositeImplicitAutograd")
    )


def _standard() -> dict[str, Op]:
    return {overload: op for op in all_ops() for overload in op.aten}


def _functional(name: str, table: dict[str, Op]) -> Op | None:
    """The standard operator of an overload, of its functional form for an in-place or ``out=`` one."""
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


def _static(device: str) -> list[Operator]:
    import torch
    from torch._decomp import decomposition_table

    from hardpoint import plugins

    has = torch._C._dispatch_has_kernel_for_dispatch_key
    plugin: Any = plugins.choose()
    compiles = "compiler" in plugin.extensions
    table = _standard()
    decomposable = {f"aten::{key.name().removeprefix('aten::')}" for key in decomposition_table if hasattr(key, "name")}
    found: dict[str, Operator] = {}
    names = needed()
    for name in names:
        op = _functional(name, table)
        registered = has(name, "PrivateUse1")
        if registered and op is not None:
            classes = portable_classes(op).split(", ") if compiles else []
            rest = "cpu" if op.kind in ("pointwise", "reduction", "matmul") else "adapter"
            tiers = {
                d: "vendor" if plugin.has_kernel(op.name) else "portable" if CLASS[d] in classes else rest
                for d in DTYPES
            }
        elif registered:
            tiers = dict.fromkeys(DTYPES, "adapter")
        elif has(name, "CompositeExplicitAutograd"):
            tiers = dict.fromkeys(DTYPES, "composite")
        else:
            tiers = dict.fromkeys(DTYPES, "cpu")
        found[name] = Operator(name, tiers, op.name if registered and op else "", decomposable=name in decomposable)
    return list(found.values())


def collect(report: str | Path | None = None) -> Coverage:
    """The coverage of the chosen device; with a report of a conformance run, as far as that saw it."""
    import hardpoint.torch

    device = hardpoint.torch.mount()
    coverage = Coverage(device, _static(device))
    if report is not None:
        _measure(coverage, Report.load(report))
    return coverage


def _measure(coverage: Coverage, report: Report) -> None:
    seen: dict[str, dict[str, set[str]]] = {}
    for result in report.results:
        for name, dtypes in result.tiers.items():
            for dtype, tiers in dtypes.items():
                seen.setdefault(name, {}).setdefault(dtype, set()).update(tiers)
    known = {op.name: op for op in coverage.operators}
    for name, found in sorted(seen.items()):
        op = known.get(name)
        if op is None:
            op = Operator(name, {})
            coverage.operators.append(op)
        op.measured = True
        op.tiers = {d: "+".join(sorted(found[d], key=TIERS.index)) for d in DTYPES if d in found}
    coverage.device = report.device


def _short(operator: Operator) -> str:
    """Tiers with the dtypes that they serve: ``portable: float32, float64; cpu: complex64``."""
    groups: dict[str, list[str]] = {}
    for dtype, tier in operator.tiers.items():
        groups.setdefault(tier, []).append(dtype)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{tier}: {', '.join(dtypes)}" for tier, dtypes in groups.items())


def text(coverage: Coverage, console: Console) -> None:
    """Print the operators and the totals."""
    colour = {"cpu": "red", "composite": "yellow", "decomposition": "yellow"}
    table = Table("overload", "standard operator", "served by", "seen", "torch decomposes it", title=coverage.device)
    for op in coverage.operators:
        shown = f"[{colour.get(op.worst(), 'green')}]{_short(op)}[/]"
        table.add_row(op.name, op.standard, shown, "yes" if op.measured else "", "yes" if op.decomposable else "")
    console.print(table)
    totals = coverage.totals()
    tiers = sorted({t for counts in totals.values() for t in counts})
    table = Table("dtype", *tiers, title=f"{len(coverage.operators)} overloads")
    for dtype, counts in totals.items():
        table.add_row(dtype, *(str(counts.get(tier, 0)) for tier in tiers))
    console.print(table)


def save(coverage: Coverage, path: str | Path) -> None:
    """Write everything as JSON."""
    Path(path).write_text(json.dumps({**asdict(coverage), "totals": coverage.totals()}, indent=1) + "\n")


def html(coverage: Coverage, path: str | Path) -> None:
    """Write the operators as one HTML file."""
    rows = [
        (op.name, op.standard, op.worst(), *(op.tiers.get(d, "") for d in DTYPES), "yes" if op.measured else "")
        for op in coverage.operators
    ]
    totals = coverage.totals()
    tiers = sorted({t for counts in totals.values() for t in counts})
    sums = [(dtype, *(counts.get(t, 0) for t in tiers)) for dtype, counts in totals.items()]
    columns = ("overload", "standard operator", "worst", *DTYPES, "seen")
    sections = [
        ("Totals", page.table("totals", ("dtype", *tiers), sums)),
        ("Overloads", page.table("overloads", columns, rows)),
    ]
    words = [f"{len(rows)} ATen overloads that need a kernel on a dense device, and the tier that serves each."]
    Path(path).write_text(page.page(f"Coverage of {coverage.device}", words, sections))
