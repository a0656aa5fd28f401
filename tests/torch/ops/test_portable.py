"""Portable kernels: every operator that has one, against the CPU on OpInfo samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layouts import VIEWS
from opinfo import LOW_IN_SINGLE, close, label, runs
from torch.testing._internal.common_methods_invocations import op_db

import hardpoint
from hardpoint import ops

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.uint8, torch.bool),
    *(torch.complex64, torch.complex128),
)

TABLE = {overload: op for op in ops.all_ops() if op.kind == "pointwise" for overload in op.aten}
BASES = {overload.split(".")[0] for overload in TABLE}
ENTRIES = [
    pytest.param(entry, id=label(entry))
    for entry in op_db
    if {entry.aten_name or entry.name, entry.name.replace(".", "_")} & BASES
]


def has_complex(op: ops.Op) -> bool:
    """Whether an operator's portable kernel supports complex dtypes."""
    return any(isinstance(e, dict) and "complex" in e for e in (op.expression, *op.variants.values()))


#: Overloads whose complex calls must not run on the CPU.
COMPLEX = {overload for overload, op in TABLE.items() if has_complex(op)}

#: Error of torch's float64 results (checked against arbitrary precision).
TOLERANCE = {"special.bessel_j0": 1e-5, "special.bessel_y1": 1e-5}


#: torch's float32 and complex64 results are no reference: polygamma of a negative number is wrong in the second digit,
#: complex powers by orders of magnitude.
WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
INEXACT = {"pow", "__rpow__", "polygamma"}
#: The gradient of digamma is such a polygamma.
INEXACT_GRADIENT = {"digamma"}
#: Between its poles, polygamma of a negative number is a difference of large numbers.
SINGLE = {"polygamma": 2e-5, "digamma": 2e-5}


def tolerances(name: str, dtype: torch.dtype) -> dict[str, float]:
    if dtype is torch.float64 and name in TOLERANCE:
        return {"rtol": TOLERANCE[name], "atol": TOLERANCE[name]}
    return {"rtol": SINGLE[name], "atol": 1e-5} if dtype is torch.float32 and name in SINGLE else {}


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    reference = {**LOW_IN_SINGLE, **(WIDER if entry.name in INEXACT else {})}
    for run in runs(entry, DTYPES, 8, reference, gradients=()):
        for actual, expected in run.results():
            close(actual, expected, run.dtype, **tolerances(entry.name, run.dtype))
        if run.dtype.is_floating_point or run.dtype.is_complex:
            served = TABLE if run.dtype.is_floating_point else COMPLEX
            on_cpu = [n for n, tiers in hardpoint.counters().items() if "cpu" in tiers and n[6:] in served]
            assert not on_cpu, f"{run.dtype}: served by the CPU"


@pytest.mark.slow
@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.values[0].supports_autograd])
def test_gradients_against_the_cpu(entry: Any) -> None:
    reference = {torch.float32: torch.float64} if entry.name in INEXACT_GRADIENT else {}
    dtypes = (torch.float32, torch.float64, torch.complex128)
    for run in runs(entry, dtypes, 8, reference, gradients=dtypes):
        for actual, expected in run.gradients():
            close(actual, expected, run.dtype, **tolerances(entry.name, run.dtype))


LAYOUTS = {**VIEWS, "offset": lambda t: t.flatten()[1:]}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool], ids=str)
def test_layouts(layout: str, dtype: torch.dtype) -> None:
    view = LAYOUTS[layout]
    base = torch.testing.make_tensor(6, 6, 5, dtype=dtype, device="cpu")
    a, b = view(base), view(base.to("sim"))
    assert torch.equal((b == b).cpu(), a == a)
    assert torch.equal((b < 1).cpu(), a < 1)
    assert torch.equal(torch.where(b > 0, b, b).cpu(), a)
    if dtype is not torch.bool:
        torch.testing.assert_close((b - b[..., :1] if b.dim() else b - b).cpu(), a - a[..., :1] if a.dim() else a - a)


def test_in_place_and_out() -> None:
    base = torch.randn(4, 6)
    device = base.to("sim")
    view, twin = device[:, ::2], base[:, ::2]
    assert view.sub_(1).data_ptr() == device.data_ptr()
    twin.sub_(1)
    torch.testing.assert_close(device.cpu(), base)
    out = torch.empty(0, device="sim")
    assert torch.exp(device, out=out) is out
    torch.testing.assert_close(out.cpu(), base.exp())
    wide = torch.empty(4, 6, dtype=torch.float64, device="sim")
    torch.sub(device, 1, out=wide)
    torch.testing.assert_close(wide.cpu(), (base - 1).double())
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(device, out=torch.empty(4, 6, dtype=torch.int64, device="sim"))


def test_large_tensors_use_many_groups() -> None:
    a, b = torch.randn(3, 100_003), torch.randn(100_003)
    torch.testing.assert_close((a.to("sim") - b.to("sim")).cpu(), a - b)
    torch.testing.assert_close((a.to("sim").t() - 1).exp().cpu(), (a.t() - 1).exp())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [torch.heaviside, torch.special.zeta], ids=["heaviside", "zeta"])
def test_extreme_values(function: Any, dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.5, -2.5, 30.0]
    x = torch.tensor([*special, info.max, info.min, info.tiny], dtype=dtype)
    expected = function(x[:, None], x[None, :])
    actual = function(x[:, None].to("sim"), x[None, :].to("sim"))
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def test_vendor_kernel_runs_first() -> None:
    x = torch.ones(3, device="sim")
    with hardpoint.kernel("exp")(lambda out, self: (_ for _ in ()).throw(NotImplementedError())):
        hardpoint.reset_counters()
        assert x.exp().cpu().tolist() == pytest.approx([2.718281828] * 3)
        assert hardpoint.counters() == {"aten::exp": {"portable": 1}}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nextafter_of_every_number_with_16_bits(dtype: torch.dtype) -> None:
    """Bit by bit: a kernel that computes in a wider type would round back to the input."""
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    for towards in (float("inf"), -float("inf"), 0.0, -0.0, 1.0, float("nan")):
        other = torch.full_like(numbers, towards)
        expected = torch.nextafter(numbers, other)
        found = torch.nextafter(numbers.to("sim"), other.to("sim")).cpu()
        whole = ~expected.isnan()
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.view(torch.int16)[whole], expected.view(torch.int16)[whole])
