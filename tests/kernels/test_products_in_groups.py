"""Kernels of matrix products and convolutions with groups of many work-items, as a GPU would run them.

Each work-item is a thread here: local memory is shared by them, and a barrier waits for all.
"""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from hardpoint.kernels import source as kernel_source

DRIVER = """
#include <pthread.h>
static pthread_barrier_t everyone;
static _Thread_local long long work_item;
static void meet(void) { pthread_barrier_wait(&everyone); }
"""
RUN = """
typedef struct { void* const* args; hp_i64 item, groups; } share;
static void* work(void* given) {
  const share* mine = given;
  work_item = mine->item;
  for (hp_i64 group = 0; group < mine->groups; ++group) {
    ENTRY(mine->args, 0, (hp_u64)group, (hp_u64)group + 1);
    meet();
  }
  return 0;
}
void run(void* const* args, hp_i64 groups) {
  pthread_t threads[HP_LSIZE];
  share shares[HP_LSIZE];
  pthread_barrier_init(&everyone, 0, HP_LSIZE);
  for (int i = 0; i < HP_LSIZE; ++i) {
    shares[i] = (share){args, i, groups};
    pthread_create(&threads[i], 0, work, &shares[i]);
  }
  for (int i = 0; i < HP_LSIZE; ++i) pthread_join(threads[i], 0);
  pthread_barrier_destroy(&everyone);
}
"""
CHANGES = {
    "#define hp_lid ((hp_i64)0)": "#define hp_lid work_item",
    "#define hp_barrier() ((void)0)": "#define hp_barrier() meet()",
    "#define HP_GLOBAL\n#define HP_LOCAL\n": "#define HP_GLOBAL\n#define HP_LOCAL static\n",
}

pytestmark = pytest.mark.parametrize("group_size", [4, 64])


class Kernel:
    """One kernel for groups of a size, compiled for threads."""

    def __init__(self, folder: Path, name: str, description: str, group_size: int) -> None:
        made = kernel_source.generate(name, description, "c", group_size)
        assert made is not None
        source, entry, self.elements = made
        for before, after in CHANGES.items():
            assert before in source
            source = source.replace(before, after)
        file = folder / "kernel.c"
        file.write_text(DRIVER + source + RUN.replace("ENTRY", entry))
        library = folder / "kernel.so"
        command = ["gcc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-w", "-o", str(library), str(file), "-lpthread"]
        subprocess.run(command, check=True)
        self.run = ctypes.CDLL(str(library)).run

    def __call__(self, groups: int, *args: Any) -> None:
        values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in args]
        values = [ctypes.c_int64(v) if isinstance(v, int) else v for v in values]
        table = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.run(table, ctypes.c_int64(groups))


def integers(*values: Any) -> Any:
    """A struct of whole numbers, from numbers and lists of them."""
    flat = list(itertools.chain.from_iterable(v if isinstance(v, (list, tuple)) else [v] for v in values))
    return (ctypes.c_int64 * len(flat))(*flat)


def test_products(tmp_path: Path, group_size: int) -> None:
    kernel = Kernel(tmp_path, "matmul:product", "T=f32 R=f32", group_size)
    for transposed in (False, True):
        a, b, c = torch.randn(2, 70, 21), torch.randn(2, 21, 67), torch.randn(70, 67)
        if transposed:
            a, b = torch.randn(2, 21, 70).mT, torch.randn(2, 67, 21).mT
        out = torch.full((2, 70, 67), float("nan"))
        strides = [*out.stride(), *a.stride(), *b.stride(), 0, *c.stride()]
        geometry = integers(70, 67, 21, 64, 64, 2, 2, 2, 1, 1, strides)
        kernel(2 * 4, out, a, b, c, geometry, ctypes.c_float(0.5), ctypes.c_float(2.0))
        torch.testing.assert_close(out, 0.5 * (a @ b) + 2 * c, rtol=1e-5, atol=1e-5)


def test_inner_products(tmp_path: Path, group_size: int) -> None:
    kernel = Kernel(tmp_path, "matmul:dot", "T=f16 R=f32", group_size)
    a, b, out = torch.randn(1000).half(), torch.randn(1000).half(), torch.empty(4)
    kernel(4, out, a, b, 1000, 300, 1, 1)
    expected = [(x.float() * y.float()).sum() for x, y in zip(a.split(300), b.split(300), strict=True)]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-5, atol=1e-4)


def test_convolutions(tmp_path: Path, group_size: int) -> None:
    x, weight, bias = torch.randn(2, 4, 7, 9), torch.randn(6, 2, 3, 2), torch.randn(6)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
    wanted = [t.requires_grad_() for t in (x, weight, bias)]
    y = torch.nn.functional.conv2d(*wanted, **options)
    seed = torch.randn_like(y)
    grad_x, grad_weight, grad_bias = torch.autograd.grad(y, wanted, seed)

    def spatial(tensor: torch.Tensor) -> list[int]:
        return [tensor.stride(0), tensor.stride(1), 0, tensor.stride(2), tensor.stride(3)]

    def geometry(with_bias: int) -> Any:
        sizes = [[1, 7, 9], [1, *y.shape[2:]], [1, 3, 2], [1, 2, 1], [0, 1, 2], [1, 1, 2]]
        return integers(2, 2, 3, 2, with_bias, *sizes, spatial(x), spatial(y), spatial(weight))

    def make(name: str) -> Kernel:
        folder = tmp_path / name
        folder.mkdir()
        return Kernel(folder, f"convolution:{name}", "T=f32", group_size)

    def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
        torch.testing.assert_close(actual, expected.detach(), rtol=1e-5, atol=1e-5)

    out, kernel = torch.full_like(y, float("nan")), make("y")
    kernel(-(-y.numel() // kernel.elements), out, x, weight, bias, geometry(1), y.numel())
    check(out, y)
    out, kernel = torch.full_like(x, float("nan")), make("x")
    kernel(-(-x.numel() // kernel.elements), out, seed, weight, bias, geometry(0), x.numel())
    check(out, grad_x)
    out = torch.full_like(weight, float("nan"))
    make("weight")(weight.numel(), out, x, seed, geometry(0))
    check(out, grad_weight)
    out = torch.full_like(bias, float("nan"))
    make("bias")(6, out, seed, geometry(0))
    check(out, grad_bias)
