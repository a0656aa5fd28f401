"""Image kernels give the same results with many work-items per group as with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from work_groups import Kernel, needs_compiler

from hardpoint.kernels import generator

GROUP = 4

POOL = [6, 1, 9, 70, 1, 5, 36, 1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1, 1, 0]  # 6 planes, 9 x 70 to 5 x 36
ADAPTIVE_POOL = [6, 1, 9, 70, 1, 4, 7, 1, 3, 11, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0]
IMAGE = torch.randn(6, 9, 70)
INDICES = torch.randint(-1, 9 * 70, (6, 5, 36))
GRID = 1.3 * torch.randn(2, 5, 36, 2)
SIZES = [6, 1, 9, 70, 1, 13, 100, 0]

#: Family, kernel, description, shape of the result, the arguments after it, and the number of work-groups.
CASES: list[tuple[str, str, str, tuple[int, ...], list[Any], int]] = [
    ("shape", "triangle", "T=i32 UPPER=1", (6, 9, 70), [IMAGE, 54, 9, 70, 3, 1, 5], 11),
    ("shape", "im2col", "T=i32", (6, 9, 5 * 36), [IMAGE, 54, 7, [1, 9, 70, 5, 36, 3, 3, 1, 1, 1, 1, 2, 2]], 8),
    (
        "shape",
        "col2im",
        "T=f32",
        (6, 9, 70),
        [torch.randn(54, 180), 54, 7, [1, 9, 70, 5, 36, 3, 3, 1, 1, 1, 1, 2, 2]],
        8,
    ),
    ("padding", "forward", "T=i32 REFLECT=1", (6, 12, 81), [IMAGE, 72, 5, 1, [6, 1, 9, 70, 1, 12, 81, 0, 2, 4]], 15),
    (
        "padding",
        "backward",
        "T=f32 REFLECT=1",
        (6, 9, 70),
        [torch.randn(6, 12, 81), 54, 5, [6, 1, 9, 70, 1, 12, 81, 0, 2, 4]],
        11,
    ),
    (
        "padding",
        "backward",
        "T=f32 REFLECT=0",
        (6, 9, 70),
        [torch.randn(6, 12, 81), 54, 5, [6, 1, 9, 70, 1, 12, 81, 0, 2, 4]],
        11,
    ),
    (
        "pooling",
        "max",
        "T=f32 WINDOW=0",
        (6, 5, 36),
        [torch.zeros(6, 5, 36, dtype=torch.int64), IMAGE, IMAGE, 30, 4, 2, POOL],
        8,
    ),
    (
        "pooling",
        "max",
        "T=f32 WINDOW=1",
        (6, 4, 7),
        [torch.zeros(6, 4, 7, dtype=torch.int64), IMAGE, IMAGE, 24, 4, 2, ADAPTIVE_POOL],
        6,
    ),
    ("pooling", "scatter", "T=f32 ADD=1", (6, 9, 70), [torch.randn(6, 5, 36), INDICES, 6, 1, 630, 180], 6),
    ("pooling", "average", "T=f32 WINDOW=0", (6, 5, 36), [IMAGE, 30, 4, POOL], 8),
    ("pooling", "average", "T=f32 WINDOW=1", (6, 4, 7), [IMAGE, 24, 4, ADAPTIVE_POOL], 6),
    ("pooling", "average_backward", "T=f32 WINDOW=0", (6, 9, 70), [torch.randn(6, 5, 36), 54, 4, POOL], 14),
    ("pooling", "average_backward", "T=f32 WINDOW=1", (6, 9, 70), [torch.randn(6, 4, 7), 54, 4, ADAPTIVE_POOL], 14),
    *(
        ("resampling", "forward", f"T=f32 S=f32 MODE={mode}", (6, 13, 100), [IMAGE, 78, 5, 1.0, 9 / 13, 0.7, SIZES], 16)
        for mode in range(4)
    ),
    *(
        (
            "resampling",
            "backward",
            f"T=f32 S=f32 G=f32 MODE={mode}",
            (6, 9, 70),
            [torch.randn(6, 13, 100), 1, 1.0, 9 / 13, 0.7, SIZES],
            6,
        )
        for mode in range(4)
    ),
    *(
        (
            "grid_sample",
            "forward",
            f"T=f32 AXES=2 MODE={mode} PAD=2",
            (2, 3, 5, 36),
            [IMAGE, GRID, 50, [2, 3, 1, 9, 70, 1, 5, 36, 0]],
            8,
        )
        for mode in range(3)
    ),
    (
        "grid_sample",
        "backward_input",
        "T=f32 G=f32 AXES=2 MODE=0 PAD=1",
        (2, 3, 9, 70),
        [torch.randn(2, 3, 5, 36), GRID, 1, [2, 3, 1, 9, 70, 1, 5, 36, 0]],
        6,
    ),
    (
        "grid_sample",
        "backward_grid",
        "T=f32 AXES=2 MODE=2 PAD=0",
        (2, 5, 36, 2),
        [torch.randn(2, 3, 5, 36), IMAGE, GRID, 50, [2, 3, 1, 9, 70, 1, 5, 36, 1]],
        8,
    ),
]


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]} {c[2]}")
def test_group_sizes_agree(case: Any, tmp_path: Path) -> None:
    family, kernel, description, shape, args, groups = case
    results = []
    for size in (1, GROUP):
        run = Kernel(tmp_path, f"{family}:{kernel}", description, size)
        out = torch.full(shape, float("nan"))
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        # With many work-items per group, max pooling is launched over elements instead of rows.
        by_elements = size > 1 and (family, kernel) == ("pooling", "max")
        run(run.groups(out.numel()) if by_elements else groups, out, *given)
        results.append([out, *(g for g in given if isinstance(g, torch.Tensor))])
    for one, many in zip(*results, strict=True):
        torch.testing.assert_close(one, many)
        assert one.isnan().sum() == 0


UINT8_CASES = [f"S=f32 CUBIC={cubic} SMOOTH={smooth}" for cubic in (0, 1) for smooth in (0, 1)]


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("description", UINT8_CASES)
def test_uint8_resampling_group_sizes_agree(description: str, tmp_path: Path) -> None:
    image = torch.randint(0, 256, (6, 70, 70), dtype=torch.uint8)
    line = [70, 28, 11, 0]  # from 70 to 28 elements, up to 11 taps
    results = []
    for size in (1, GROUP):
        weigh, along, across = (
            Kernel(tmp_path, f"resampling_uint8:{k}", description, size) for k in ("table", "along", "across")
        )
        table = torch.full((1 + 28 * 13,), -1, dtype=torch.int32)
        rows, columns = torch.zeros(6, 70, 28, dtype=torch.uint8), torch.zeros(6, 28, 70, dtype=torch.uint8)
        weigh(1, table, 2.5, line)
        along(84, rows, image, table, 420, 5, line)
        across(34, columns, image, table, 168, 5, 70, line)
        results.append((table, rows, columns))
    for one, many in zip(*results, strict=True):
        assert torch.equal(one, many)
    assert results[0][0][0] > 10  # bits per weight
    assert torch.equal(results[0][1], resample_rows(image, results[0][0]))


def resample_rows(image: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Resample rows by a weight table."""
    bits, *rest = table.tolist()
    made = []
    for o in range(28):
        first, count, *weights = rest[13 * o : 13 * (o + 1)]
        part = image[:, :, first : first + count].long() * torch.tensor(weights[:count])
        made.append(((part.sum(-1) + (1 << (bits - 1))) >> bits).clamp(0, 255))
    return torch.stack(made, -1).to(torch.uint8)


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("kernel", ["table", "along", "across"])
def test_uint8_resampling_source_in_other_dialects(kernel: str, dialect: str) -> None:
    made = generator.generate(f"resampling_uint8:{kernel}", "S=f64 CUBIC=1 SMOOTH=1", dialect, 64)
    assert made is not None
    assert f"hp_resampling_uint8_{kernel}(" in made[0]


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]} {c[2]}")
def test_source_in_other_dialects(case: Any, dialect: str) -> None:
    family, kernel, description, *_ = case
    made = generator.generate(f"{family}:{kernel}", description, dialect, 64)
    assert made is not None
    assert f"void {'__launch_bounds__(64) ' if dialect == 'cuda' else ''}hp_{family}_{kernel}(" in made[0]
