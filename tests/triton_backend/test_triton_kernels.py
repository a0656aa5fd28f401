"""Triton kernels on a device, by default sim, against torch on the CPU."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
import triton_kernels as kernels
from philox import drawn_bits

from hardpoint import debug
from hardpoint.triton import stages

DEVICE = os.environ["HARDPOINT_DEVICE"]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device=DEVICE)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize("n", [1, 127, 1024, 10007])
def test_add(dtype, n, counted):
    x, y = ((torch.randn(n) * 50).to(dtype) for _ in range(2))
    out = empty(n, dtype=dtype)
    kernels.add[(triton.cdiv(n, 1024),)](x.to(DEVICE), y.to(DEVICE), out, n, BLOCK=1024)
    assert torch.equal(out.cpu(), x + y)
    assert counted()["triton::add"] == {"portable": 1}


def test_an_empty_grid_does_nothing():
    x = torch.ones(4, device=DEVICE)
    kernels.add[(0,)](x, x, x, 0, BLOCK=64)
    assert x.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype, close):
    x = torch.randn(30, 781).to(dtype)
    out = empty(30, 781, dtype=dtype)
    kernels.softmax[(30,)](x.to(DEVICE), out, 781, BLOCK=1024)
    close(out, x.double().softmax(1), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype, close):
    x = torch.randn(20, 1000).to(dtype)
    out = empty(20, 1000, dtype=dtype)
    kernels.row_statistics[(20,)](x.to(DEVICE), out, 1000, 1e-5, BLOCK=256)
    close(out, F.layer_norm(x.float(), (1000,)), max(TOLERANCE[dtype], 1e-4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (150, 170, 200), (1, 33, 17)])
def test_matmul(dtype, sizes, close):
    m, n, k = sizes
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    out = empty(m, n, dtype=dtype)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 64))
    kernels.matmul[grid](a.to(DEVICE), b.to(DEVICE), out, m, n, k, k, n, BM=32, BN=64, BK=32)
    close(out, (a.double() @ b.double()).to(dtype), max(TOLERANCE[dtype], 1e-4))


@pytest.mark.parametrize(
    ("given", "kind", "result"),
    [
        (torch.int8, tl.int32, torch.int32),
        (torch.float64, tl.float64, torch.float64),
        (torch.float16, tl.float16, torch.float16),
        (torch.bfloat16, tl.float32, torch.float32),
        (torch.float8_e5m2, tl.float32, torch.float32),
        (torch.float8_e4m3fn, tl.float32, torch.float32),
        (torch.float8_e5m2fnuz, tl.float32, torch.float32),
        (torch.float8_e4m3fnuz, tl.float32, torch.float32),
    ],
)
def test_dot_of_one_tile(given, kind, result, close):
    a, b = ((torch.randn(32, 32) * 3).to(given) for _ in range(2))
    out = empty(32, 32, dtype=result)
    kernels.tile_dot[(1,)](a.to(DEVICE), b.to(DEVICE), out, B=32, TYPE=kind)
    close(out, a.double() @ b.double().t(), 5e-2 if result == torch.float16 else 1e-5)


@pytest.mark.parametrize("form", ["e2m1", "e4m3"])
def test_scaled_dot(form, close):
    b = torch.randn(64, 32).to(torch.float8_e5m2)
    scales = torch.randint(120, 134, (2, 32, 2), dtype=torch.uint8)
    if form == "e2m1":
        given = torch.randint(0, 256, (32, 32), dtype=torch.uint8)
        table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        numbers = torch.stack([given & 15, given >> 4], -1).reshape(32, 64).long()
        a = torch.where(numbers < 8, 1, -1) * table[numbers % 8]
    else:
        given = torch.randn(32, 64).to(torch.float8_e4m3fn)
        a = given.float()
    out = empty(2, 32, 32)
    arguments = given.to(DEVICE), scales[0].to(DEVICE), b.to(DEVICE), scales[1].to(DEVICE), out
    kernels.scaled_dot[(1,)](*arguments, FORMAT=form)
    factors = 2.0 ** (scales.double() - 127).repeat_interleave(32, -1)
    left, right = a.double() * factors[0], b.double()
    close(out[0], left @ (right * factors[1].t()), 1e-3)
    close(out[1], left @ right, 1e-3)


def test_batched_dot(close):
    a, b, out = torch.randn(2, 16, 16), torch.randn(2, 16, 16), empty(2, 16, 16)
    kernels.batched_dot[(1,)](a.to(DEVICE), b.to(DEVICE), out, B=16)
    close(out, a @ b)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_atomics(dtype):
    n, programs = 5000, 20
    x = torch.randint(0, 1000, (n,), dtype=dtype)
    total, most = torch.zeros(4, dtype=dtype, device=DEVICE), torch.zeros(1, dtype=dtype, device=DEVICE)
    counts = torch.zeros(programs + 1, dtype=torch.int32, device=DEVICE)
    kernels.atomic_sum[(programs,)](x.to(DEVICE), total, most, counts, n, BLOCK=256)
    assert total.tolist() == [x[x % 4 == k].sum().item() for k in range(4)]
    assert most.item() == x.max()
    assert counts.tolist() == [programs] + [7] * programs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_atomic_add_of_floats(dtype):
    x = torch.randint(0, 2, (600,), dtype=torch.int32)
    total = torch.zeros(4, dtype=dtype, device=DEVICE)
    kernels.atomic_sum[(3,)](x.to(DEVICE), total, *torch.zeros(2, 8, dtype=torch.int32, device=DEVICE), 600, BLOCK=256)
    assert total.tolist() == [0, min(x.sum().item(), 256) if dtype == torch.bfloat16 else x.sum().item(), 0, 0]


def test_random_numbers_are_philox():
    n, seed = 1000, 0x123456789
    out, ints = empty(n), empty(n, dtype=torch.int32)
    kernels.random[(1,)](out, ints, n, seed, BLOCK=1024)
    bits = drawn_bits(seed, 0, n)
    assert [v % 2**32 for v in ints.tolist()] == (bits[:, 0] | bits[:, 1] << 16).tolist()
    assert out.min() >= 0
    assert out.max() < 1
    assert abs(out.mean().item() - 0.5) < 0.05


def test_scans(close):
    x = torch.randn(16, 16)
    sums, reverse, recurrence = empty(16, 16), empty(16, 16), empty(16, 16)
    kernels.scans[(1,)](x.to(DEVICE), sums, reverse, recurrence, N=16)
    close(sums, x.cumsum(0))
    close(reverse, x.flip(1).cumsum(1).flip(1))
    state = torch.zeros(16)
    for column in range(16):
        state = state * (0.5 * x[:, column]) + x[:, column]
        close(recurrence[:, column], state)


def test_sort_gather_transpose_split_histogram():
    x = torch.randn(4, 64) * 5
    ordered, gathered, moved, pairs = (empty(4, 64) for _ in range(4))
    best, counts = empty(4, dtype=torch.int32), empty(8, dtype=torch.int32)
    kernels.rearrange[(1,)](x.to(DEVICE), ordered, best, gathered, moved, pairs, counts, ROWS=4, N=64)
    assert torch.equal(ordered.cpu(), x.sort(1, descending=True)[0])
    assert torch.equal(best.cpu(), x.argmax(1).int())
    assert torch.equal(gathered.cpu(), x.flip(1))
    assert torch.equal(moved.cpu().reshape(64, 4), x.t())
    left, right = x[:, ::2], x[:, 1::2]
    assert torch.equal(pairs.cpu(), torch.cat([left - right, left + right], 1))
    assert counts.tolist() == torch.bincount(x.abs().int().flatten() % 8, minlength=8).tolist()


def test_dropout(tmp_path):
    x, kept, out = torch.randn(30, 64), empty(30, 64, dtype=torch.bool), empty(30, 64)
    compiled = kernels.dropout[(2,)](x.to(DEVICE), kept, out, 30, 7, ROWS=16, N=64)
    assert torch.equal(out.cpu(), x * kept.cpu())
    assert 0.7 < kept.float().mean().item() < 0.8
    if DEVICE == "sim" and platform.machine() == "x86_64" and shutil.which("gcc"):
        # The loop that draws numbers: its offsets are plain, and it converts a comparison to a float.
        (tmp_path / "kernel.c").write_text(compiled.asm["c"])
        command = [
            "gcc",
            "-O3",
            "-march=x86-64-v3",
            "-fno-trapping-math",
            "-fno-math-errno",
            *stages.LOOP_FLAGS.split(),
        ]
        command += ["-w", "-fopt-info-vec-optimized", "-c", "kernel.c", "-o", "kernel.o"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        lines = compiled.asm["c"].splitlines()
        loops = [int(line.split(":")[1]) for line in done.stderr.splitlines() if line.startswith("kernel.c:")]
        draws = next(number for number, line in enumerate(lines, 1) if "= ((hp_i32)hp_mulhi_u32" in line)
        start = max(number for number in range(draws) if lines[number - 1] == "HP_VECTORIZE")
        assert start in loops or start + 1 in loops, done.stderr


@pytest.mark.parametrize(("name", "factor"), [("double", 2), ("memset", 0)])
def test_names_that_c_has_already(name, factor, counted):
    x, out = torch.randn(1024), empty(1024)
    getattr(kernels, name)[(1,)](x.to(DEVICE), out, N=1024)
    assert torch.equal(out.cpu(), x * factor)
    assert counted()[f"triton::{name}"] == {"portable": 1}


@pytest.mark.skipif(DEVICE != "sim", reason="flags of the C compiler")
def test_a_long_kernel_is_not_unrolled(monkeypatch):
    """gcc took four times as long for a sorting network, whose loops are all short."""
    flags = []
    compiled = stages.specializer.binary

    def binary(*given):
        flags.append(given[4])
        return compiled(*given)

    monkeypatch.setattr(stages.specializer, "binary", binary)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    x, whole = torch.empty(16, device=DEVICE), torch.empty(16, dtype=torch.int32, device=DEVICE)
    kernels.rearrange.warmup(x, x, whole, x, x, x, whole, ROWS=2, N=64, grid=(1,))
    kernels.add.warmup(x, x, x, 16, BLOCK=32, grid=(1,))
    assert [stages.LONG_FLAGS in given for given in flags] == [True, False]


def test_branches_and_loops():
    n = 300
    x = torch.randint(-50, 50, (n,), dtype=torch.int32)
    out = torch.zeros(n, dtype=torch.int32, device=DEVICE)
    kernels.control[(9,)](x.to(DEVICE), out, n, BLOCK=64)
    pid = torch.arange(n) // 64
    want = torch.where(pid % 2 == 0, x * 2 + 513, x - 1 + 512) + (pid > 1).int()
    assert torch.equal(out.cpu(), want.int())


def test_values_that_exchange_places():
    out = empty(16, dtype=torch.int32)
    kernels.fibonacci[(1,)](out, 7)
    a, b, x, y = torch.arange(16), torch.arange(16) + 1, 0, 1
    for _ in range(7):
        a, b, x, y = b, a + b, y, x + y
    assert torch.equal(out.cpu(), (a + x).int())


def test_a_tile_that_moves_in_a_loop(close):
    x, out = torch.randn(16, 16), empty(16, 16)
    kernels.shift_rows[(1,)](x.to(DEVICE), out, N=16, STEPS=3)
    for _ in range(3):
        x = x.t() + x.sum(0)[:, None]
    close(out, x, 1e-4)


def test_loads_come_before_stores():
    x, y = torch.randn(64), torch.randn(64)
    a, b = x.to(DEVICE), y.to(DEVICE)
    kernels.flip_in_place[(1,)](a, N=64)
    assert torch.equal(a.cpu(), x.flip(0))
    kernels.swap[(1,)](a, b, N=64)
    assert torch.equal(a.cpu(), y)
    assert torch.equal(b.cpu(), x.flip(0))


@pytest.mark.parametrize("n", [64, 1000])
def test_stores_share_what_they_compute(n, close):
    x, y = torch.randn(n), torch.randn(n)
    given, found = (x.to(DEVICE), y.to(DEVICE)), [empty(n) for _ in range(3)]
    compiled = kernels.three_results[(triton.cdiv(n, 256),)](*given, *found, n, BLOCK=256)
    for got, want in zip(found, (x.exp() + y, (x.exp() + y) ** 2, x * y), strict=True):
        close(got, want)
    (source,) = (text for kind, text in compiled.asm.items() if kind in ("c", "cl"))
    body = source[source.rindex("three_results(") :]
    assert body.count("hp_exp_f32") == 1, body


def test_stores_exchange_tensors():
    x, y = torch.randn(300), torch.randn(300)
    left, right = x.to(DEVICE), y.to(DEVICE)
    kernels.exchange[(2,)](left, right, 300, BLOCK=256)
    assert torch.equal(left.cpu(), y)
    assert torch.equal(right.cpu(), x)


def test_stores_to_the_same_memory_keep_their_order():
    x = torch.randn(64)
    out, back = empty(65), empty(64)
    kernels.overlapping_stores[(1,)](x.to(DEVICE), out, back, N=64)
    want = torch.cat([x[:1], -x])
    assert torch.equal(out.cpu(), want)
    assert torch.equal(back.cpu(), want[1:].flip(0))


def test_nan_and_infinity(close):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.5, -3.0])
    out = empty(6)
    kernels.special[(1,)](x.to(DEVICE), out, 6, BLOCK=64)
    nan = x.isnan()
    want = (
        torch.where(nan, 0.5, x.clamp(min=0.5)) + torch.where(nan, 2.0, x.clamp(max=2.0)) + nan * 2 + x.clamp(min=1.0)
    )
    close(out, want)


def test_functions(close):
    x, out = torch.rand(64) * 6 - 3, empty(5, 64)
    kernels.functions[(1,)](x.to(DEVICE), out, 64, N=64)
    v = x.double()
    close(out[0], v.exp() + v.exp2() + v.sin() + v.cos())
    close(out[1], (v + 4).log() + (v + 4).log2() + (v + 4).sqrt() + (v + 4).rsqrt())
    close(out[2], v.erf() + v.floor() + v.ceil() + v.abs() + v * v + v)
    close(out[3], v.tanh() + (v + 4).pow(v) + (v + 4).log1p() + (v / 9).erfinv())
    close(out[4], v.sigmoid() + v.clamp(-1, 1) + v / (v + 4) + (v + 4).lgamma())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rarer_functions(dtype, close):
    x, out = (torch.rand(64) * 6 - 3).to(dtype), empty(4, 64, dtype=dtype)
    whole = empty(64, dtype=torch.int64)
    kernels.rarer_functions[(1,)](x.to(DEVICE), out, whole, N=64)
    v, special = x.double(), torch.special
    close(out[0], v.sign() * v.abs() ** (1 / 3) + 10**v + (v + 4).lgamma().exp() + special.erfcx(v), 1e-4)
    away = (v * 2).sign() * ((v * 2).abs() + 0.5).floor()
    close(out[1], away + (v - 1).clamp(min=0) + v * 2.0 ** (torch.arange(64) % 5 - 2))
    close(out[2], v * v + v / (v + 4) + v * v + v)
    close(out[3], special.bessel_j0(v) + special.i1(v) + special.ndtr(v), 1e-4)
    assert torch.equal(whole.cpu(), (x * 3).round().long() + (v + 4).log2().floor().long())


def test_fast_functions(close):
    x, out = torch.rand(64) * 6 - 3, empty(64)
    kernels.fast_functions[(1,)](x.to(DEVICE), out, N=64)
    close(out, x.tanh() + x / (x + 4) + x.exp())


def test_integer_arithmetic_wraps():
    x = torch.randint(-(2**31), 2**31 - 1, (128,), dtype=torch.int32)
    y = torch.randint(1, 2**20, (128,), dtype=torch.int32)
    out = empty(7, 128, dtype=torch.int32)
    kernels.integers[(1,)](x.to(DEVICE), y.to(DEVICE), out, N=128)
    got = out.cpu()
    assert torch.equal(got[0], torch.div(x, y, rounding_mode="trunc"))
    assert torch.equal(got[1], torch.fmod(x, y))
    assert torch.equal(got[2], x * y + 123456789)
    assert torch.equal(got[3], (x ^ y) | (x & 15))
    assert torch.equal(got[4], (x << 3) + (x >> 2))
    assert torch.equal(got[5], torch.minimum(x, y) - torch.maximum(x, y) + x.abs())
    products = [a % 2**32 * b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    want = [(product >> 32) - (product >> 63 << 32) for product in products]
    assert got[6].tolist() == want


NARROW = [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]
NARROW += [torch.float8_e5m2fnuz, torch.float8_e4m3fnuz]


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_round_as_torch_does(dtype):
    edges = torch.tensor([0.0, -0.0, 240.0, 447.0, 57344.0])
    x = torch.cat([torch.randn(4000) * 10 ** torch.linspace(-9, 2, 4000), edges])
    most = {torch.float8_e4m3fn: 440, torch.float8_e4m3fnuz: 235}.get(dtype)
    x = x.clamp(-most, most) if most else x
    out = empty(len(x), dtype=dtype)
    grid = (triton.cdiv(len(x), 1024),)
    kernels.convert[grid](x.to(DEVICE), out, len(x), BLOCK=1024)
    assert torch.equal(out.cpu().float(), x.to(dtype).float())
    back = empty(len(x))
    kernels.convert[grid](out, back, len(x), BLOCK=1024)
    assert torch.equal(back.cpu(), x.to(dtype).float())


PAIRS = [(torch.float32, torch.int32), (torch.int8, torch.float64), (torch.bool, torch.float32)]


@pytest.mark.parametrize("pair", PAIRS)
def test_conversions(pair):
    x = (torch.randn(300) * 50).to(pair[0])
    out = empty(300, dtype=pair[1])
    kernels.convert[(2,)](x.to(DEVICE), out, 300, BLOCK=256)
    assert torch.equal(out.cpu(), x.to(pair[1]))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr")
def test_block_pointers():
    x, out = torch.randn(100, 72), torch.zeros(100, 72, device=DEVICE)
    kernels.block_pointers[(4,)](x.to(DEVICE), out, 100, 72, BM=32, BN=32)
    assert torch.equal(out.cpu(), x * 2)


def test_tensor_descriptors():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.randn(100, 72), torch.zeros(100, 72, device=DEVICE)
    kernels.descriptors[(4, 3)](x.to(DEVICE), out, 100, 72, BM=32, BN=32)
    assert torch.equal(out.cpu(), x * 2)
    tile = empty(32, 32)
    kernels.host_descriptor[(1,)](TensorDescriptor.from_tensor(x.to(DEVICE), [32, 32]), tile, 72, BM=32, BN=32)
    assert torch.equal(tile.cpu(), x[:32, :32])


def test_separate_functions_and_scalar_functions(close):
    x, y = torch.randn(64), torch.randn(64)
    out = empty(2, 64)
    kernels.calls[(1,)](x.to(DEVICE), out, N=64)
    close(out, torch.stack([x * 3, x + x[5] + 1]))
    kernels.mapped[(1,)](x.to(DEVICE), y.to(DEVICE), out, N=64)
    close(out[0], torch.where(x > y, x - y, x * y))
    kernels.mapped_in_pairs[(1,)](x.to(DEVICE), y.to(DEVICE), out, N=64)
    neighbor = x.view(-1, 2).flip(1).reshape(-1)
    close(out[0], neighbor + y)
    close(out[1], neighbor * 2)


def test_scalars_of_tensors():
    x, out = torch.tensor([3.0, 5.0]), empty(2)
    kernels.scalars_of_tensors[(1,)](x.to(DEVICE), out)
    assert out.tolist() == [-2, 5]


# Index arithmetic in every order of divisors, masks that end inside of a part, and lengths that are no multiple.
@pytest.mark.parametrize("sizes", [(7, 64), (70, 8), (3, 24), (2, 100)])
def test_coordinates(sizes):
    outer, inner = sizes
    x = torch.randn(outer, 4, inner)
    n = outer * inner
    out, total = empty(4, n), empty(4)
    kernels.coordinates[(4,)](x.to(DEVICE), out, total, n, INNER=inner, BLOCK=256)
    want = x.transpose(0, 1).reshape(4, n)
    assert torch.equal(out.cpu(), want)
    torch.testing.assert_close(total.cpu(), want.sum(1), rtol=1e-4, atol=1e-4)


def test_division_by_a_shared_number():
    tiny, huge = 1e-40, 3e38
    rows = [[3.0, 6.0, 49.0, 0.0], [49.0, 7.0, 1e-39, -2.0], [huge, 0.5, float("inf"), float("nan")]]
    for divisor in (3.0, 49.0, 0.1, tiny, huge, 0.0, -0.5, float("inf"), float("nan")):
        x = torch.tensor(rows).flatten().repeat(4)
        out = empty(48)
        kernels.divide[(1,)](x.to(DEVICE), torch.tensor([divisor], device=DEVICE), out, 48, BLOCK=64)
        torch.testing.assert_close(out.cpu(), x / divisor, rtol=2.4e-7, atol=2e-45, equal_nan=True)


def test_three_dimensional_grids():
    out = empty(2, 3, 4, dtype=torch.int32)
    kernels.program_shape[(4, 3, 2)](out)
    x, y, z = torch.arange(4), torch.arange(3)[:, None], torch.arange(2)[:, None, None]
    assert torch.equal(out.cpu(), (x + 10 * y + 100 * z).int())


def test_tiles_larger_than_the_stack(close):
    x, out = torch.randn(1 << 20), empty(1 << 20)
    kernels.huge[(1,)](x.to(DEVICE), out, N=1 << 20)
    close(out, x.double().cumsum(0), 1e-2)


def test_autotune_and_heuristics():
    x = torch.randn(1000)
    out = empty(1000)
    kernels.tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x.to(DEVICE), out, 1000)
    assert torch.equal(out.cpu(), x + 1)
    assert kernels.tuned.best_config.kwargs["BLOCK"] in (64, 256)


def test_tuples_of_pointers():
    x, out = torch.randn(64), empty(64)
    kernels.with_tuple[(1,)]((x.to(DEVICE), out), 3, N=64)
    assert torch.equal(out.cpu(), x * 3)


@pytest.mark.skipif(DEVICE != "sim", reason="other devices may be the only one")
def test_the_second_device_and_a_stream():
    x = torch.randn(1000)
    with torch.sim.device(1):
        out = torch.empty(1000, device="sim:1")
        stream = torch.sim.Stream()
        with torch.sim.stream(stream):
            y = x.to("sim:1")
            kernels.add[(1,)](y, y, out, 1000, BLOCK=1024)
        stream.synchronize()
    assert torch.equal(out.cpu(), x * 2)


def test_the_time_to_translate_does_not_grow_with_the_paths_through_a_kernel(close):
    given = torch.rand(64) * 2
    x, want = given.to(DEVICE), given.clone()
    kernels.shared_values[(1,)](x, 50, N=64, DEPTH=40)
    for _ in range(40):
        want[:50] = want[:50] * 0.5 + want[:50].clamp(max=1)
    close(x, want)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_division_without_traps(dtype):
    least = torch.iinfo(dtype).min
    x = torch.tensor([least, least, 7, -7, least + 1, 0, 5, -1], dtype=dtype)
    y = torch.tensor([-1, 1, 2, 2, -1, 3, -5, least], dtype=dtype)
    out = empty(24, dtype=dtype)
    kernels.quotients[(1,)](x.to(DEVICE), y.to(DEVICE), out, N=8)
    quotients = torch.div(x[1:], y[1:], rounding_mode="trunc").tolist()
    assert out.tolist() == [least, *quotients, 0, *torch.fmod(x[1:], y[1:]).tolist(), *x.abs().tolist()]
    kernels.quotients[(1,)](x.to(DEVICE), torch.zeros_like(y).to(DEVICE), out, N=8)  # any value, but no signal
    assert out.tolist()[16:] == x.abs().tolist()


def test_offsets_that_wrap_around():
    table = torch.arange(1024)
    signed, unsigned = empty(4096, dtype=torch.int64), empty(4096, dtype=torch.int64)
    kernels.hashed[(1,)](table.to(DEVICE), signed, unsigned, SIZE=1024, N=4096)
    i = torch.arange(4096)
    h = (i * 11651675 + 3).int()
    assert torch.equal(signed.cpu(), torch.where(h < 0, 0, h & 1023).long())
    assert torch.equal(unsigned.cpu(), i * 2654435761 % (1 << 32) % 1024)


def test_programs_that_wait_for_each_other():
    programs = 300
    state, out = torch.zeros(programs, dtype=torch.int32, device=DEVICE), empty(programs, 16, dtype=torch.int32)
    kernels.wait_for_predecessor[(programs,)](state, out, N=16)
    assert state.tolist() == list(range(1, programs + 1))
    assert out[1:].tolist() == [[1 + before] * 16 for before in range(1, programs)]


def test_pointers_from_memory():
    x, y = torch.randn(64), torch.randn(64)
    on_device, other, out = x.to(DEVICE), y.to(DEVICE), empty(64)
    pointers = torch.tensor([0, on_device.data_ptr()], device=DEVICE)
    kernels.indirect[(1,)](pointers, other.data_ptr(), out, N=64)
    assert torch.equal(out.cpu(), x + y)
    assert pointers.tolist() == [out.data_ptr() + 256, on_device.data_ptr()]


def test_accesses_outside_of_a_tensor_are_found_while_the_guard_is_on():
    x, out = torch.ones(100, device=DEVICE), torch.zeros(16, device=DEVICE)
    a = torch.ones(40, 40, device=DEVICE)
    product = torch.zeros_like(a)
    wait = getattr(torch, DEVICE).synchronize
    with debug.Guard():
        kernels.copy_from[(1,)](x, out, 84, N=16)
        kernels.matmul[(2, 1)](a, a, product, 40, 40, 40, 40, 40, BM=32, BN=64, BK=16)
        wait()
        assert torch.equal(product.cpu(), torch.full((40, 40), 40.0))
        for source, offset, to, number in ((x, 85, out, 0), (x, -1, out, 0), (x, 0, out[1:], 1)):
            to.zero_()
            kernels.copy_from[(1,)](source, to, offset, N=16)
            with pytest.raises(RuntimeError, match=rf"copy_from: its argument {number} is read or written outside"):
                wait()
            assert to.sum() == 15  # what is outside is neither read nor written
        kernels.matmul[(2, 1)](a, a, product, 40, 40, 48, 40, 40, BM=32, BN=64, BK=16)
        with pytest.raises(RuntimeError, match=r"matmul: its argument 1 .*, at line \d+"):
            wait()
