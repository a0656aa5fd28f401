"""Single operators by family on the simulated device against torch on the CPU in the same run.

python benchmarks/kernels.py [--only REGEX] [--json]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "2")  # read when the device is mounted

import argparse
import json
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

import hardpoint
from quiet import TIMES, Side, interleave

warnings.filterwarnings("ignore", message=".* runs on the CPU")

THREADS = int(os.environ["HARDPOINT_SIM_THREADS"])
OVERALL_GOAL = 1.2

Work = Callable[[], object]
Setup = Callable[[str], Work]


@dataclass(frozen=True)
class Case:
    """A benchmark case; `setup` creates the work for a device."""

    family: str
    name: str
    setup: Setup
    goal: float | None = None


CASES: list[Case] = []


def simple(family: str, name: str, function: Callable[..., object], *inputs: Tensor, goal: float | None = None) -> None:
    """Add a case without gradients."""

    def setup(device: str) -> Work:
        return partial(function, *(x.to(device) for x in inputs))

    CASES.append(Case(family, name, setup, goal))


def trained(family: str, name: str, function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Add a case with gradients of the floating-point inputs."""

    def setup(device: str) -> Work:
        moved = [x.to(device).requires_grad_(x.is_floating_point()) for x in inputs]
        wanted = [x for x in moved if x.requires_grad]
        grad = torch.ones_like(function(*moved))

        def work() -> object:
            return torch.autograd.grad(function(*moved), wanted, grad)

        return work

    CASES.append(Case(family, name, setup))


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def indices(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high))


# ---- Pointwise

A, B = randn(1024, 1024), randn(1024, 1024)

simple("pointwise", "add 1M", torch.add, A, B)
simple("pointwise", "mul 1M", torch.mul, A, B)
simple("pointwise", "add 64K", torch.add, A[:64], B[:64])
simple("pointwise", "addcmul 1M", torch.addcmul, A, B, A)
simple("pointwise", "exp 1M", torch.exp, A)
simple("pointwise", "where 1M", torch.where, A > 0, A, B)
simple("broadcast", "add row", torch.add, A, B[0])
simple("broadcast", "mul column", torch.mul, A, B[:, :1])
simple("broadcast", "outer", torch.mul, A[:, :1].contiguous(), B[:1].contiguous())
simple("strided", "add transposed", lambda a, b: a.t() + b, A, B)
simple("strided", "mul every second", lambda a, b: a[:, ::2] * b[:, ::2], A, B)
LAST = randn(8, 64, 32, 32).to(memory_format=torch.channels_last)
simple("strided", "add channels last", torch.add, LAST, randn(8, 64, 32, 32))
for activation in (F.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid, F.leaky_relu):
    simple("activation", f"{activation.__name__} 1M", activation, A)
trained("activation", "gelu and backward 1M", F.gelu, A)
for short, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
    simple("half pointwise", f"add {short} 1M", torch.add, A.to(dtype), B.to(dtype))
    simple("half pointwise", f"gelu {short} 1M", F.gelu, A.to(dtype))

# ---- Reductions and norms

for what, dimension in (("all", (0, 1)), ("rows", (1,)), ("columns", (0,))):
    simple("reduction", f"sum {what}", partial(torch.sum, dim=dimension), A)
    simple("reduction", f"amax {what}", partial(torch.amax, dim=dimension), A)
simple("reduction", "mean columns bf16", partial(torch.mean, dim=0), A.bfloat16())
simple("reduction", "argmax rows", partial(torch.argmax, dim=1), A)
simple("reduction", "var rows", partial(torch.var, dim=1), A)
simple("softmax", "softmax 1024x1024", partial(torch.softmax, dim=-1), A)
simple("softmax", "log_softmax 1024x1024", partial(torch.log_softmax, dim=-1), A)
trained("softmax", "softmax and backward", partial(torch.softmax, dim=-1), A)
simple("norm", "layer_norm 1024x1024", lambda x, w, b: F.layer_norm(x, (1024,), w, b), A, B[0], B[1])
trained("norm", "layer_norm and backward", lambda x, w, b: F.layer_norm(x, (1024,), w, b), A, B[0], B[1])
SMALL, SCALE, SHIFT = randn(8, 64, 28, 28), randn(64), randn(64)
trained("norm", "group_norm and backward", lambda x, w, b: F.group_norm(x, 8, w, b), SMALL, SCALE, SHIFT)


