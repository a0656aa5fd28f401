"""Reductions: sums, norms, extrema and their indices, variances."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu

import hardpoint

FAMILIES = ("reduction", "min_max", "variance")
NAMES = (
    *("sum", "nansum", "mean", "prod", "amax", "amin", "aminmax", "any", "all", "argmax", "argmin"),
    *("var", "std", "var_mean", "std_mean", "norm", "linalg.vector_norm", "logsumexp", "trace", "dist"),
    *("max", "min", "equal"),
)
# The nuclear norm is a matrix decomposition; binary `max` and `min` are pointwise.
ENTRIES = [p for p in entries(*NAMES) if p.id not in ("norm.nuc", "max.binary", "min.binary")]


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, *FAMILIES, index_result=1 if entry.name in ("max", "min") else None, limit=8)


REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda t, **k: t.sum(**k),
    "nansum": lambda t, **k: t.nansum(**k),
    "mean": lambda t, **k: t.mean(**k),
    "amax": lambda t, **k: t.amax(**k),
    "amin": lambda t, **k: t.amin(**k),
    "any": lambda t, **k: (t > 1).any(**k),
    "all": lambda t, **k: (t > -2).all(**k),
    "var": lambda t, **k: t.var(**k, correction=0),
    "mean of var_mean": lambda t, **k: torch.var_mean(t, **k, correction=0)[1],
    "norm": lambda t, **k: torch.linalg.vector_norm(t, **k),
    "norm 1": lambda t, **k: torch.linalg.vector_norm(t, 1, **k),
    "norm 0": lambda t, **k: torch.linalg.vector_norm(t, 0, **k),
    "norm 2.5": lambda t, **k: torch.linalg.vector_norm(t, 2.5, **k),
    "norm inf": lambda t, **k: torch.linalg.vector_norm(t, math.inf, **k),
    "norm -inf": lambda t, **k: torch.linalg.vector_norm(t, -math.inf, **k),
}
SHAPES = [(), (1,), (7,), (3, 5), (33, 70), (4, 1, 6), (2, 3, 4, 5), (1000, 3), (3, 1000), (64, 64, 9)]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_every_set_of_dimensions(name: str, shape: tuple[int, ...]) -> None:
    reduce = REDUCTIONS[name]
    base = torch.randn(shape)
    views = [base, base.transpose(0, -1) if base.dim() > 1 else base, base[..., ::2] if base.dim() else base]
    for given in views:
        device = given.to("sim") if given.is_contiguous() else base.to("sim").as_strided(given.shape, given.stride())
        for mask in range(1, 2 ** given.dim()):
            dims = [d for d in range(given.dim()) if mask >> d & 1]
            for keepdim in (False, True):
                hardpoint.reset_counters()
                actual = reduce(device, dim=dims, keepdim=keepdim)
                assert not on_cpu(*FAMILIES)
                exact = reduce(given.double(), dim=dims, keepdim=keepdim).to(actual.dtype)
                torch.testing.assert_close(actual.cpu(), exact, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(device.sum().cpu().double(), given.double().sum(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int16, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(7,), (33, 70), (4, 1, 6), (300, 3), (3, 70000), (70000, 3)], ids=str)
def test_extrema_and_their_indices(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    # Few distinct values: among equal ones, the first index is returned.
    x = torch.randint(0, 9, shape).to(dtype)
    for given, device in ((x, x.to("sim")), (x.transpose(0, -1), x.to("sim").transpose(0, -1))):
        hardpoint.reset_counters()
        assert device.argmax().item() == given.argmax().item()
        assert device.argmin().item() == given.argmin().item()
        assert device.max().item() == given.max().item()
        assert device.min().item() == given.min().item()
        for dim in range(given.dim()):
            for keepdim in (False, True):
                for reduce in (torch.max, torch.min):
                    values, places = reduce(device, dim, keepdim)
                    expected = reduce(given, dim, keepdim)
                    assert torch.equal(values.cpu(), expected.values)
                    assert torch.equal(places.cpu(), expected.indices)
                assert torch.equal(device.argmax(dim, keepdim).cpu(), given.argmax(dim, keepdim))
                assert torch.equal(device.argmin(dim, keepdim).cpu(), given.argmin(dim, keepdim))
        assert not on_cpu(*FAMILIES)


def test_special_values() -> None:
    nan, inf = math.nan, math.inf
    x = torch.tensor([[1.0, nan, 3.0, nan], [-inf, 2.0, inf, -0.0], [-inf, -inf, -inf, -inf], [inf, inf, inf, inf]])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for given in (x.to(dtype), x.to(dtype).repeat(1, 40), x.to(dtype).repeat(40, 1)):
            device = given.to("sim")
            for dim in (0, 1):
                for reduce in (torch.amax, torch.amin, torch.sum, torch.nansum, torch.mean, torch.argmax, torch.argmin):
                    torch.testing.assert_close(reduce(device, dim).cpu(), reduce(given, dim), equal_nan=True)
                for extreme in (torch.max, torch.min):
                    for ours, right in zip(extreme(device, dim), extreme(given, dim), strict=True):
                        torch.testing.assert_close(ours.cpu(), right, equal_nan=True)
            assert math.isnan(device.max())
            assert math.isnan(device.aminmax().min)
            assert device.argmax().item() == given.argmax().item()


def test_dtypes() -> None:
    ints = torch.randint(-5, 5, (7, 9), dtype=torch.int8)
    device = ints.to("sim")
    assert torch.equal(device.sum(0).cpu(), ints.sum(0))
    assert torch.equal(device.sum(1, dtype=torch.int8).cpu(), ints.sum(1, dtype=torch.int8))
    assert torch.equal(device.prod(0).cpu(), ints.prod(0))
    assert torch.equal(device.sum(0, dtype=torch.float32).cpu(), ints.sum(0, dtype=torch.float32))
    assert torch.equal((ints > 0).to("sim").sum().cpu(), (ints > 0).sum())
    assert torch.equal((ints > 0).to("sim").amax(0).cpu(), (ints > 0).amax(0))
    assert device.prod().dtype == torch.int64
    bytes_ = ints.to(torch.uint8)
    assert torch.equal(bytes_.to("sim").any(1).cpu(), bytes_.any(1))
    assert bytes_.to("sim").all(0).dtype == torch.uint8
    assert torch.tensor([0.0, 0.25]).to("sim").any().item() is True  # a fraction
    halves = torch.randn(50, 40).half()
    single = halves.to("sim").sum(1, dtype=torch.float32)
    torch.testing.assert_close(single.cpu(), halves.sum(1, dtype=torch.float32), rtol=1e-5, atol=1e-4)
    norm = torch.linalg.vector_norm(halves.to("sim"), dim=0, dtype=torch.float64)
    torch.testing.assert_close(norm.cpu(), torch.linalg.vector_norm(halves, dim=0, dtype=torch.float64))


def test_empty_and_out() -> None:
    empty = torch.empty(0, 3)
    device = empty.to("sim")
    hardpoint.reset_counters()
    for reduce in (torch.sum, torch.mean, torch.prod, torch.any, torch.all, torch.nansum, torch.linalg.vector_norm):
        dim = {"dim": 0}
        torch.testing.assert_close(reduce(device, **dim).cpu(), reduce(empty, **dim), equal_nan=True)
        dim["dim"] = 1
        assert reduce(device, **dim).shape == (0,)
    assert device.sum().item() == 0
    assert device.prod().item() == 1
    assert math.isnan(device.mean())
    assert not on_cpu(*FAMILIES)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert device.var(0).isnan().all()
    for call in (lambda: device.amax(0), lambda: device.argmax(0), lambda: device.max(), lambda: device.max(0)):
        with pytest.raises((RuntimeError, IndexError)):
            call()
    x = torch.randn(5, 6)
    for shape in ((0,), (5,)):
        out = torch.empty(shape, device="sim")
        assert torch.sum(x.to("sim"), 1, out=out) is out
        torch.testing.assert_close(out.cpu(), x.sum(1))
    wide = torch.zeros(5, 2, device="sim")
    torch.amax(x.to("sim"), 1, out=wide[:, 1])
    assert torch.equal(wide.cpu(), torch.stack([torch.zeros(5), x.amax(1)], 1))
    values, places = torch.zeros(5, 2, device="sim"), torch.zeros(5, dtype=torch.int64, device="sim")
    torch.max(x.to("sim"), 1, out=(values[:, 0], places))
    assert torch.equal(values[:, 0].cpu(), x.max(1).values)
    assert torch.equal(places.cpu(), x.max(1).indices)
    out = torch.empty(0, device="sim")
    torch.var(x.to("sim"), 1, correction=0, out=out)
    torch.testing.assert_close(out.cpu(), x.var(1, correction=0))
    torch.nansum(x.to("sim"), 1, out=out)
    torch.testing.assert_close(out.cpu(), x.nansum(1))


def test_long_sums_are_accurate() -> None:
    x = torch.full((1_000_003,), 0.1)
    assert x.to("sim").sum().item() == pytest.approx(100_000.3, rel=1e-6)
    down = torch.full((300_000, 3), 0.1).to("sim").sum(0).cpu()
    torch.testing.assert_close(down, torch.full((3,), 30_000.0), rtol=1e-6, atol=0)
    half = torch.full((70_000,), 0.5, dtype=torch.float16)
    assert half.to("sim").mean().item() == 0.5


@pytest.mark.parametrize("shape", [(200_000,), (3, 70_000), (70_000, 3), (1000, 300), (300_000, 2)], ids=str)
@pytest.mark.parametrize("mean", [0.0, 1e4, 1e30])
def test_variance_of_large_numbers(shape: tuple[int, ...], mean: float) -> None:
    x = torch.randn(shape) * max(1.0, mean * 1e-3) + mean
    for dim in (*range(x.dim()), None):
        exact = torch.var_mean(x.double(), dim)
        for ours, right in zip(torch.var_mean(x.to("sim"), dim), exact, strict=True):
            if mean == 1e30:  # the variance overflows float32
                assert not ours.isnan().any()
                continue
            # The mean has a relative error of 1e-7, which is 1e-4 of the standard deviation if the mean is 1e4.
            torch.testing.assert_close(ours.cpu(), right.float(), rtol=1e-4 if mean else 1e-5, atol=1e-5)


def test_equal() -> None:
    x = torch.randn(40, 50)
    hardpoint.reset_counters()
    assert torch.equal(x.to("sim"), x.to("sim"))
    assert torch.equal(x.to("sim").t(), x.t().contiguous().to("sim"))
    big = torch.zeros(100_000, dtype=torch.int16, device="sim")
    other = big.clone()
    assert torch.equal(big, other)
    other[99_999] = 1
    assert not torch.equal(big, other)
    assert not torch.equal(big, big[1:])
    nan = torch.tensor([math.nan], device="sim")
    assert not torch.equal(nan, nan.clone())
    assert not on_cpu(*FAMILIES)


@pytest.mark.parametrize(
    ("kernel", "call", "attributes"),
    [
        ("sum", lambda t: t.sum((0, 2)), ((0, 2), False)),
        ("amax", lambda t: t.max(), ((0, 1, 2), False)),
        ("vector_norm", lambda t: torch.linalg.vector_norm(t, 3, dim=1, keepdim=True), (3.0, (1,), True)),
        ("argmax", lambda t: t.argmax(-1), (2, False)),
        ("var", lambda t: t.var(1), ((1,), 1.0, False)),
    ],
)
def test_vendor_kernel_runs_first(kernel: str, call: Callable[..., torch.Tensor], attributes: Any) -> None:
    seen = []

    def record(out: Any, self: Any, *given: Any) -> None:
        seen.append(tuple(tuple(g) if hasattr(g, "__len__") else g for g in given))
        raise NotImplementedError

    x = torch.randn(2, 3, 4)
    with hardpoint.kernel(kernel)(record):
        hardpoint.reset_counters()
        torch.testing.assert_close(call(x.to("sim")).cpu(), call(x))
    assert seen == [attributes]
    (tiers,) = [t for name, t in hardpoint.counters().items() if "copy" not in name]
    assert tiers == {"portable": 1}


DIGEST = """
import hashlib, torch, hardpoint
torch.manual_seed(1)
total = hashlib.sha256()
def add(*results):
    for r in results: total.update(r.cpu().numpy().tobytes())
for shape in [(300_001,), (1000, 513), (3, 70_001), (70_001, 3), (40, 50, 60)]:
    x = torch.randn(shape).to("sim")
    for dim in (None, *range(x.dim())):
        add(x.sum(dim), x.mean(dim), x.amax() if dim is None else x.amax(dim), x.argmax(dim), *torch.var_mean(x, dim))
        add(torch.linalg.vector_norm(x, dim=dim))
    for dim in range(x.dim()):
        add(x.cumsum(dim), x.logcumsumexp(dim), *x.cummax(dim), *x.sort(dim), *x.topk(2, dim), *x.median(dim))
print(total.hexdigest())
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("HARDPOINT_SIM_THREADS", threads)
        made = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, timeout=300)
        digests.append(made.stdout.strip())
    assert digests[0]
    assert all(a == b for a, b in pairwise(digests))
