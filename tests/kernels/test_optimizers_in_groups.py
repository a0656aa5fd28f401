"""Hand-written kernels give the same numbers whatever the size of a group: one work-item, or several as on a GPU.

Several are run as threads of the host compiler's OpenMP, with its barrier for the group's.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hardpoint.kernels import source as kernel_source

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine"),
]

ITEMS = 4
AS_THREADS = {
    "#define hp_lid ((hp_i64)0)": "int omp_get_thread_num(void);\n#define hp_lid ((hp_i64)omp_get_thread_num())",
    "#define HP_LOCAL\n#define HP_VECTORISE _Pragma": "#define HP_LOCAL static\n#define HP_VECTORISE _Pragma",
    "#define hp_barrier() ((void)0)": '#define hp_barrier() _Pragma("omp barrier")',
}

Run = Callable[..., None]


def build(folder: Path, name: str, description: str, items: int) -> tuple[Run, int]:
    """A function that runs the kernel on the host, and the elements that a group takes."""
    made = kernel_source.generate(name, description, "c", items)
    assert made is not None
    source, entry, elements = made
    if items > 1:
        for old, new in AS_THREADS.items():
            assert old in source
            source = source.replace(old, new)
    source += (
        f"void run(void* const* args, hp_u64 groups) {{\n"
        f"#pragma omp parallel num_threads({items})\n"
        f"  for (hp_u64 g = 0; g < groups; ++g) {{\n"
        f"    {entry}(args, 0, g, g + 1);\n"
        f"#pragma omp barrier\n"
        f"  }}\n}}\n"
    )
    path = folder / f"{name.replace(':', '_')}_{items}"
    path.with_suffix(".c").write_text(source)
    flags = ["-std=gnu11", "-O2", "-fopenmp", "-ffp-contract=off", "-fPIC", "-shared", "-w"]
    assert COMPILER is not None
    command = [COMPILER, *flags, str(path.with_suffix(".c")), "-o", str(path.with_suffix(".so")), "-lm"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(path.with_suffix(".so")))

    def run(groups: int, *values: Any) -> None:
        held = []
        for value in values:
            if isinstance(value, torch.Tensor):
                held.append(ctypes.c_void_p(value.data_ptr()))
            elif isinstance(value, float):
                held.append(ctypes.c_double(value))
            else:
                held.append(
                    ctypes.c_void_p()
                    if value is None
                    else value
                    if isinstance(value, ctypes.Array)
                    else ctypes.c_int64(value)
                )
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in held))
        library.run(pointers, ctypes.c_uint64(groups))

    return run, elements


def integers(*values: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def both(tmp_path: Path, name: str, description: str, call: Callable[[Run, int], torch.Tensor]) -> torch.Tensor:
    one = call(*build(tmp_path, name, description, 1))
    several = call(*build(tmp_path, name, description, ITEMS))
    assert torch.equal(one.view(torch.uint8), several.view(torch.uint8))
    return several


N = 1001


@pytest.mark.parametrize("distribution", range(6))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random(tmp_path, distribution, dtype):
    def call(run: Run, elements: int) -> torch.Tensor:
        out = torch.full((N,), -7.0, dtype=torch.float64 if dtype == "f64" else torch.float32)
        run(-(-N // elements), out, N, 5, 2**32 - 9, 0.25, 1.5, 0, 0)
        return out

    both(tmp_path, "random:fill", f"T={dtype} DIST={distribution} WIDE={int(dtype == 'f64')}", call)


def test_dropout(tmp_path):
    x = torch.rand(N) + 1

    def call(run: Run, elements: int) -> torch.Tensor:
        out, mask = torch.zeros(N), torch.full((N,), 9, dtype=torch.uint8)
        run(-(-N // elements), out, mask, x, N, 5, 0, 2**31, 2.0)
        assert torch.equal(out, x * mask * 2)
        return out

    both(tmp_path, "random:dropout", "T=f32", call)


@pytest.mark.parametrize("sampler", ["gamma", "poisson"])
def test_rejection(tmp_path, sampler):
    parameter = torch.rand(N) * 40

    def call(run: Run, elements: int) -> torch.Tensor:
        out = torch.zeros(N)
        run(-(-N // elements), out, parameter, N, 5, 0)
        return out

    both(tmp_path, f"random:{sampler}", "T=f32", call)


def test_copy(tmp_path):
    source = torch.randn(13, 7, 11) * 50

    def call(run: Run, elements: int) -> torch.Tensor:
        out = torch.zeros(13, 11, 7, dtype=torch.int16)
        sizes, to, from_ = [7, 11, 13], [1, 7, 77], [11, 1, 77]
        table = integers(*(v for part in (sizes, to, from_) for v in part + [0] * 5))
        run(-(-N // elements), out, source, N, table)
        return out

    assert torch.equal(both(tmp_path, "copy:strided", "R=i16 T=f32 DIMS=3 INNER=1", call), source.mT.to(torch.int16))


@pytest.mark.parametrize(
    ("name", "dtype"), [("u8", torch.uint8), ("i16", torch.int16), ("i32", torch.int32), ("i64", torch.int64)]
)
@pytest.mark.parametrize("shape", [(3, 70, 45), (1, 32, 32), (2, 9, 100)])
def test_transpose(tmp_path, name, dtype, shape):
    batch, height, width = shape
    source = torch.randint(0, 127, shape, dtype=dtype)

    def call(run: Run, elements: int) -> torch.Tensor:
        out = torch.zeros(batch, width, height, dtype=dtype)
        sizes, to, from_ = [height, width, batch], [1, height, height * width], [width, 1, height * width]
        table = integers(*(v for part in (sizes, to, from_) for v in part + [0] * 5))
        run(batch * -(-height // 32) * -(-width // 32), out, source, table)
        return out

    assert torch.equal(both(tmp_path, "copy:transpose", f"T={name} DIMS=3 BLOCK=32", call), source.mT)


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("random:fill", "T=f32 DIST=1 WIDE=0"),
        ("random:search", "T=f32"),
        ("copy:transpose", "T=i32 DIMS=2 BLOCK=32"),
        ("optimizer:adam", "T=f32 DECOUPLED=0 AMSGRAD=0 MAXIMIZE=0"),
        ("foreach:map2", "T=f16 OP=20 ONE=0"),
    ],
)
def test_other_dialects(name, description, dialect):
    made = kernel_source.generate(name, description, dialect, 64)
    assert made is not None
    source, entry, elements = made
    assert elements == 256
    head = source[: source.index(f" {entry}(")].rsplit("\n", 1)[1]
    assert {"opencl": "__kernel", "cuda": "__global__"}[dialect] in head