def batch_norm(x: Tensor, w: Tensor, b: Tensor, training: bool) -> Tensor:
    mean, variance = torch.zeros_like(w.detach()), torch.ones_like(w.detach())
    return F.batch_norm(x, mean, variance, w, b, training)


IMAGE = randn(8, 64, 56, 56)
simple("norm", "batch_norm eval", partial(batch_norm, training=False), IMAGE, SCALE, SHIFT)
simple("norm", "batch_norm train", partial(batch_norm, training=True), IMAGE, SCALE, SHIFT)
trained("norm", "batch_norm and backward", partial(batch_norm, training=True), IMAGE, SCALE, SHIFT)

# ---- Matrix products and convolutions

simple("matmul", "mm 512", torch.mm, A[:512, :512].contiguous(), B[:512, :512].contiguous())
simple("matmul", "mm 1024", torch.mm, A, B, goal=1.25)
simple("matmul", "mm 512 transposed", lambda a, b: a.t() @ b, A[:512, :512].contiguous(), B[:512, :512].contiguous())
simple("matmul", "bmm 16x256x256", torch.bmm, randn(16, 256, 256), randn(16, 256, 256))
simple("matmul", "mv 1024", torch.mv, A, B[0])
simple("matmul", "linear 512x256x1024", F.linear, randn(512, 256), randn(1024, 256), randn(1024))
trained("matmul", "linear and backward", F.linear, randn(512, 256), randn(1024, 256), randn(1024))
simple("matmul", "mm 512 bf16", torch.mm, A[:512, :512].bfloat16(), B[:512, :512].bfloat16())

W3, W1, WD = randn(64, 64, 3, 3), randn(64, 64, 1, 1), randn(64, 1, 3, 3)
conv = partial(F.conv2d, padding=1)
simple("convolution", "conv 3x3 64x56x56 b8", conv, IMAGE, W3, randn(64), goal=1.5)
simple("convolution", "conv 3x3 stride 2", partial(conv, stride=2), IMAGE, W3, randn(64))
simple("convolution", "conv 1x1", F.conv2d, IMAGE, W1, randn(64))
simple("convolution", "conv depthwise", partial(conv, groups=64), IMAGE, WD, randn(64))
simple("convolution", "conv transposed", partial(F.conv_transpose2d, stride=2), SMALL, randn(64, 32, 2, 2))
trained("convolution", "conv 3x3 and backward", conv, IMAGE, W3, randn(64))
trained("convolution", "conv 1x1 and backward", F.conv2d, IMAGE, W1, randn(64))
trained("convolution", "depthwise and backward", partial(conv, groups=64), IMAGE, WD, randn(64))

# ---- Pooling and resizing

simple("pooling", "max_pool 2", partial(F.max_pool2d, kernel_size=2), IMAGE)
trained("pooling", "max_pool 3 s2 and backward", partial(F.max_pool2d, kernel_size=3, stride=2, padding=1), IMAGE)
simple("pooling", "avg_pool 2", partial(F.avg_pool2d, kernel_size=2), IMAGE)
trained("pooling", "avg_pool and backward", partial(F.avg_pool2d, kernel_size=2), IMAGE)
trained("pooling", "adaptive_avg_pool and backward", partial(F.adaptive_avg_pool2d, output_size=1), IMAGE)
trained("pooling", "upsample nearest and backward", partial(F.interpolate, scale_factor=2), IMAGE[:, :16].contiguous())
trained(
    "pooling",
    "upsample bilinear and backward",
    partial(F.interpolate, scale_factor=2, mode="bilinear", align_corners=False),
    IMAGE[:, :16].contiguous(),
)

# ---- Indexing

