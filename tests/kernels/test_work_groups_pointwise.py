"""Pointwise kernels with work-groups of many work-items: the vector path and the scalar path."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from work_groups import Kernel, integers, needs_compiler

pytestmark = [needs_compiler, pytest.mark.parametrize("group_size", [4, 64])]

MAX_OPERANDS, MAX_DIMENSIONS = 6, 8


def geometry(sizes: list[int], *strides: list[int]) -> object:
    """Sizes, and strides in bytes, fastest dimension first."""

    def padded(values: list[int]) -> list[int]:
        return [*values, *[0] * (MAX_DIMENSIONS - len(values))]

    rest = [padded([])] * (MAX_OPERANDS - len(strides))
    elements = 1
    for size in sizes:
        elements *= size
    return integers(elements, padded(sizes), *map(padded, strides), *rest)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float64, "f64")])
@pytest.mark.parametrize("offset", [0, 1])
def test_contiguous(tmp_path: Path, group_size: int, dtype: torch.dtype, name: str, offset: int) -> None:
    description = f"compute={name} outputs=1 variant=0 dimensions=1 operands={','.join([f'{name}:contiguous'] * 3)}"
    kernel = Kernel(tmp_path, "mul", description, group_size)
    count = 2 * kernel.elements + 3  # two full groups and a partial one
    a, b = (torch.randn(count + offset).to(dtype)[offset:] for _ in range(2))
    out = torch.full((count + 1,), 7.0).to(dtype)  # one extra element that must not be written
    kernel(kernel.groups(count), out, a, b, geometry([count], *[[a.element_size()]] * 3))
    assert torch.equal(out[:count], a * b)
    assert out[count] == 7
    kernel(kernel.groups(count), a, a, b, geometry([count], *[[a.element_size()]] * 3))
    assert torch.equal(a, out[:count])


def test_broadcast_row(tmp_path: Path, group_size: int) -> None:
    description = "compute=f32 outputs=1 variant=0 dimensions=2 operands=f32:contiguous,f32:contiguous,f32:contiguous"
    kernel = Kernel(tmp_path, "mul", description, group_size)
    a, row, out = torch.randn(37, 21), torch.randn(21), torch.full((37, 21), float("nan"))
    kernel(kernel.groups(out.numel()), out, a, row, geometry([21, 37], [4, 84], [4, 84], [4, 0]))
    assert torch.equal(out, a * row)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float32, "f32"), (torch.bfloat16, "bf16")])
def test_row_alignment(tmp_path: Path, group_size: int, dtype: torch.dtype, name: str) -> None:
    """Rows of whole vectors, rows with a partial vector, and rows that start unaligned."""
    size = dtype.itemsize
    for inner in ("contiguous", "broadcast"):
        operands = ",".join(f"{name}:{kind}" for kind in ("contiguous", "contiguous", inner))
        description = f"compute={name} outputs=1 variant=0 dimensions=3 operands={operands}"
        kernel = Kernel(tmp_path, "sub", description, group_size)
        for width, pitch, start in ((32, 32, 0), (21, 21, 0), (32, 33, 0), (32, 40, 1), (8, 16, 8)):
            whole = torch.randn(5, 29, pitch + start).to(dtype)
            a, out = whole[:, :, start : start + width], torch.full((5, 29, width), torch.nan).to(dtype)
            b = torch.randn(5, 1, width).to(dtype) if inner == "contiguous" else torch.randn(29, 1).to(dtype)
            steps = [[size * step for step in reversed(t.expand(5, 29, width).stride())] for t in (out, a, b)]
            number = (ctypes.c_double * 1)(2.0)
            kernel(kernel.groups(out.numel()), out, a, b, number, geometry([width, 29, 5], *steps))
            assert torch.equal(out, torch.sub(a, b, alpha=2))
