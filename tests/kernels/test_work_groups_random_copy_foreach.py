"""Random, copy and foreach kernels give the same results with one and with several work-items per group."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from ctypes import c_double, c_int64
from pathlib import Path

import pytest
import torch
from work_groups import Kernel, integers, needs_compiler

from hardpoint.kernels import generator

pytestmark = [pytest.mark.slow, needs_compiler]

ITEMS = 4


def check_both(tmp_path: Path, name: str, description: str, call: Callable[[Kernel], torch.Tensor]) -> torch.Tensor:
    one = call(Kernel(tmp_path, name, description, 1))
    several = call(Kernel(tmp_path, name, description, ITEMS))
    assert torch.equal(one.view(torch.uint8), several.view(torch.uint8))
    return several


N = 1001


#: Start offsets in elements: memory aligned for vectors, and unaligned memory.
OFFSETS = [0, 1]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("distribution", range(6))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random(tmp_path, distribution, dtype, offset):
    def call(run: Kernel) -> torch.Tensor:
        out = torch.full((N + offset,), -7.0, dtype=torch.float64 if dtype == "f64" else torch.float32)[offset:]
        run(run.groups(N), out, N, 5, 2**32 - 9, c_double(0.25), c_double(1.5), 0, 0)
        return out

    check_both(tmp_path, "random:fill", f"T={dtype} DIST={distribution} WIDE={int(dtype == 'f64')}", call)


@pytest.mark.parametrize("offset", OFFSETS)
def test_dropout(tmp_path, offset):
    x = torch.rand(N + offset)[offset:] + 1

    def call(run: Kernel) -> torch.Tensor:
        out, mask = torch.zeros(N), torch.full((N + offset,), 9, dtype=torch.uint8)[offset:]
        run(run.groups(N), out, mask, x, N, 5, 0, 2**31, c_double(2.0))
        assert torch.equal(out, x * mask * 2)
        return out

    check_both(tmp_path, "random:dropout", "T=f32", call)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("count", [N, 1024])
def test_dropout_backward(tmp_path, count, offset):
    grad, mask = torch.randn(count + offset)[offset:], torch.randint(2, (count,), dtype=torch.uint8)

    def call(run: Kernel) -> torch.Tensor:
        out = torch.zeros(count)
        run(run.groups(count), out, grad, mask, count, c_double(2.0))
        return out

    assert torch.equal(check_both(tmp_path, "random:dropout_backward", "T=f32", call), grad * mask * 2)


@pytest.mark.parametrize("sampler", ["gamma", "poisson"])
def test_rejection_sampling(tmp_path, sampler):
    parameter = torch.rand(N) * 40

    def call(run: Kernel) -> torch.Tensor:
        out = torch.zeros(N)
        run(run.groups(N), out, parameter, N, 5, 0)
        return out

    check_both(tmp_path, f"random:{sampler}", "T=f32", call)


def test_copy(tmp_path):
    source = torch.randn(13, 7, 11) * 50

    def call(run: Kernel) -> torch.Tensor:
        out = torch.zeros(13, 11, 7, dtype=torch.int16)
        sizes, to, from_ = [7, 11, 13], [1, 7, 77], [11, 1, 77]
        table = integers(*(v for part in (sizes, to, from_) for v in part + [0] * 5))
        run(run.groups(N), out, source, N, table)
        return out

    assert torch.equal(
        check_both(tmp_path, "copy:strided", "R=i16 T=f32 DIMS=3 INNER=1", call), source.mT.to(torch.int16)
    )


def test_copy_of_complex_numbers(tmp_path):
    real = torch.randn(N)

    def to_complex(run: Kernel) -> torch.Tensor:
        out = torch.full((N,), complex(7, 7))
        run(run.groups(N), out, real, N, integers([N, *[0] * 7], [1, *[0] * 7], [1, *[0] * 7]))
        return out

    made = check_both(tmp_path, "copy:strided", "R=c64 T=f32 DIMS=1 INNER=2", to_complex)
    assert torch.equal(made, real.to(torch.complex64))
    numbers = torch.complex(torch.randint(2, (N,)).float(), torch.randint(2, (N,)).float())

    def to_bool(run: Kernel) -> torch.Tensor:
        out = torch.full((N,), 9, dtype=torch.uint8)
        run(run.groups(N), out, numbers, N, integers([N, *[0] * 7], [1, *[0] * 7], [1, *[0] * 7]))
        return out

    made = check_both(tmp_path, "copy:strided", "R=bool T=c64 DIMS=1 INNER=2", to_bool)
    assert torch.equal(made, numbers.to(torch.bool).byte())


@pytest.mark.parametrize(
    ("name", "dtype"), [("u8", torch.uint8), ("i16", torch.int16), ("i32", torch.int32), ("i64", torch.int64)]
)
@pytest.mark.parametrize("shape", [(3, 70, 45), (1, 32, 32), (2, 9, 100)])
def test_transpose(tmp_path, name, dtype, shape):
    batch, height, width = shape
    source = torch.randint(0, 127, shape, dtype=dtype)

    def call(run: Kernel) -> torch.Tensor:
        out = torch.zeros(batch, width, height, dtype=dtype)
        sizes, to, from_ = [height, width, batch], [1, height, height * width], [width, 1, height * width]
        table = integers(*(v for part in (sizes, to, from_) for v in part + [0] * 5))
        run(batch * -(-height // 32) * -(-width // 32), out, source, table)
        return out

    assert torch.equal(check_both(tmp_path, "copy:transpose", f"T={name} DIMS=3 BLOCK=32", call), source.mT)


@pytest.mark.parametrize("slots", [8, 40])
def test_foreach(tmp_path, slots):
    sizes = [(k * 37 % 11) ** 4 // 9 for k in range(slots - 3)] + [0] * 3
    a, b = ([torch.randn(size) for size in sizes] for _ in range(2))

    def call(run: Kernel) -> torch.Tensor:
        out = [torch.zeros(size) for size in sizes]
        first = list(itertools.accumulate(map(run.groups, sizes), initial=0))
        numbers = (c_double * slots)(*(0.5 * k for k in range(slots)))
        table = (c_int64 * (3 * slots + 2))(*first, *sizes, 0, *(c_int64 * slots).from_buffer(numbers))
        run(first[-1], *out, *a, *b, table)
        return torch.cat(out)

    made = check_both(tmp_path, "foreach:map2", f"T=f32 SLOTS={slots} OP=20 ONE=0", call)
    torch.testing.assert_close(made, torch.cat([x + 0.5 * k * y for k, (x, y) in enumerate(zip(a, b, strict=True))]))


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize(
    ("name", "description", "elements_per_item"),
    [
        ("random:fill", "T=f32 DIST=1 WIDE=0", 16),
        ("random:search", "T=f32", 4),
        ("copy:transpose", "T=i32 DIMS=2 BLOCK=32", 8),
        ("optimizer:adam", "T=f32 SLOTS=4 DECOUPLED=0 AMSGRAD=0 MAXIMIZE=0", 4),
        ("foreach:map2", "T=f16 SLOTS=40 OP=20 ONE=0", 16),
    ],
)
def test_other_dialects(name, description, elements_per_item, dialect):
    made = generator.generate(name, description, dialect, 64)
    assert made is not None
    source, entry, elements = made
    assert elements == elements_per_item * 64
    head = source[: source.index(f" {entry}(")].rsplit("\n", 1)[1]
    assert {"opencl": "__kernel", "cuda": "__global__"}[dialect] in head