TOKENS, TABLE = indices(8192, 16, 128), randn(8192, 256)
ROWS, WHERE = indices(1024, 2048), indices(1024, 1024, 1024)
simple("indexing", "embedding", F.embedding, TOKENS, TABLE)
trained("indexing", "embedding and backward", F.embedding, TOKENS, TABLE)
simple("indexing", "gather", lambda x, i: x.gather(1, i), A, WHERE)
simple("indexing", "scatter", lambda x, i, y: x.scatter(1, i, y), A, WHERE, B)
simple("indexing", "scatter_add", lambda x, i, y: x.scatter_add(1, i, y), A, WHERE, B)
simple("indexing", "index_select", lambda x, i: x.index_select(0, i), A, ROWS)
simple("indexing", "index (tensor)", lambda x, i: x[i], A, ROWS)
simple("indexing", "index_put", lambda x, i, y: x.index_put((i,), y), A, ROWS[:512], B[:512])
accumulate = partial(torch.index_put, accumulate=True)
simple("indexing", "index_put accumulate", lambda x, i, y: accumulate(x, (i,), y), A, ROWS[:512], B[:512])
simple("indexing", "index_add", lambda x, i, y: x.index_add(0, i, y), A, ROWS[:512], B[:512])
simple("indexing", "masked_fill", lambda x, m: x.masked_fill(m, 0.0), A, A > 0)
simple("indexing", "nonzero", torch.nonzero, A > 1)

# ---- Data movement

simple("moving", "cat columns", lambda a, b: torch.cat([a, b], 1), A, B)
simple("moving", "cat rows", lambda a, b: torch.cat([a, b], 0), A, B)
simple("moving", "transpose copy", lambda a: a.t().contiguous(), A)
simple("moving", "permute copy", lambda x: x.permute(0, 2, 3, 1).contiguous(), IMAGE)
simple("moving", "clone", torch.clone, A)
simple("moving", "fill", lambda a: a.fill_(1.0), A.clone())
simple("moving", "fp32 to bf16", lambda a: a.to(torch.bfloat16), A)
simple("moving", "bf16 to fp32", lambda a: a.to(torch.float32), A.bfloat16())
simple("moving", "int64 to fp32", lambda a: a.to(torch.float32), WHERE)

# ---- Sorting and scans

simple("sorting", "sort rows 256x4096", torch.sort, randn(256, 4096))
simple("sorting", "sort 1M", lambda a: torch.sort(a), randn(1 << 20))
simple("sorting", "topk 10 of 4096", lambda a: torch.topk(a, 10), randn(256, 4096))
simple("sorting", "cumsum rows", partial(torch.cumsum, dim=1), A)
simple("sorting", "cumsum columns", partial(torch.cumsum, dim=0), A)

# ---- Random numbers

simple("random", "uniform_ 1M", lambda a: a.uniform_(), A.clone())
simple("random", "normal_ 1M", lambda a: a.normal_(), A.clone())
simple("random", "bernoulli_ 1M", lambda a: a.bernoulli_(0.5), A.clone())
simple("random", "dropout 1M", partial(F.dropout, p=0.1), A)
trained("random", "dropout and backward 1M", partial(F.dropout, p=0.1), A)
simple("random", "randint 1M", lambda a: a.random_(0, 100), WHERE.clone())

# ---- Losses, attention and optimizers

trained("loss", "cross_entropy and backward", F.cross_entropy, randn(512, 4096), indices(4096, 512))
trained("loss", "mse and backward", lambda x: F.mse_loss(x, torch.zeros_like(x)), A)
trained("loss", "bce with logits and backward", lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)), A)
QKV = [randn(4, 8, 256, 64) for _ in range(3)]
sdpa = F.scaled_dot_product_attention
simple("attention", "sdpa", sdpa, *QKV)
simple("attention", "sdpa causal", partial(sdpa, is_causal=True), *QKV)
trained("attention", "sdpa and backward", sdpa, *QKV)
trained("attention", "sdpa causal and backward", partial(sdpa, is_causal=True), *QKV)


