"""Portable kernels give the same results with many work-items in a group as with one.

The device of the tests has groups of one. Here the same sources are compiled for larger ones, and each work-item is a
thread of its own.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from hardpoint.kernels import portable, template

GROUP = 4
HARNESS = """
#include <pthread.h>
static _Thread_local long long item;
static pthread_barrier_t barrier;
typedef struct { void* const* args; unsigned long long groups; long long item; } work;
static void* go(void* given) {
  const work* w = given;
  item = w->item;
  ENTRY(w->args, 0, 0, w->groups);
  return 0;
}
void run(void* const* args, unsigned long long groups) {
  pthread_t threads[SIZE];
  work works[SIZE];
  pthread_barrier_init(&barrier, 0, SIZE);
  for (int i = 0; i < SIZE; ++i) {
    works[i] = (work){args, groups, i};
    pthread_create(&threads[i], 0, go, &works[i]);
  }
  for (int i = 0; i < SIZE; ++i) pthread_join(threads[i], 0);
  pthread_barrier_destroy(&barrier);
}
"""


def compiled(folder: Path, family: str, kernel: str, description: str, size: int) -> Any:
    """The kernel for groups of that size, as a function of its arguments and the number of groups."""
    text = portable._text(f"{family}.c")
    code, entry, elements = template.source(family, text, kernel, description, "c", size)
    head = portable.preamble(special=False)
    head = head.replace("#define hp_lid ((hp_i64)0)", "#define hp_lid item")
    head = head.replace("#define HP_LOCAL\n", "#define HP_LOCAL static\n")
    head = head.replace("#define hp_barrier() ((void)0)", "#define hp_barrier() pthread_barrier_wait(&barrier)")
    declared, rest = HARNESS.split("typedef struct", 1)
    rest = rest.replace("ENTRY", entry).replace("SIZE", str(size))
    source = folder / f"{kernel}_{size}.c"
    source.write_text(declared + head + code + "typedef struct" + rest)
    library = source.with_suffix(".so")
    flags = ["-O1", "-std=gnu11", "-shared", "-fPIC", "-w", "-ffp-contract=off"]
    subprocess.run(["gcc", *flags, "-o", str(library), str(source), "-lpthread", "-lm"], check=True)
    return ctypes.CDLL(str(library)).run, elements


def launch(function: Any, groups: int, args: list[Any]) -> None:
    """Tensors go by address, integers as 64 bits, floats as 32, lists as structs of 64-bit integers."""
    kept: list[Any] = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            kept.append(ctypes.c_void_p(arg.data_ptr()))
        elif isinstance(arg, list):
            kept.append((ctypes.c_int64 * len(arg))(*arg))
        else:
            kept.append(ctypes.c_float(arg) if isinstance(arg, float) else ctypes.c_int64(arg))
    pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(k) for k in kept))
    function(pointers, ctypes.c_ulonglong(groups))


POOL = [6, 1, 9, 70, 1, 5, 36, 1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1, 1, 0]  # 6 planes, 9 x 70 to 5 x 36
SHARE = [6, 1, 9, 70, 1, 4, 7, 1, 3, 11, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0]
IMAGE = torch.randn(6, 9, 70)
PLACES = torch.randint(-1, 9 * 70, (6, 5, 36))
GRID = 1.3 * torch.randn(2, 5, 36, 2)
SIZES = [6, 1, 9, 70, 1, 13, 100, 0]

#: family, kernel, description, shape of the result, and arguments after it; "rows" stands for the rows to share out.
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
        [torch.zeros(6, 4, 7, dtype=torch.int64), IMAGE, IMAGE, 24, 4, 2, SHARE],
        6,
    ),
    ("pooling", "scatter", "T=f32 ADD=1", (6, 9, 70), [torch.randn(6, 5, 36), PLACES, 6, 1, 630, 180], 6),
    ("pooling", "average", "T=f32 WINDOW=0", (6, 5, 36), [IMAGE, 30, 4, POOL], 8),
    ("pooling", "average", "T=f32 WINDOW=1", (6, 4, 7), [IMAGE, 24, 4, SHARE], 6),
    ("pooling", "average_backward", "T=f32 WINDOW=0", (6, 9, 70), [torch.randn(6, 5, 36), 54, 4, POOL], 14),
    ("pooling", "average_backward", "T=f32 WINDOW=1", (6, 9, 70), [torch.randn(6, 4, 7), 54, 4, SHARE], 14),
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
            "grid",
            "forward",
            f"T=f32 AXES=2 MODE={mode} PAD=2",
            (2, 3, 5, 36),
            [IMAGE, GRID, 50, [2, 3, 1, 9, 70, 1, 5, 36, 0]],
            8,
        )
        for mode in range(3)
    ),
    (
        "grid",
        "backward_input",
        "T=f32 G=f32 AXES=2 MODE=0 PAD=1",
        (2, 3, 9, 70),
        [torch.randn(2, 3, 5, 36), GRID, 1, [2, 3, 1, 9, 70, 1, 5, 36, 0]],
        6,
    ),
    (
        "grid",
        "backward_grid",
        "T=f32 AXES=2 MODE=2 PAD=0",
        (2, 5, 36, 2),
        [torch.randn(2, 3, 5, 36), IMAGE, GRID, 50, [2, 3, 1, 9, 70, 1, 5, 36, 1]],
        8,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]} {c[2]}")
def test_group_sizes_agree(case: Any, tmp_path: Path) -> None:
    family, kernel, description, shape, args, groups = case
    results = []
    for size in (1, GROUP):
        function, _ = compiled(tmp_path, family, kernel, description, size)
        out = torch.full(shape, float("nan"))
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        launch(function, groups, [out, *given])
        results.append([out, *(g for g in given if isinstance(g, torch.Tensor))])
    for one, many in zip(*results, strict=True):
        torch.testing.assert_close(one, many)
        assert one.isnan().sum() == 0


BYTES = [f"S=f32 CUBIC={cubic} SMOOTH={smooth}" for cubic in (0, 1) for smooth in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("description", BYTES)
def test_bytes_are_resampled_the_same_in_groups(description: str, tmp_path: Path) -> None:
    image = torch.randint(0, 256, (6, 70, 70), dtype=torch.uint8)
    line = [70, 28, 11, 0]  # from 70 to 28, with up to 11 weights
    results = []
    for size in (1, GROUP):
        functions = [
            compiled(tmp_path, "resampling_bytes", k, description, size)[0] for k in ("table", "along", "across")
        ]
        table = torch.full((1 + 28 * 13,), -1, dtype=torch.int32)
        rows, columns = torch.zeros(6, 70, 28, dtype=torch.uint8), torch.zeros(6, 28, 70, dtype=torch.uint8)
        launch(functions[0], 1, [table, 2.5, line])
        launch(functions[1], 84, [rows, image, table, 420, 5, line])
        launch(functions[2], 34, [columns, image, table, 168, 5, 70, line])
        results.append((table, rows, columns))
    for one, many in zip(*results, strict=True):
        assert torch.equal(one, many)
    assert results[0][0][0] > 10  # bits of a weight
    assert torch.equal(results[0][1], by_table(image, results[0][0]))


def by_table(image: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows resampled by a table of weights."""
    bits, *rest = table.tolist()
    made = []
    for o in range(28):
        first, count, *weights = rest[13 * o : 13 * (o + 1)]
        part = image[:, :, first : first + count].long() * torch.tensor(weights[:count])
        made.append(((part.sum(-1) + (1 << (bits - 1))) >> bits).clamp(0, 255))
    return torch.stack(made, -1).to(torch.uint8)


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("kernel", ["table", "along", "across"])
def test_other_dialects_have_a_source_for_bytes(kernel: str, dialect: str) -> None:
    made = portable.generate(f"resampling_bytes:{kernel}", "S=f64 CUBIC=1 SMOOTH=1", dialect, 64)
    assert made is not None
    assert f"hp_resampling_bytes_{kernel}(" in made[0]


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]} {c[2]}")
def test_other_dialects_have_a_source(case: Any, dialect: str) -> None:
    family, kernel, description, *_ = case
    made = portable.generate(f"{family}:{kernel}", description, dialect, 64)
    assert made is not None
    assert f"void {'__launch_bounds__(64) ' if dialect == 'cuda' else ''}hp_{family}_{kernel}(" in made[0]
