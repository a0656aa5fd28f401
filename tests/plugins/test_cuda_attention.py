"""The attention kernels of the plug-in for NVIDIA devices, run on the CPU by what stands for a device."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from philox import drawn_bits

PLUGIN = Path(__file__).parents[2] / "plugins" / "cuda"
COMPILER = shutil.which("g++") or shutil.which("c++")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine"),
    pytest.mark.skipif("f16c" not in Path("/proc/cpuinfo").read_text(), reason="a processor without f16c"),
]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

SOFTMAX = """
extern "C" void run_softmax(unsigned order, float* scores, float* lse, Mask mask, i64 rows, i64 queries, i64 keys,
                            int causal, float scale, Dropout dropout) {
  fibers::launch((rows + 3) / 4, 128, order,
                 [&] { attention_softmax(scores, lse, mask, rows, queries, keys, causal, scale, dropout); });
}
extern "C" void run_softmax_backward(unsigned order, float* scores, float* score_grads, float* lse, Mask mask, T* grad,
                                     T* out, i64 rows, i64 queries, i64 keys, i64 dim, int causal, float scale,
                                     Dropout dropout) {
  fibers::launch((rows + 3) / 4, 128, order, [&] {
    attention_softmax_backward(scores, score_grads, lse, mask, grad, out, rows, queries, keys, dim, causal, scale,
                               dropout);
  });
}
"""

COPY_STRIDED = """
extern "C" void run_copy_strided(unsigned order, T* to, T* from, Layout layout) {
  const i64 rows = layout.sizes[0] * layout.sizes[1] * layout.sizes[2];
  fibers::launch((rows + 3) / 4, 128, order, [&] { copy_strided(to, from, layout); });
}
"""

FLASH = """
extern "C" void run_flash(unsigned order, Tensor out, float* lse, Tensor query, Tensor key, Tensor value, int batches,
                          int heads, int share, int queries, int keys, int dim, int causal, float scale,
                          Dropout dropout) {
  const auto work = [&] {
    flash_forward(out, lse, query, key, value, batches, heads, share, queries, keys, dim, causal, scale, dropout);
  };
  fibers::launch(batches * heads * ((queries + ROWS - 1) / ROWS), 128, order, work, SHARED_BYTES);
}
"""

FLASH_BACKWARD = """
extern "C" void run_flash_backward(unsigned order, Tensor grad_query, Tensor grad_key, Tensor grad_value, Sums* sums,
                                   float* lse, Tensor grad, Tensor out, Tensor query, Tensor key, Tensor value,
                                   int batches, int heads, int share, int queries, int keys, int dim, int causal,
                                   float scale, Dropout dropout) {
  const int all = batches * heads, rows = all * queries;
  fibers::launch((rows + 128 / CHUNKS - 1) / (128 / CHUNKS), 128, order,
                 [&] { flash_backward_sums(sums, lse, grad, out, rows, heads, queries, dim); });
  const auto of_queries = [&] {
    flash_backward_query(grad_query, grad, query, key, value, sums, batches, heads, share, queries, keys, dim, causal,
                         scale, dropout);
  };
  fibers::launch(all * ((queries + ROWS - 1) / ROWS), 128, order, of_queries, QUERIES_SHARED_BYTES);
  const auto of_keys = [&] {
    flash_backward_key_value(grad_key, grad_value, grad, query, key, value, sums, batches, heads, share, queries, keys,
                             dim, causal, scale, dropout);
  };
  fibers::launch(all / share * ((keys + KEY_ROWS - 1) / KEY_ROWS), 128, order, of_keys, KEYS_SHARED_BYTES);
}
"""


class Dropout(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("below", ctypes.c_uint),
        ("factor", ctypes.c_float),
    )


class Strided(ctypes.Structure):
    """What the kernels call a Tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("row", ctypes.c_int64),
    )

    def __init__(self, tensor: torch.Tensor) -> None:
        assert tensor.stride(3) == 1
        super().__init__(tensor.data_ptr(), *tensor.stride()[:3])


