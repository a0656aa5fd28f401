"""Compares Liger's kernels on a device with torch on the CPU: results and gradients.

pip install --no-deps --target FOLDER liger-kernel
python tests/triton_backend/liger_tests.py FOLDER [--device sim] [--only TEXT]

Prints one line for each kernel and dtype with the largest relative error, then the figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROWS, WIDTH, WORDS = 37, 300, 517
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}


class Case(NamedTuple):
    """A kernel of Liger, the same in torch, and its arguments: tensors of floats get gradients."""

    name: str
    kernel: Callable[..., Any]
    expected: Callable[..., Any]
    given: tuple[Any, ...]


def cases(torch: Any) -> Iterator[Case]:
    """All cases, in float32."""
    from liger_kernel.transformers import functional as liger
    from torch.nn import functional as F

    x, weight, bias = torch.randn(ROWS, WIDTH), torch.rand(WIDTH) + 0.5, torch.randn(WIDTH)
    scores, labels = torch.randn(ROWS, WORDS) * 2, torch.randint(0, WORDS, (ROWS,))
    labels[3] = -100

    def rms(x: Any, w: Any) -> Any:
        return F.rms_norm(x, (WIDTH,), w, 1e-6)

    yield Case("rms_norm", lambda x, w: liger.liger_rms_norm(x, w, 1e-6, in_place=False), rms, (x, weight))
    yield Case(
        "rms_norm, gemma",
        lambda x, w: liger.liger_rms_norm(x, w, 1e-6, 1.0, "gemma", False),
        lambda x, w: rms(x, w + 1),
        (x, weight),
    )
    yield Case(
        "fused_add_rms_norm",
        lambda x, r, w: liger.liger_fused_add_rms_norm(x, r, w, 1e-6, in_place=False),
        lambda x, r, w: (rms(x + r, w), x + r),
        (x, torch.randn(ROWS, WIDTH), weight),
    )
    yield Case(
        "layer_norm",
        lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b),
        (x, weight, bias),
    )
    yield Case(
        "group_norm",
        lambda x, w, b: liger.liger_group_norm(x, w, b, 12, 4, 1e-5),
        lambda x, w, b: F.group_norm(x, 4, w, b, 1e-5),
        (torch.randn(5, 12, 33), torch.rand(12) + 0.5, torch.randn(12)),
    )
    yield Case("swiglu", liger.liger_swiglu, lambda a, b: F.silu(a) * b, (x, torch.randn(ROWS, WIDTH)))
    yield Case(
        "geglu", liger.liger_geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, (x, torch.randn(ROWS, WIDTH))
    )
    yield Case("relu_squared", liger.liger_relu_squared, lambda x: F.relu(x).square(), (x,))
    yield Case("softmax", liger.liger_softmax, lambda x: x.softmax(-1), (scores,))
    yield Case(
        "dyt",
        liger.liger_dyt,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        (x, torch.tensor([0.7]), weight, bias),
    )
    yield Case("cross_entropy", lambda x, t: liger.liger_cross_entropy(x, t), F.cross_entropy, (scores, labels))
    yield Case(
        "cross_entropy, smooth",
        lambda x, t: liger.liger_cross_entropy(x, t, label_smoothing=0.1, reduction="sum"),
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, reduction="sum"),
        (scores, labels),
    )
    yield Case(
        "cross_entropy, softcap",
        lambda x, t: liger.liger_cross_entropy(x, t, softcap=5.0),
        lambda x, t: F.cross_entropy(5 * torch.tanh(x / 5), t),
        (scores, labels),
    )
    yield Case(
        "fused_linear_cross_entropy",
        lambda x, w, t: liger.liger_fused_linear_cross_entropy(x, w, t),
        lambda x, w, t: F.cross_entropy(x @ w.t(), t),
        (x, torch.randn(WORDS, WIDTH) * 0.05, labels),
    )
    yield Case(
        "kl_div",
        lambda x, t: liger.liger_kl_div(x.log_softmax(-1), t.detach().softmax(-1), reduction="batchmean"),
        lambda x, t: F.kl_div(x.log_softmax(-1), t.detach().softmax(-1), reduction="batchmean"),
        (scores, torch.randn(ROWS, WORDS)),
    )
    yield Case(
        "jsd",
        lambda x, t: liger.liger_jsd(x.log_softmax(-1), t.detach().log_softmax(-1)),
        lambda x, t: _jsd(torch, x.log_softmax(-1), t.detach().log_softmax(-1)),
        (scores, torch.randn(ROWS, WORDS)),
    )
    angles = torch.outer(torch.arange(11.0), 1 / 100 ** (torch.arange(0, 32, 2) / 32)).repeat(1, 2)[None]
    yield Case(
        "rope",
        lambda q, k: liger.liger_rope(q, k, angles.cos().to(q), angles.sin().to(q)),
        lambda q, k: tuple(_rotated(torch, v, angles.cos().to(v), angles.sin().to(v)) for v in (q, k)),
        (torch.randn(2, 4, 11, 32), torch.randn(2, 2, 11, 32)),
    )
    yield Case("sparsemax", liger.liger_sparsemax, lambda x: _sparsemax(torch, x), (scores,))


def _rotated(torch: Any, x: Any, cos: Any, sin: Any) -> Any:
    left, right = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-right, left], -1) * sin[:, None]


def _jsd(torch: Any, x: Any, target: Any) -> Any:
    mean = torch.logsumexp(torch.stack([x, target]), 0) - torch.log(torch.tensor(2.0)).to(x)
    parts = [torch.nn.functional.kl_div(mean, one, reduction="sum", log_target=True) for one in (x, target)]
    return sum(parts) / 2 / len(x)


def _sparsemax(torch: Any, x: Any) -> Any:
    """In float32, as the kernel does: sums in bfloat16 choose other elements."""
    dtype, x = x.dtype, x.float()
    ordered = x.sort(-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    count = (ordered * torch.arange(1, x.shape[-1] + 1, device=x.device) > sums).sum(-1, keepdim=True)
    return torch.relu(x - sums.gather(-1, count - 1) / count).to(dtype)


def run(torch: Any, function: Callable[..., Any], given: tuple[Any, ...], device: str, dtype: Any) -> list[Any]:
    """The results, and the gradients of all floating-point arguments."""
    arguments = []
    for value in given:
        moved = value.to(device, dtype if value.is_floating_point() else None, copy=True)
        arguments.append(moved.requires_grad_() if value.is_floating_point() else moved)
    results = function(*arguments)
    results = [results] if isinstance(results, torch.Tensor) else [r for r in results if r is not None]
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(r.shape, generator=generator).to(device) for r in results]
    total = sum((r.float() * w).sum() for r, w in zip(results, weights, strict=True))
    total.backward()
    return [*results, *(a.grad for a in arguments if a.grad is not None)]


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where liger_kernel is installed")
    parser.add_argument("--device", default="sim")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["HARDPOINT_DEVICE"] = options.device
    sys.path.insert(0, str(options.folder.resolve()))
    import liger_kernel.utils
    import torch

    import hardpoint

    liger_kernel.utils.infer_device = lambda: options.device  # knows three kinds of devices
    torch.manual_seed(0)
    passed, failed = 0, 0
    for case in cases(torch):
        if options.only not in case.name:
            continue
        for kind, tolerance in TOLERANCE.items():
            dtype = getattr(torch, kind)
            rounded = tuple(v.to(dtype).float() if v.is_floating_point() else v for v in case.given)
            want = run(torch, case.expected, rounded, "cpu", torch.float32)
            hardpoint.reset_counters()
            try:
                got = run(torch, case.kernel, case.given, options.device, dtype)
                launches = sum(name.startswith("triton::") for name in hardpoint.counters())
                errors = [((g.cpu().float() - w).norm() / w.norm()).item() for g, w in zip(got, want, strict=True)]
                good = max(errors) <= tolerance and launches > 0
                print(f"{'ok  ' if good else 'BAD '} {case.name:28} {kind:9} {max(errors):.1e}")
            except Exception:
                good = False
                print(f"BAD  {case.name:28} {kind:9}")
                traceback.print_exc(limit=-3)
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a conftest.py of its own
    main()
