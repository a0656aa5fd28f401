"""8-bit floats, unsigned integers, and products of narrow, scaled and packed operands."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator

import pytest
import torch

import hardpoint

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
WIDE = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def _no_cpu_tier():
    hardpoint.reset_counters()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert {name: tiers for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bits, except that any NaN equals any other."""
    actual, expected = actual.cpu(), expected.cpu()
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype in FLOAT8:
        nan = expected.float().isnan()
        assert torch.equal(actual.float().isnan(), nan)
        actual, expected = actual.view(torch.uint8).masked_fill(nan, 0), expected.view(torch.uint8).masked_fill(nan, 0)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@contextlib.contextmanager
def declining() -> Iterator[None]:
    """For calls that no tier takes: the last one is the CPU's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            hardpoint.reset_counters()


def float8_matrix(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.randn(*sizes).to(dtype)


# ---- Conversions


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code_is_read_exactly(dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    for wide in WIDE:
        same(codes.to("sim").to(wide), codes.to(wide))
    for other in FLOAT8:
        same(codes.to("sim").to(other), codes.to(other))
    finite = codes[codes.float().isfinite()]
    for whole in (torch.int32, torch.int64, torch.bool, torch.complex64):
        same(finite.to("sim").to(whole), finite.to(whole))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_rounding_to_float8(dtype: torch.dtype) -> None:
    every_half = torch.arange(65536).to(torch.uint16).view(torch.float16)
    bits = torch.randint(-(2**31), 2**31, (20_000,), dtype=torch.int32)
    # Values around every boundary: each code, the middle to the next one, and their neighbors.
    codes = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    codes = codes[codes.isfinite()].sort().values
    middles = torch.cat([codes, (codes[1:] + codes[:-1]) / 2])
    near = torch.cat([middles, middles.nextafter(torch.tensor(1e9)), middles.nextafter(torch.tensor(-1e9))])
    for values in (every_half, bits.view(torch.float32), near, near.double(), every_half.bfloat16()):
        if torch.tensor(1e4).to(FLOAT8[0]).isnan() and dtype == FLOAT8[0]:  # torch saturates since 2.13
            values = values[values.abs() < 464]
        same(values.to("sim").to(dtype), values.to(dtype))
    whole = torch.randint(-600, 600, (1000,))
    same(whole.to("sim").to(dtype), whole.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_layouts_of_float8(dtype: torch.dtype) -> None:
    x = torch.randn(7, 6, 5)
    same(x.to("sim").permute(2, 0, 1)[1:, ::2].to(dtype), x.permute(2, 0, 1)[1:, ::2].to(dtype))
    y = x.to(dtype)
    same(y.to("sim").transpose(0, 2).to(torch.float32), y.transpose(0, 2).float())
    z = torch.zeros(7, 12, 5, dtype=dtype)
    on_device = z.to("sim")
    z[:, 1::2] = x
    on_device[:, 1::2] = x.to("sim")
    same(on_device, z)
    same(torch.randn(0, 3, device="sim").to(dtype), torch.zeros(0, 3, dtype=dtype))
    same(torch.tensor(2.5, device="sim").to(dtype), torch.tensor(2.5).to(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers(dtype: torch.dtype) -> None:
    top = torch.iinfo(dtype).max
    whole = torch.tensor([0, 1, 7, 255, 256, 65535, -1, -300, 2**31, 2**40, -(2**40)])
    same(whole.to("sim").to(dtype), whole.to(dtype))
    own = whole.to(dtype)
    for other in (*WIDE, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64):
        same(own.to("sim").to(other), own.to(other))
    numbers = torch.tensor([0.0, 1.5, 255.9, 4000.5, float(top // 2), float(top // 4)])
    same(numbers.to("sim").to(dtype), numbers.to(dtype))
    if dtype is torch.uint64:
        same(torch.tensor([1.2e19], device="sim").to(dtype), torch.tensor([1.2e19]).to(dtype))


# ---- Products in a wider dtype


@pytest.mark.parametrize(("m", "k", "n"), [(17, 32, 8), (32, 100, 40), (1, 7, 3), (64, 300, 16), (5, 0, 4), (0, 8, 8)])
def test_products_of_bytes(m: int, k: int, n: int) -> None:
    a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((m, k), (n, k)))
    expected = (a.long() @ b.t().long()).int()
    same(torch._int_mm(a.to("sim"), b.to("sim").t()), expected)
    same(torch._int_mm(a.to("sim"), b.t().contiguous().to("sim")), expected)
    out = torch.empty(m, n, dtype=torch.int32, device="sim")
    torch._int_mm(a.to("sim"), b.to("sim").t(), out=out)
    same(out, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_in_float32(dtype: torch.dtype, batch: tuple[int, ...]) -> None:
    a, b = torch.randn(*batch, 20, 70).to(dtype), torch.randn(*batch, 70, 30).to(dtype)
    product = torch.bmm if batch else torch.mm
    expected = a.double() @ b.double()
    x, y = a.to("sim").requires_grad_(), b.to("sim")
    actual = product(x, y, out_dtype=torch.float32)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.detach().cpu().double(), expected, rtol=1e-5, atol=1e-4)
    out = torch.empty(0, device="sim")
    product(x.detach(), y, out_dtype=torch.float32, out=out)
    torch.testing.assert_close(out, actual.detach())
    added = torch.randn(*batch, 20, 30)
    sums = torch.baddbmm if batch else torch.addmm
    actual = sums(added.to("sim"), x.detach(), y, out_dtype=torch.float32, beta=0.5, alpha=2)
    torch.testing.assert_close(actual.cpu().double(), 2 * expected + 0.5 * added.double(), rtol=1e-5, atol=1e-4)


def test_errors_of_wide_products() -> None:
    a, b = torch.randn(2, 3, device="sim"), torch.randn(3, 2, device="sim")
    with pytest.raises(RuntimeError, match=r"got torch.float64 for torch.float32"), declining():
        torch.mm(a, b, out_dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 2x3\)"), declining():
        torch.mm(a.half(), a.half(), out_dtype=torch.float32)


# ---- Scaled products


@pytest.mark.parametrize("types", [FLOAT8[:2], FLOAT8[1::-1], (FLOAT8[0],) * 2])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scaled_products(types: tuple[torch.dtype, torch.dtype], out_dtype: torch.dtype) -> None:
    a, b = float8_matrix(types[0], 32, 80), float8_matrix(types[1], 48, 80)
    per_tensor = (torch.tensor(0.3), torch.tensor(1.7))
    per_row = (torch.rand(32, 1) + 0.5, torch.rand(1, 48) + 0.5)
    for (scale_a, scale_b), bias in itertools.product([per_tensor, per_row], [None, torch.randn(48).to(out_dtype)]):
        exact = (a.double() * scale_a) @ (b.double().t() * scale_b) + (0 if bias is None else bias.double())
        actual = torch._scaled_mm(
            a.to("sim"),
            b.to("sim").t(),
            scale_a=scale_a.to("sim"),
            scale_b=scale_b.to("sim"),
            bias=None if bias is None else bias.to("sim"),
            out_dtype=out_dtype,
        )
        assert actual.dtype == out_dtype
        bound = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[out_dtype]
        torch.testing.assert_close(actual.cpu().double(), exact, rtol=bound, atol=1e-4)


def test_scaled_product_in_float8() -> None:
    a, b = float8_matrix(FLOAT8[0], 16, 32), float8_matrix(FLOAT8[0], 16, 32)
    scales = {"scale_a": torch.tensor(0.5), "scale_b": torch.tensor(0.25)}
    expected = torch._scaled_mm(a, b.t(), **scales)
    on_device = {name: scale.to("sim") for name, scale in scales.items()}
    actual = torch._scaled_mm(a.to("sim"), b.to("sim").t(), **on_device)
    assert actual.dtype == expected.dtype == FLOAT8[0]
    # Sums differ in their last bit, so a result between two codes may round to the other one.
    torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=0.13, atol=1e-2)
    out = torch.empty(16, 16, dtype=torch.bfloat16, device="sim")
    torch._scaled_mm(a.to("sim"), b.to("sim").t(), **on_device, out_dtype=torch.bfloat16, out=out)
    torch.testing.assert_close(out.cpu().float(), a.float() @ b.float().t() / 8, rtol=8e-3, atol=1e-3)


def test_scales_of_blocks() -> None:
    a, b = float8_matrix(FLOAT8[0], 130, 256), float8_matrix(FLOAT8[0], 200, 256)
    scale_a, scale_b = torch.rand(130, 2) + 0.5, torch.rand(2, 2) + 0.5
    left = a.double() * scale_a.repeat_interleave(128, 1)
    right = b.double() * scale_b.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)
    actual = torch._scaled_mm(
        a.to("sim"), b.to("sim").t(), scale_a.to("sim"), scale_b.t().to("sim"), out_dtype=torch.float32
    )
    torch.testing.assert_close(actual.cpu().double(), left @ right.t(), rtol=1e-5, atol=1e-3)


def test_scaled_products_of_groups() -> None:
    a, b = float8_matrix(FLOAT8[0], 48, 32), float8_matrix(FLOAT8[0], 3, 16, 32)
    ends = [16, 16, 48]
    scale_a, scale_b = torch.rand(48) + 0.5, torch.rand(3, 16) + 0.5
    offs = torch.tensor(ends, dtype=torch.int32, device="sim")
    actual = torch._scaled_grouped_mm(
        a.to("sim"), b.to("sim").transpose(1, 2), scale_a.to("sim"), scale_b.to("sim"), offs, out_dtype=torch.bfloat16
    )
    parts = [
        (a[start:end].double() @ b[g].double().t()) * scale_a[start:end, None] * scale_b[g]
        for g, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
    ]
    torch.testing.assert_close(actual.cpu().double(), torch.cat(parts), rtol=8e-3, atol=1e-2)


# ---- Packed weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_int8_weights(dtype: torch.dtype) -> None:
    x, weight = torch.randn(5, 64).to(dtype), torch.randint(-128, 128, (32, 64), dtype=torch.int8)
    scales = (torch.rand(32) / 64).to(dtype)
    exact = (x.double() @ weight.double().t()) * scales.double()
    actual = torch._weight_int8pack_mm(x.to("sim"), weight.to("sim"), scales.to("sim"))
    bound = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.cpu().double(), exact, rtol=bound, atol=1e-3)


def tensor_core_words(weight: torch.Tensor, inner: int) -> torch.Tensor:
    """torch.cuda's layout of 4-bit weights, one number at a time."""
    n, k = weight.shape
    packed = torch.zeros(n // 8, k // (16 * inner), 32, inner // 2, dtype=torch.int64)
    for block, outer, lane, word in itertools.product(*map(range, packed.shape)):
        first = (outer * inner + 2 * word) * 16 + lane % 4 * 2
        columns = [first, first + 8, first + 16, first + 24]
        columns += [column + 1 for column in columns]
        for digit, column in enumerate(columns):
            packed[block, outer, lane, word] |= int(weight[block * 8 + lane // 4, column]) << (4 * digit)
    return packed.to(torch.int32)


@pytest.mark.parametrize("inner", [2, 4, 8])
def test_int4_weights(inner: int) -> None:
    n, k, group = 16, 256, 64
    weight = torch.randint(0, 16, (n, k))
    packed = torch._convert_weight_to_int4pack((weight[:, ::2] << 4 | weight[:, 1::2]).to(torch.uint8).to("sim"), inner)
    same(packed, tensor_core_words(weight, inner))
    x = torch.randn(3, k).bfloat16()
    scales_and_zeros = torch.stack([torch.rand(k // group, n) / 8, torch.randn(k // group, n)], -1).bfloat16()
    scale, zero = (part.repeat_interleave(group, 0).t().double() for part in scales_and_zeros.unbind(-1))
    exact = x.double() @ ((weight - 8) * scale + zero).bfloat16().double().t()
    actual = torch._weight_int4pack_mm(x.to("sim"), packed, group, scales_and_zeros.to("sim"))
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.cpu().double(), exact, rtol=8e-3, atol=1e-2)


def test_errors_of_packed_weights() -> None:
    with pytest.raises(RuntimeError, match="12 rows and 64 columns must be multiples of 8 and 32"), declining():
        torch._convert_weight_to_int4pack(torch.zeros(12, 32, dtype=torch.uint8, device="sim"), 2)
