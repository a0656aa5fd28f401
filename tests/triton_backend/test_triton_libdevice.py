"""Functions of libdevice that math.h lacks: exact rounding in each direction, conversions, integers."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

DEVICE = os.environ["HARDPOINT_DEVICE"]
INFINITY = float("inf")


@triton.jit
def directed(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, libdevice.add_rz(a, b))
    tl.store(out + N + i, libdevice.add_rd(a, b))
    tl.store(out + 2 * N + i, libdevice.add_ru(a, b))
    tl.store(out + 3 * N + i, libdevice.mul_rz(a, b))
    tl.store(out + 4 * N + i, libdevice.mul_rd(a, b))
    tl.store(out + 5 * N + i, libdevice.mul_ru(a, b))
    tl.store(out + 6 * N + i, libdevice.div_rz(a, b))
    tl.store(out + 7 * N + i, libdevice.div_rd(a, b))
    tl.store(out + 8 * N + i, libdevice.div_ru(a, b))
    tl.store(out + 9 * N + i, libdevice.fma_rz(a, b, a))
    tl.store(out + 10 * N + i, libdevice.fma_rd(a, b, a))
    tl.store(out + 11 * N + i, libdevice.fma_ru(a, b, a))
    tl.store(out + 12 * N + i, libdevice.sqrt_rz(tl.abs(a)))
    tl.store(out + 13 * N + i, libdevice.sqrt_rd(tl.abs(a)))
    tl.store(out + 14 * N + i, libdevice.sqrt_ru(tl.abs(a)))


def between(low: float, exact: Fraction, high: float, power: int = 1) -> bool:
    """Whether ``low ** power <= exact <= high ** power``."""
    return (low == -INFINITY or Fraction(low) ** power <= exact) and (
        high == INFINITY or exact <= Fraction(high) ** power
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_in_a_direction(dtype):
    info = torch.finfo(dtype)
    small, large = info.tiny, info.max
    special = [small, -small * 3, small * 0.75, large, -large / 3, 1.0, -7.0, 1 / 3, info.eps]
    pairs = torch.tensor([(a, b) for a in special for b in special], dtype=dtype)
    ordinary = torch.randn(256 - len(pairs), 2, dtype=dtype) * 10.0 ** torch.randint(-8, 8, (256 - len(pairs), 2))
    x, y = torch.cat([pairs, ordinary.to(dtype)]).t().contiguous()
    out = torch.empty(15, 256, dtype=dtype, device=DEVICE)
    directed[(1,)](x.to(DEVICE), y.to(DEVICE), out, N=256)
    neighbor = torch.nextafter(out.cpu(), torch.full((), INFINITY, dtype=dtype)).tolist()
    found = out.cpu().tolist()
    for n, (a, b) in enumerate(zip(map(Fraction, x.tolist()), map(Fraction, y.tolist()), strict=True)):
        for number, exact in enumerate((a + b, a * b, a / b, a * b + a, abs(a))):
            toward_zero, low, high = (found[3 * number + way][n] for way in range(3))
            assert between(low, exact, high, 2 if number == 4 else 1), (number, x[n], y[n])
            assert high in (low, neighbor[3 * number + 1][n]), (number, x[n], y[n])
            assert toward_zero == (low if exact >= 0 else high), (number, x[n], y[n])


@triton.jit
def converted(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, libdevice.float2int_rn(a).to(tl.int64))
    tl.store(out + N + i, libdevice.float2int_rd(a).to(tl.int64))
    tl.store(out + 2 * N + i, libdevice.float2ll_ru(a))
    tl.store(out + 3 * N + i, libdevice.float2ll_rz(a))
    tl.store(out + 4 * N + i, libdevice.float_as_int(a).to(tl.int64))
    tl.store(out + 5 * N + i, libdevice.llround(a))


def test_conversions_to_integers():
    x = torch.tensor([0.5, -0.5, 1.5, -2.5, 3e9, -3e9, 1e19, float("nan")])
    out = torch.empty(6, 8, dtype=torch.int64, device=DEVICE)
    converted[(1,)](x.to(DEVICE), out, N=8)
    most, least = 2**31 - 1, -(2**31)
    assert out[0].tolist() == [0, 0, 2, -2, most, least, most, 0]
    assert out[1].tolist() == [0, -1, 1, -3, most, least, most, 0]
    assert out[2].tolist() == [1, 0, 2, -2, 3 * 10**9, -3 * 10**9, 2**63 - 1, -(2**63)]
    assert out[3].tolist() == [0, 0, 1, -2, 3 * 10**9, -3 * 10**9, 2**63 - 1, -(2**63)]
    assert out[4].tolist() == x.view(torch.int32).tolist()
    assert out[5].tolist()[:6] == [1, -1, 2, -3, 3 * 10**9, -3 * 10**9]


@triton.jit
def of_integers(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = a.to(tl.int32)
    tl.store(out + i, libdevice.clz(a).to(tl.int64))
    tl.store(out + N + i, libdevice.popc(b).to(tl.int64))
    tl.store(out + 2 * N + i, libdevice.ffs(b).to(tl.int64))
    tl.store(out + 3 * N + i, libdevice.brev(b).to(tl.int64))
    tl.store(out + 4 * N + i, libdevice.mulhi(a, a))
    tl.store(out + 5 * N + i, libdevice.rhadd(b, b + 1).to(tl.int64))
    tl.store(out + 6 * N + i, libdevice.byte_perm(b, b, b * 0 + 0x0123).to(tl.int64))
    tl.store(out + 7 * N + i, libdevice.float_as_int(libdevice.ll2float_rd(a)).to(tl.int64))
    tl.store(out + 8 * N + i, libdevice.abs(b).to(tl.int64))


def test_integers():
    values = [0, 1, -1, 6, 2**31 - 1, 2**40 + 12345, -(2**62) - 7, 2**24 + 1]
    out = torch.empty(9, 8, dtype=torch.int64, device=DEVICE)
    of_integers[(1,)](torch.tensor(values, device=DEVICE), out, N=8)
    rows = out.tolist()
    words = [v % 2**32 for v in values]
    signed = [w - 2**32 if w >= 2**31 else w for w in words]
    assert rows[0] == [64 - (v % 2**64).bit_length() for v in values]
    assert rows[1] == [w.bit_count() for w in words]
    assert rows[2] == [(w & -w).bit_length() for w in words]
    assert [r % 2**32 for r in rows[3]] == [int(f"{w:032b}"[::-1], 2) for w in words]
    assert rows[4] == [v * v >> 64 for v in values]
    assert rows[5][:4] == [s + 1 for s in signed[:4]]
    assert [r % 2**32 for r in rows[6]] == [int.from_bytes(w.to_bytes(4, "little"), "big") for w in words]
    floats = torch.tensor(rows[7]).to(torch.int32).view(torch.float32).tolist()
    assert all(f <= v < math.nextafter(f, INFINITY) + 2.0**40 for f, v in zip(floats, values, strict=True))
    assert floats[-1] == 2**24
    assert rows[8] == [abs(s) for s in signed]


@triton.jit
def of_floats(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, libdevice.sinpi(a))
    tl.store(out + N + i, libdevice.cospi(a))
    tl.store(out + 2 * N + i, libdevice.norm3d(a, a, a))
    tl.store(out + 3 * N + i, libdevice.rnorm4d(a, a, a, a))
    tl.store(out + 4 * N + i, libdevice.logb(a))
    tl.store(out + 5 * N + i, libdevice.remainder(a, a * 0 + 3))
    tl.store(out + 6 * N + i, libdevice.erfcinv(1 + a / 64))
    tl.store(out + 7 * N + i, libdevice.pow(a, tl.arange(0, N)))


def test_functions_of_floats(close):
    x = torch.tensor([0.25, -0.75, 1.0, 3.5, -8.25, 31.0, 0.001, 12.125])
    out = torch.empty(8, 8, device=DEVICE)
    of_floats[(1,)](x.to(DEVICE), out, N=8)
    want = [
        torch.sin(math.pi * x.double()),
        torch.cos(math.pi * x.double()),
        x.abs() * 3**0.5,
        0.5 / x.abs(),
        torch.log2(x.abs()).floor(),
        torch.tensor([math.remainder(v, 3) for v in x.tolist()]),
        torch.erfinv(-x.double() / 64),
        x.double() ** torch.arange(8),
    ]
    for got, row in zip(out, want, strict=True):
        close(got, row)
    assert out[0, 2].item() == 0


@triton.jit
def calls_what_is_missing(out):
    tl.store(out, libdevice.jn(1, 2.0))


def test_a_missing_function_is_refused_when_it_is_called():
    with pytest.raises(triton.CompilationError, match="the function jn is not in Hardpoint's library"):
        calls_what_is_missing[(1,)](torch.empty(1, device=DEVICE))