class Mask(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("heads", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("strides", ctypes.c_int64 * 4),
    )


class Layout(ctypes.Structure):
    _fields_ = (
        ("sizes", ctypes.c_int64 * 4),
        ("to", ctypes.c_int64 * 4),
        ("from_", ctypes.c_int64 * 4),
    )


@functools.cache
def library(files: Sequence[str], entries: str, *definitions: str) -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    kernels = "".join((PLUGIN / name).read_text().replace('R"cuda(', "").replace(')cuda"', "") for name in files)
    (folder / "kernels.cpp").write_text(f'#include "{Path(__file__).parent}/cuda_on_host.h"\n{kernels}{entries}')
    command = [str(COMPILER), "-std=c++17", "-O1", "-w", "-mf16c", "-ffp-contract=off", "-fPIC", "-shared", "-x", "c++"]
    command += [*(f"-D{definition}" for definition in definitions), str(folder / "kernels.cpp")]
    subprocess.run([*command, "-o", str(folder / "kernels.so")], check=True, timeout=120)
    return ctypes.CDLL(str(folder / "kernels.so"))


def call(function: Any, *given: Any, order: int = 0) -> None:
    def passed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return ctypes.c_void_p(value.data_ptr())
        if isinstance(value, float):
            return ctypes.c_float(value)
        return ctypes.c_int64(value) if isinstance(value, int) else value

    function(ctypes.c_uint(order), *map(passed, given))


def kept(dropout: Dropout, rows: int, keys: int) -> torch.Tensor:
    """What weights are multiplied with."""
    if dropout.below == 0:
        return torch.ones(rows, keys, dtype=torch.float64)
    bits = drawn_bits(dropout.seed, dropout.start, rows * -(-keys // 8)).view(rows, -1)[:, :keys]
    return (bits >= dropout.below).double() * dropout.factor


@pytest.mark.parametrize("below", [0, 20000])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", ["", "whole", "keys", "transposed"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax(dtype: torch.dtype, masked: str, causal: int, below: int) -> None:
    made = library(("attention_common.inc", "attention_softmax.inc"), SOFTMAX, f"DTYPE={DTYPES.index(dtype)}")
    # The last two of three batches, of two heads.
    first, rows, queries, keys, dim, scale = 10, 20, 5, 301, 16, 0.25
    dropout = Dropout(12345678901, 2**32 - 50, below, 1.25)
    scores, slopes, out, grad = (torch.randn(rows, n) for n in (keys, keys, dim, dim))
    out, grad = out.to(dtype), grad.to(dtype)
    mask = torch.randn(3, 1, 1, keys) if masked == "keys" else torch.randn(3, 2, queries, keys)
    mask[1, 0, -1] = -torch.inf  # a row without keys
    if masked == "transposed":
        mask = mask.transpose(0, 3).contiguous().transpose(0, 3)
    mask = mask.to(dtype).expand(3, 2, queries, keys)
    right = scores.double() * scale + (mask.double().reshape(-1, keys)[first:] if masked else 0)
    if causal:
        right = right.masked_fill(torch.arange(keys) > torch.arange(rows)[:, None] % queries, -torch.inf)
    weights, sums = torch._safe_softmax(right, -1), right.logsumexp(-1)
    factor = kept(dropout, rows, keys)
    delta = (grad.double() * out.double()).sum(-1, keepdim=True)
    wanted = weights * (slopes.double() * factor - delta) * scale
    close = {torch.float32: 1e-5, torch.float16: 1e-3}.get(dtype, 1e-2)
    lse, raw, width = torch.empty(rows), scores.clone(), keys * 4 // dtype.itemsize
    one = Mask(mask.data_ptr(), 2, first, (ctypes.c_int64 * 4)(*mask.stride())) if masked else Mask()
    call(made.run_softmax, raw, lse, one, rows, queries, keys, ctypes.c_int(causal), scale, dropout, order=1)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-5, atol=1e-5)
    found = raw.view(dtype).view(rows, width)[:, :keys]
    torch.testing.assert_close(found.double(), weights * factor, rtol=close, atol=close)
    call(
        made.run_softmax_backward,
        *(scores, slopes, lse, one, grad, out, rows, queries, keys, dim, ctypes.c_int(causal), scale, dropout),
    )
    found, slope = (t.view(dtype).view(rows, width)[:, :keys] for t in (scores, slopes))
    torch.testing.assert_close(found.double(), weights * factor, rtol=close, atol=close)
    torch.testing.assert_close(slope.double(), wanted, rtol=close, atol=4 * close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_copy_strided(dtype: torch.dtype) -> None:
    sources = ("attention_common.inc", "attention_softmax.inc")
    made = library(sources, SOFTMAX + COPY_STRIDED, f"DTYPE={DTYPES.index(dtype)}")
    given = torch.randn(2, 5, 3, 70).to(dtype).transpose(1, 2)[..., ::2].expand(2, 3, 5, 35)
    mask = torch.randn(5, 1).to(dtype).expand(2, 3, 5, 35)
    to = torch.full((2, 5, 3, 40), torch.nan, dtype=dtype).transpose(1, 2)[..., 1:36]
    for source in (given, mask):
        fours = [(ctypes.c_int64 * 4)(*numbers) for numbers in (to.shape, to.stride(), source.stride())]
        call(made.run_copy_strided, to, source, Layout(*fours))
        assert torch.equal(to, source)
    assert to._base is not None
    assert to._base[..., 36:].isnan().all()


@pytest.mark.parametrize(
    ("dtype", "shape", "causal", "below"),
    [
        (torch.bfloat16, (1, 2, 1, 70, 133, 64), 0, 20000),
        (torch.float16, (2, 1, 1, 70, 133, 64), 1, 20000),
        (torch.bfloat16, (1, 2, 2, 100, 37, 40), 1, 0),
        (torch.float16, (1, 2, 2, 100, 37, 40), 0, 65536),
        (torch.bfloat16, (1, 2, 1, 65, 50, 128), 1, 20000),
        (torch.float16, (2, 2, 1, 65, 50, 104), 0, 0),
        (torch.bfloat16, (2, 3, 3, 200, 270, 64), 1, 20000),
        (torch.float16, (1, 1, 1, 130, 200, 96), 1, 20000),
    ],
    ids=str,
)
def test_flash(dtype: torch.dtype, shape: tuple[int, ...], causal: int, below: int) -> None:
    """Tensors with the heads of a row beside each other, keys and values in one, and gradients each in its own way."""
    batches, heads, share, queries, keys, dim = shape
    definitions = (f"DTYPE={DTYPES.index(dtype)}", f"DIM={64 if dim <= 64 else 128}", f"DROPS={int(below > 0)}")
    shared = ("attention_common.inc", "flash_tiles.inc")
    made = library((*shared, "flash_forward.inc"), FLASH, *definitions)
    backward = library((*shared, "flash_backward.inc"), FLASH_BACKWARD, *definitions)
    dropout = Dropout(12345678901, 2**32 - 50, below, 1.25)
    scale = 0.2 if causal else 0.3
    q = torch.randn(batches, queries, heads, dim).to(dtype).transpose(1, 2)
    g = torch.randn(batches, heads, queries, dim).to(dtype)
    k, v = torch.randn(batches, keys, 2, heads // share, dim).to(dtype).transpose(1, 3).unbind(2)
    right = [t.double().requires_grad_() for t in (q, k, v)]
    scores = right[0] @ right[1].repeat_interleave(share, 1).mT * scale
    if causal:
        scores = scores.masked_fill(torch.ones(queries, keys, dtype=torch.bool).triu(1), -torch.inf)
    factor = kept(dropout, batches * heads * queries, keys).view(batches, heads, queries, keys)
    expected = (scores.softmax(-1) * factor) @ right[2].repeat_interleave(share, 1)
    wanted = torch.autograd.grad(expected, right, g.double())
    sizes = map(ctypes.c_int, (batches, heads, share, queries, keys, dim, causal))
    rest = (*sizes, scale, dropout)
    close = 2e-3 if dtype is torch.float16 else 2e-2
    inputs = [Strided(t) for t in (q, k, v)]
    results = []
    for order in (0, 1):
        out, lse = torch.full_like(q, torch.nan), torch.empty(batches, heads, queries)
        call(made.run_flash, Strided(out), lse, *inputs, *rest, order=order)
        torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(out.double(), expected, rtol=close, atol=close)
        grads = [torch.full(t.shape, torch.nan, dtype=dtype) for t in (q, k)] + [torch.full_like(v, torch.nan)]
        sums = torch.empty(batches, heads, queries, 2)
        call(
            backward.run_flash_backward,
            *(*map(Strided, grads), sums, lse, Strided(g), Strided(out), *inputs, *rest),
            order=order,
        )
        for ours, exact in zip(grads, wanted, strict=True):
            torch.testing.assert_close(ours.double(), exact, rtol=4 * close, atol=4 * close)
        results.append([out, lse, *grads])
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)  # whatever the order of threads
