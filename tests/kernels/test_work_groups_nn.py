"""Softmax, normalization, loss and attention kernels with work-groups of many work-items."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from philox import drawn_bits
from work_groups import COMPILER, needs_compiler
from work_groups import Kernel as AnyKernel

from hardpoint.kernels import generator

pytestmark = needs_compiler

#: A kernel compiled for groups of 16 threads.
Kernel = functools.partial(AnyKernel, group_size=16)
#: As in normalization.c.
PART_COLUMNS = 16


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b.to(a.dtype), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("log", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 5, 50, 333])
def test_softmax_rows(tmp_path: Path, log: int, n: int) -> None:
    x = torch.randn(7, n)
    out = torch.full((7,) if log == 2 else (7, n), 99.0)
    Kernel(tmp_path, "softmax:rows", f"T=f32 R=f32 LOG={log}")(7, out, x, 7, n, 1)
    close(out, [torch.softmax, torch.log_softmax, torch.logsumexp][log](x, -1))


@pytest.mark.parametrize("log", [0, 1])
def test_softmax_backward(tmp_path: Path, log: int) -> None:
    x = torch.randn(5, 77, requires_grad=True)
    y, g = [torch.softmax, torch.log_softmax][log](x, -1), torch.randn(5, 77)
    out = torch.empty(5, 77)
    Kernel(tmp_path, "softmax:rows_backward", f"T=f32 R=f32 LOG={log}")(5, out, g, y.detach(), 5, 77, 1)
    close(out, torch.autograd.grad(y, x, g)[0])


def test_softmax_columns(tmp_path: Path) -> None:
    x, g, out = torch.randn(3, 9, 70, requires_grad=True), torch.randn(3, 9, 70), torch.empty(3, 9, 70)
    y = torch.softmax(x, 1)
    Kernel(tmp_path, "softmax:columns", "T=f32 R=f32 LOG=0")(6, out, x.detach(), 9, 70, 2)
    close(out, y.detach())
    Kernel(tmp_path, "softmax:columns_backward", "T=f32 R=f32 LOG=0")(6, out, g, y.detach(), 9, 70, 2)
    close(out, torch.autograd.grad(y, x, g)[0])


@pytest.mark.parametrize("n", [3, 50, 200])
def test_layer_norm(tmp_path: Path, n: int) -> None:
    x, w, b, g = (torch.randn(s) for s in ((11, n), (n,), (n,), (11, n)))
    y, m, r = torch.native_layer_norm(x, [n], w, b, 1e-5)
    out, mean, rstd = torch.empty(11, n), torch.empty(11), torch.empty(11)
    forward = Kernel(tmp_path, "normalization:rows", "T=f32 W=f32 RMS=0 HAS_WEIGHT=1 HAS_BIAS=1")
    forward(11, out, mean, rstd, x, w, b, 11, n, 1e-5, 1)
    close(out, y)
    close(rstd, r.flatten())
    back = Kernel(tmp_path, "normalization:rows_backward", "T=f32 W=f32 RMS=0 HAS_WEIGHT=1 WANTED=1 PARTS=1")
    parts, dw, db = torch.empty(3, 2, n), torch.empty(n), torch.empty(n)
    back(3, out, parts, g, x, mean, rstd, w, 11, n, 4)
    Kernel(tmp_path, "normalization:parts", "T=f32 W=f32")(-(-n // PART_COLUMNS), dw, db, parts, 3, n)
    wanted = torch.ops.aten.native_layer_norm_backward(g, x, [n], m, r, w, b, [True] * 3)
    for ours, right in zip((out, dw, db), wanted, strict=True):
        close(ours, right)


@pytest.mark.parametrize("shape", [(4, 5, 33), (40, 70)])
def test_batch_norm(tmp_path: Path, shape: tuple[int, ...]) -> None:
    c = shape[1]
    x, g, w, b = torch.randn(shape), torch.randn(shape), torch.randn(c), torch.randn(c)
    running = [torch.randn(c), torch.rand(c)]
    right = [r.clone() for r in running]
    y, m, r = torch.native_batch_norm(x, w, b, *right, True, 0.1, 1e-5)
    out, mean, invstd, dw, db = torch.empty(shape), *(torch.empty(c) for _ in range(4))
    columns = len(shape) == 2
    name, groups = ("columns", 2) if columns else ("channels", c)
    layout = (40, 70) if columns else (4, 33, 165)
    forward = Kernel(tmp_path, f"normalization:{name}", "T=f32 W=f32 S=f32 TRAIN=1")
    forward(groups, out, mean, invstd, x, w, b, *running, *layout, 0.1, 1e-5)
    for ours, wanted in zip((out, mean, invstd, *running), (y, m, r, *right), strict=True):
        close(ours, wanted)
    back = Kernel(tmp_path, f"normalization:{name}_backward", "T=f32 W=f32 S=f32 TRAIN=1")
    back(groups, out, dw, db, g, x, w, *running, mean, invstd, *layout, 1e-5)
    wanted = torch.ops.aten.native_batch_norm_backward(g, x, w, *right, m, r, True, 1e-5, [True] * 3)
    for ours, right_one in zip((out, dw, db), wanted, strict=True):
        close(ours, right_one)


def test_group_norm(tmp_path: Path) -> None:
    x, g, w, b = torch.randn(3, 6, 21), torch.randn(3, 6, 21), torch.randn(6), torch.randn(6)
    y, m, r = torch.ops.aten.native_group_norm(x, w, b, 3, 6, 21, 2, 1e-5)
    out, mean, rstd = torch.empty_like(x), torch.empty(3, 2), torch.empty(3, 2)
    forward = Kernel(tmp_path, "normalization:groups", "T=f32 W=f32 S=f32")
    forward(6, out, mean, rstd, x, w, b, 6, 2, 3, 21, 1e-5, 1)
    close(out, y)
    sums, dw, db = torch.empty(3, 6, 2), torch.empty(6), torch.empty(6)
    back = Kernel(tmp_path, "normalization:groups_backward", "T=f32 W=f32 S=f32")
    back(6, out, sums, g, x, mean, rstd, w, 6, 2, 3, 21, 1)
    Kernel(tmp_path, "normalization:groups_parameters", "T=f32 W=f32")(1, dw, db, sums, 3, 6)
    wanted = torch.ops.aten.native_group_norm_backward(g, x, m, r, w, 3, 6, 21, 2, [True] * 3)
    for ours, right in zip((out, dw, db), wanted, strict=True):
        close(ours, right)


def test_losses(tmp_path: Path) -> None:
    x, t = torch.randn(1000), torch.randn(1000)
    total = Kernel(tmp_path, "loss:total", "T=f32 KIND=1 WEIGHTED=0")
    parts, out = torch.empty(total.groups(1000)), torch.empty(())
    total(parts.numel(), parts, x, t, None, 1000, 0.7)
    Kernel(tmp_path, "loss:finish", "T=f32")(1, out, parts, parts.numel(), 1 / 1000)
    close(out, F.smooth_l1_loss(x, t, beta=0.7))

    logs, labels, weight = torch.randn(90, 7).log_softmax(1), torch.randint(7, (90,)), torch.rand(7)
    labels[::9] = 2
    nll = Kernel(tmp_path, "loss:nll_total", "T=f32 I=i64")
    parts, used = torch.empty(2, nll.groups(90)), torch.empty(())
    fault = torch.zeros(3, dtype=torch.int64)
    nll(parts.shape[1], parts, logs, labels, weight, fault, 7, 90, 7, 1, 2, parts.shape[1])
    assert fault.tolist() == [0, 0, 0]
    Kernel(tmp_path, "loss:nll_finish", "T=f32 I=i64")(1, out, used, parts, parts.shape[1], 1)
    right = torch.ops.aten.nll_loss_forward(logs, labels, weight, 1, 2)
    close(out, right[0])
    close(used, right[1])
    back = Kernel(tmp_path, "loss:nll_backward", "T=f32 I=i64 REDUCED=1 MEAN=1")
    gradient, one = torch.empty(90, 7), torch.tensor(0.3)
    back(90, gradient, one, labels, weight, used, 90, 7, 2, 1)
    close(gradient, torch.ops.aten.nll_loss_backward(one, logs, labels, weight, 1, 2, used))


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("drops", [0, 1])
def test_attention(tmp_path: Path, causal: int, masked: int, drops: int) -> None:
    batch, heads, key_heads, queries, keys, dim, value_dim = 2, 4, 2, 13, 37, 20, 24
    q, k, v = (
        torch.randn(batch, h, n, d, requires_grad=True)
        for h, n, d in ((heads, queries, dim), (key_heads, keys, dim), (key_heads, keys, value_dim))
    )
    mask = torch.randn(queries, keys)
    mask[3] = float("-inf")
    allowed = (
        torch.ones(queries, keys, dtype=torch.bool).tril() if causal else torch.ones(queries, keys, dtype=torch.bool)
    )
    bias = torch.where(allowed, mask if masked else torch.zeros(()), float("-inf"))
    rows, below = batch * heads * queries, 20000
    bits = drawn_bits(7, 2**32 - 99, rows * -(-keys // 8)).view(rows, -1)[:, :keys].view(batch, heads, queries, keys)
    factor = (bits >= below) * 1.5 if drops else torch.ones(())
    weights = torch._safe_softmax(q @ k.repeat_interleave(heads // key_heads, 1).mT * 0.3 + bias, -1)
    y = (weights * factor) @ v.repeat_interleave(heads // key_heads, 1)
    g = torch.randn_like(y)
    wanted = torch.autograd.grad(y, (q, k, v), g)
    q, k, v = q.detach(), k.detach(), v.detach()
    strides = [s for t in (q, k, v, y) for s in t.contiguous().stride()[:3]]
    shape = [heads, key_heads, queries, keys, dim, value_dim, causal, *strides, 0, 0, keys, 1]
    out, lse = torch.empty(y.shape), torch.empty(batch, heads, queries)
    special = f"T=f32 MASKED={masked} DROPS={drops}"
    dropping = (7, 2**32 - 99, [below, *torch.tensor([1.5], dtype=torch.float64).view(torch.int64).tolist()])
    Kernel(tmp_path, "attention:forward", special)(rows, out, lse, q, k, v, mask, shape, 0.3, *dropping)
    close(out, y.detach())
    delta = torch.empty(batch, heads, queries)
    both = [*g.stride()[:3], *out.stride()[:3], *k.stride()[:3], *v.stride()[:3]]
    kernel = Kernel(tmp_path, "attention:delta", "T=f32")
    kernel(kernel.groups(rows), delta, g, out, shape, both, rows)
    ours = [torch.empty_like(t) for t in (q, k, v)]
    given = (g, q, k, v, mask, lse, delta, shape, both, 0.3, *dropping)
    Kernel(tmp_path, "attention:backward_queries", special)(rows, ours[0], *given)
    Kernel(tmp_path, "attention:backward_keys", special)(batch * key_heads * keys, *ours[1:], *given)
    for a, b in zip(ours, wanted, strict=True):
        close(a, b)


KERNELS = {
    "softmax:rows": "T=bf16 R=f32 LOG=1",
    "normalization:rows_backward": "T=f16 W=f32 RMS=1 HAS_WEIGHT=1 WANTED=1 PARTS=1",
    "loss:total": "T=bf16 KIND=3 WEIGHTED=1",
    "attention:forward": "T=f16 MASKED=1 DROPS=1",
}


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("name", KERNELS)
def test_other_dialects(name: str, dialect: str) -> None:
    made = generator.generate(name, KERNELS[name], dialect, 128)
    assert made is not None
    text, entry, _ = made
    assert f"void {entry}(" in text if dialect == "opencl" else f"{entry}(" in text
    # The preprocessor removes GNU C vectors: only groups of one work-item use them.
    names = {"opencl": "__OPENCL_VERSION__=120", "cuda": "__CUDACC__"}
    command = [str(COMPILER), "-E", "-P", "-xc", f"-D{names[dialect]}", "-"]
    left = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert entry in left
    assert "vector_size" not in left