def optimizer(make: Callable[..., torch.optim.Optimizer], options: dict[str, bool], device: str) -> Work:
    parameters = [randn(256, 256).to(device).requires_grad_() for _ in range(16)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return make(parameters, lr=1e-3, **options).step


for way, options in (("plain", {"foreach": False}), ("foreach", {"foreach": True}), ("fused", {"fused": True})):
    CASES.append(Case("optimizer", f"adamw {way} 1M", partial(optimizer, torch.optim.AdamW, options)))
    momentum = partial(torch.optim.SGD, momentum=0.9)
    CASES.append(Case("optimizer", f"sgd momentum {way} 1M", partial(optimizer, momentum, options)))


# ---- Measuring


def served(work: Work) -> tuple[str, list[str]]:
    """Tiers of a call, and the operators that fall back to the CPU."""
    hardpoint.reset_counters()
    work()
    torch.accelerator.synchronize()
    counted = hardpoint.counters()
    tiers = [t for t in ("vendor", "portable", "decomposition", "cpu") if any(c.get(t) for c in counted.values())]
    return "+".join(tiers), [name for name, calls in sorted(counted.items()) if calls.get("cpu")]


@dataclass(frozen=True)
class Row:
    """Row of the table, with times in seconds."""

    case: Case
    ours: float
    native: float
    quiet: bool
    tier: str
    cpu: list[str]

    @property
    def ratio(self) -> float:
        return self.ours / self.native


def measure(this: Case) -> Row:
    work = this.setup(hardpoint.mounted()[0])
    tier, cpu = served(work)  # also compiles missing kernels
    sides = Side(work, synchronize=torch.accelerator.synchronize), Side(this.setup("cpu"))
    interleave(*sides)
    return Row(this, sides[0].seconds, sides[1].seconds, all(s.quiet for s in sides), tier, cpu)


def geomean(rows: list[Row]) -> float | None:
    """Geometric mean of the quiet rows, or None."""
    quiet = [math.log(row.ratio) for row in rows if row.quiet]
    return math.exp(sum(quiet) / len(quiet)) if quiet else None


def line(name: str, ours: str, native: str, ratio: str, goal: str, tier: str) -> str:
    return f"{name:34}{ours:>11}{native:>11}{ratio:>9}{goal:>12}  {tier}".rstrip()


def share(rows: list[Row]) -> str:
    return f"{sum(r.quiet for r in rows)} of {len(rows)}"


def number(ratio: float | None) -> str:
    return "?" if ratio is None else f"{ratio:.2f}"


def verdict(ratio: float | None, goal: float | None) -> str:
    return "" if ratio is None or goal is None else f"<= {goal} {'yes' if ratio <= goal else 'no':>3}"


def main() -> None:
    """Print one ratio per row, and the geometric means of each family and of all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="pattern for 'family: name'"
    )
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    chosen = [c for c in CASES if options.only.search(f"{c.family}: {c.name}")]
    if not chosen:
        parser.error("no case matches")
    if not options.json:
        print(f"Operators on {hardpoint.mounted()[0]} against native torch CPU; threads: {THREADS} each; {TIMES},")
        print("best of many interleaved rounds. ~: other processes disturbed every round; such a ratio does not count.")
        print("Tier: where the case ran; cpu means a round trip through the host.\n")
        print(line("", "device us", "native us", "ratio", "goal", "tier"))
    rows = []
    for this in chosen:
        row = measure(this)
        rows.append(row)
        if not options.json:
            us = [f"{seconds * 1e6:.1f}" for seconds in (row.ours, row.native)]
            ratio = f"{'' if row.quiet else '~'}{row.ratio:.2f}"
            goal = verdict(row.ratio, this.goal) if row.quiet else ""
            print(line(this.name, *us, ratio, goal, row.tier), flush=True)
    names = dict.fromkeys(c.family for c in chosen)
    families = {name: geomean([r for r in rows if r.case.family == name]) for name in names}
    if options.json:
        cases = [
            {
                "family": r.case.family,
                "name": r.case.name,
                "device_us": r.ours * 1e6,
                "native_us": r.native * 1e6,
                "ratio": r.ratio,
                "quiet": r.quiet,
                "goal": r.case.goal,
                "tier": r.tier,
                "cpu_operators": r.cpu,
            }
            for r in rows
        ]
        quiet = sum(r.quiet for r in rows)
        print(
            json.dumps({"threads": THREADS, "cases": cases, "families": families, "all": geomean(rows), "quiet": quiet})
        )
        return
    print("\nGeometric means, and number of cases")
    for name, ratio in families.items():
        print(line(name, "", share([r for r in rows if r.case.family == name]), number(ratio), "", ""))
    # Disturbed cases tend to be the slow ones, so a mean without them would be too good.
    goal = verdict(geomean(rows), OVERALL_GOAL) if all(r.quiet for r in rows) else f"<= {OVERALL_GOAL}   ?"
    print(line("all", "", share(rows), number(geomean(rows)), goal, ""))


if __name__ == "__main__":
    main()
