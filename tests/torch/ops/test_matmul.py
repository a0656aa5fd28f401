"""Portable matrix products against float64 on the CPU, for every layout, dtype and factor."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import hardpoint
from hardpoint import ops

NAMES = {f"aten::{overload}" for op in ops.family_ops("matmul") for overload in op.aten}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

#: Sums are computed in float32 and rounded once; the float32 bound grows with the square root of the depth.
PRECISION = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@contextlib.contextmanager
def portable() -> Iterator[Callable[[], set[str]]]:
    """Disable the vendor's matmul; yields a function that returns the tiers used so far."""

    @hardpoint.kernel("matmul", strided=True)
    def declined(*_: Any) -> None:
        raise NotImplementedError

    def served() -> set[str]:
        return {tier for name, tiers in hardpoint.counters().items() if name in NAMES for tier in tiers}

    with declined:
        hardpoint.reset_counters()
        yield served


def operand(rng: random.Random, dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    """A CPU tensor of these sizes in a random layout."""
    layout = rng.choice(["plain", "plain", "transposed", "steps", "offset", "expanded"])
    if dtype in INTEGERS:
        make = lambda *s: torch.randint(0 if dtype is torch.uint8 else -9, 10, s, dtype=dtype)  # noqa: E731
    else:
        make = lambda *s: torch.randn(*s).to(dtype)  # noqa: E731
    if layout == "transposed":
        return make(*sizes[:-2], sizes[-1], sizes[-2]).transpose(-1, -2)
    if layout == "steps":
        return make(*sizes[:-1], 2 * sizes[-1])[..., ::2]
    if layout == "offset":
        return make(*(s + 3 for s in sizes))[tuple(slice(1, 1 + s) for s in sizes)]
    if layout == "expanded" and all(sizes):
        return make(*(1 if rng.random() < 0.5 else s for s in sizes)).expand(*sizes)
    return make(*sizes)


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the device with the same layout."""
    base = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    return base.to("sim").as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def close(actual: torch.Tensor, exact: torch.Tensor, magnitude: torch.Tensor, depth: int) -> None:
    """Within the error bound of a sum of this depth, given the sum of absolute products."""
    dtype = actual.dtype
    if not dtype.is_floating_point:
        assert torch.equal(actual.cpu(), exact.to(dtype))
        return
    unit = PRECISION[dtype]
    error = (actual.cpu().double() - exact).abs()
    rounding = unit * exact.abs() if dtype in (torch.float16, torch.bfloat16) else 0
    bound = rounding + (1e-13 if dtype is torch.float64 else 2e-6) * magnitude * max(1, depth) ** 0.5 + 1e-30
    worst = (error - bound).max().item() if error.numel() else 0
    assert worst <= 0, f"{dtype}: {error.max().item()} off at {exact.shape}, depth {depth}"


def exact_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.long()


SIZES = [0, 1, 2, 3, 5, 8, 12, 13, 16, 17, 31, 32, 33, 48, 64, 70, 150]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_products_of_any_layout(dtype: torch.dtype) -> None:
    rng = random.Random(str(dtype))
    with portable() as served:
        for _ in range(60):
            m, k, n = (rng.choice(SIZES) for _ in range(3))
            batch = rng.choice([(), (), (3,), (7,)])
            a, b = operand(rng, dtype, *batch, m, k), operand(rng, dtype, *batch, k, n)
            function = torch.bmm if batch else torch.mm
            actual = function(on_device(a), on_device(b))
            assert actual.shape == (*batch, m, n)
            close(actual, exact_of(a) @ exact_of(b), exact_of(a).abs().double() @ exact_of(b).abs().double(), k)
        assert served() == {"portable"}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_sums_with_products(dtype: torch.dtype) -> None:
    rng = random.Random(f"add {dtype}")
    factors = [0, 1, 2, -3] if dtype in INTEGERS else [0, 1, -0.5, 2.25]
    with portable() as served:
        for _ in range(60):
            m, k, n = (rng.choice(SIZES) for _ in range(3))
            batch = rng.choice([(), (), (3,)])
            a, b = operand(rng, dtype, *batch, m, k), operand(rng, dtype, *batch, k, n)
            shape = rng.choice([(*batch, m, n), (n,), (1, n), (m, 1), (1,)])
            c = operand(rng, dtype, *shape) if len(shape) > 1 else torch.ones(shape).mul(3).to(dtype)
            alpha, beta = rng.choice(factors), rng.choice(factors)
            function = torch.baddbmm if batch else torch.addmm
            actual = function(on_device(c), on_device(a), on_device(b), alpha=alpha, beta=beta)
            exact = beta * exact_of(c) + alpha * (exact_of(a) @ exact_of(b))
            size = abs(beta) * exact_of(c).abs() + abs(alpha) * (exact_of(a).abs() @ exact_of(b).abs())
            close(actual, exact.expand(*batch, m, n), size.double(), k)
        assert served() == {"portable"}


@pytest.mark.parametrize("shape", [(300, 700, 530), (1, 1500, 900), (7, 513, 1030), (900, 1025, 3), (1030, 20, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_large_products(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, k, n = shape
    with portable():
        for left in (False, True):
            for right in (False, True):
                a = torch.randn(k, m).to(dtype).t() if left else torch.randn(m, k).to(dtype)
                b = torch.randn(n, k).to(dtype).t() if right else torch.randn(k, n).to(dtype)
                bias = torch.randn(n).to(dtype)
                exact = a.double() @ b.double()
                size = a.double().abs() @ b.double().abs()
                close(on_device(a) @ on_device(b), exact, size, k)
                actual = torch.addmm(bias.to("sim"), on_device(a), on_device(b))
                close(actual, exact + bias.double(), size + 10, k)


def test_results_do_not_depend_on_how_work_is_shared() -> None:
    a, b = torch.randn(200, 300, device="sim"), torch.randn(300, 250, device="sim")
    with portable():
        assert torch.equal((a @ b).cpu(), (a @ b).cpu())
        whole = torch.bmm(a.expand(5, -1, -1), b.expand(5, -1, -1)).cpu()
        assert all(torch.equal(part, whole[0]) for part in whole)


def test_beta_of_zero_ignores_the_input() -> None:
    a, b = torch.randn(5, 6), torch.randn(6, 7)
    nothing = torch.full((5, 7), float("nan"))
    for context in (portable(), contextlib.nullcontext()):
        with context:
            actual = torch.addmm(nothing.sim(), a.sim(), b.sim(), beta=0, alpha=2)
            torch.testing.assert_close(actual.cpu(), 2 * (a @ b))
            actual = torch.addmv(nothing[:, 0].sim(), a.sim(), b[:, 0].sim(), beta=0)
            torch.testing.assert_close(actual.cpu(), a @ b[:, 0])


def test_special_values() -> None:
    a = torch.tensor([[float("inf"), 1.0], [float("nan"), 2.0], [0.0, 3.0]])
    b = torch.tensor([[1.0, 0.0], [2.0, float("-inf")]])
    with portable():
        torch.testing.assert_close((a.sim() @ b.sim()).cpu(), a @ b, equal_nan=True)
        torch.testing.assert_close((a.half().sim() @ b.half().sim()).cpu(), (a @ b).half(), equal_nan=True)


def test_empty_sums() -> None:
    with portable():
        a, b, c = torch.empty(3, 0), torch.empty(0, 4), torch.randn(3, 4)
        assert torch.equal((a.sim() @ b.sim()).cpu(), torch.zeros(3, 4))
        assert torch.equal(torch.addmm(c.sim(), a.sim(), b.sim(), beta=2).cpu(), 2 * c)
        assert torch.addmm(c.sim()[:0], a.sim()[:0], b.sim()).shape == (0, 4)
        assert torch.dot(a.sim()[0], a.sim()[0]).item() == 0
        assert torch.equal(torch.mv(a.sim(), b.sim()[:, 0]).cpu(), torch.zeros(3))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("size", [1, 7, 64, 1000, 100_003])
def test_inner_products(dtype: torch.dtype, size: int) -> None:
    a, b = torch.testing.make_tensor(2, 2 * size, dtype=dtype, device="cpu", low=0, high=3)
    hardpoint.reset_counters()
    for x, y in ((a[:size], b[:size]), (a[::2], b[:size]), (a[::2], b[1::2])):
        exact = (exact_of(x) * exact_of(y)).sum()
        for function in (torch.dot, torch.vdot):
            actual = function(on_device(x), on_device(y))
            rough = 10 * PRECISION[dtype] if dtype.is_floating_point else 0
            torch.testing.assert_close(actual.cpu(), exact.to(dtype), rtol=rough, atol=0)
    for name in ("dot", "vdot"):
        assert set(hardpoint.counters()[f"aten::{name}"]) == {"portable"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str)
def test_matrix_and_vector(dtype: torch.dtype) -> None:
    rng = random.Random(3)
    with portable() as served:
        for _ in range(40):
            m, k = rng.choice(SIZES), rng.choice([s for s in SIZES if s])
            a, v, c = operand(rng, dtype, m, k), operand(rng, dtype, 1, k)[0], operand(rng, dtype, 1, m)[0]
            exact, size = exact_of(a) @ exact_of(v), exact_of(a).abs().double() @ exact_of(v).abs().double()
            close(torch.mv(on_device(a), on_device(v)), exact, size, k)
            actual = torch.addmv(on_device(c), on_device(a), on_device(v), alpha=2, beta=3)
            close(actual, 3 * exact_of(c) + 2 * exact, 3 * exact_of(c).abs() + 2 * size, k)
        assert "cpu" not in served()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_fractions_beside_integers_are_cut_off(dtype: torch.dtype) -> None:
    a, b, c = (torch.randint(0, 3, s).to(dtype) for s in ((2, 4, 5), (2, 5, 3), (4, 3)))
    calls = [
        (torch.addmm, (c, a[0], b[0])),
        (torch.baddbmm, (c.expand(2, 4, 3), a, b)),
        (torch.addbmm, (c, a, b)),
        (torch.addmv, (c[:, 0], a[0], b[0, :, 1])),
    ]
    with portable() as served:
        for function, given in calls:
            for beta, alpha in ((0.6, 2.5), (1.9, 0.2), (3.0, 1)):
                actual = function(*(t.sim() for t in given), beta=beta, alpha=alpha)
                assert torch.equal(actual.cpu(), function(*given, beta=beta, alpha=alpha))
        assert "cpu" not in served()


def test_a_sum_of_products_over_the_batch() -> None:
    a, b, c = torch.randn(4, 5, 6), torch.randn(4, 6, 7), torch.randn(5, 7)
    exact = torch.addbmm(c.double(), a.double(), b.double(), beta=0.5, alpha=2).float()
    with portable() as served:
        torch.testing.assert_close(torch.addbmm(c.sim(), a.sim(), b.sim(), beta=0.5, alpha=2).cpu(), exact)
        out = torch.empty(0, device="sim")
        assert torch.addbmm(c.sim(), a.sim(), b.sim(), beta=0.5, alpha=2, out=out) is out
        torch.testing.assert_close(out.cpu(), exact)
        device = c.sim()
        torch.testing.assert_close(device.addbmm_(a.sim(), b.sim(), beta=0.5, alpha=2).cpu(), exact)
        assert "cpu" not in served()


def test_out_and_in_place() -> None:
    a, b, c = torch.randn(9, 20), torch.randn(20, 11), torch.randn(9, 11)
    exact = (c.double() + a.double() @ b.double()).float()
    for context in (portable(), contextlib.nullcontext()):
        with context:
            device = c.sim()
            assert device.addmm_(a.sim(), b.sim()) is device
            torch.testing.assert_close(device.cpu(), exact)
            base = torch.zeros(11, 18, device="sim")
            view = base.t()[::2]
            torch.addmm(c.sim(), a.sim(), b.sim(), out=view)
            torch.testing.assert_close(view.cpu(), exact)
            assert torch.equal(base.t()[1::2].cpu(), torch.zeros(9, 11))
            vector = torch.empty(9, device="sim")
            torch.mv(a.sim(), b.sim()[:, 0], out=vector)
            torch.testing.assert_close(vector.cpu(), a @ b[:, 0])


def test_activation() -> None:
    a, b, c = torch.randn(9, 20), torch.randn(20, 11), torch.randn(11)
    plain = torch.addmm(c, a, b)
    for gelu, expected in ((False, plain.relu()), (True, torch.nn.functional.gelu(plain))):
        actual = torch._addmm_activation(c.sim(), a.sim(), b.sim(), use_gelu=gelu)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_the_vendor_product_serves_sums_too() -> None:
    a, b, c = torch.randn(9, 20), torch.randn(20, 11), torch.randn(11)
    hardpoint.reset_counters()
    actual = torch.addmm(c.sim(), a.sim(), b.sim(), beta=2, alpha=0.5)
    assert hardpoint.counters()["aten::addmm"] == {"vendor": 1}
    torch.testing.assert_close(actual.cpu(), torch.addmm(c, a, b, beta=2, alpha=0.5))


MISTAKES = {
    "sizes": lambda d: torch.addmm(torch.ones(2, device=d), torch.ones(2, 3, device=d), torch.ones(2, 3, device=d)),
    "self": lambda d: torch.addmm(torch.ones(4, device=d), torch.ones(2, 3, device=d), torch.ones(3, 3, device=d)),
    "dot": lambda d: torch.dot(torch.ones(3, device=d), torch.ones(4, device=d)),
    "dot dtype": lambda d: torch.dot(torch.ones(3, device=d), torch.ones(3, device=d).double()),
    "mv": lambda d: torch.mv(torch.ones(3, 4, device=d), torch.ones(3, device=d)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        MISTAKES[name]("cpu")
    with pytest.raises(RuntimeError) as raised:
        MISTAKES[name]("sim")
    assert str(raised.value).split("\n")[0] == str(expected.value).split("\n")[0]


def test_gradients() -> None:
    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        product = torch.nn.functional.linear(a, b, c) @ v
        return product.dot(product) + torch.baddbmm(c, a[None], b.t()[None], alpha=0.5).sin().sum()

    given = [torch.randn(*s, dtype=torch.float64) for s in ((4, 5), (3, 5), (3,), (3,))]
    results = []
    for device in ("cpu", "sim"):
        inputs = [t.to(device).requires_grad_() for t in given]
        with portable() as served:
            results.append([g.cpu() for g in torch.autograd.grad(function(*inputs), inputs)])
            assert "cpu" not in served()
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    small = [t.sim().requires_grad_() for t in given]
    with portable():
        assert torch.autograd.gradcheck(function, small)
