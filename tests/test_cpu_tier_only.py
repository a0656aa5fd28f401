"""Everything runs on the CPU tier: a device of memory and copies only, and `sim` with the rule ``.*``."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python

pytestmark = pytest.mark.slow  # each test starts a process that imports torch

BARE = {"HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "bare.py"), "HARDPOINT_DEVICE": "bare"}
RULE = {"HARDPOINT_DEVICE": "sim", "HARDPOINT_FALLBACK": ".*"}

#: Trains modules on both devices and compares results and gradients.
MODULES = """
import copy, torch, warnings
import hardpoint.torch
from torch import nn
warnings.simplefilter("ignore")
device = hardpoint.torch.mount()
ids = torch.tensor([[1, 2, 4], [4, 3, 0]])
image, volume, rows = torch.randn(2, 4, 6, 6), torch.randn(2, 3, 4, 4, 4), torch.randn(2, 3, 8)
cases = {
    "Embedding": (nn.Embedding(5, 4, padding_idx=0), ids),
    "EmbeddingBag": (nn.EmbeddingBag(5, 4), ids),
    "RMSNorm": (nn.RMSNorm(8), rows),
    "LayerNorm": (nn.LayerNorm(8), rows),
    "BatchNorm2d": (nn.BatchNorm2d(4), image),
    "BatchNorm1d, 16 bits": (nn.BatchNorm1d(3).bfloat16(), rows.bfloat16()),
    "GroupNorm": (nn.GroupNorm(2, 4), image),
    "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(2), rows),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(3), image),
    "AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(2), volume),
    "Conv2d": (nn.Conv2d(4, 3, 3), image),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 3, 3), image),
    "LSTM": (nn.LSTM(8, 5, 2, bidirectional=True), rows),
    "GRU": (nn.GRU(8, 5), rows),
    "Attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), rows),
}
def run(module, x, where):
    module, x = copy.deepcopy(module).to(where), x.to(where)
    y = module(x)
    y = y[0] if isinstance(y, tuple) else y
    if not any(True for _ in module.parameters()):
        x = x.clone().requires_grad_()
        y = module(x)
    (y * y).sum().backward()
    grads = [p.grad.cpu() for p in module.parameters()] or [x.grad.cpu()]
    return y.detach().cpu(), grads, [b.cpu() for b in module.buffers()]
answer = {}
for name, (module, x) in cases.items():
    try:
        torch.testing.assert_close(run(module, x, device), run(module, x, "cpu"), rtol=1e-5, atol=1e-5)
    except Exception as error:
        answer[name] = f"{type(error).__name__}: {error}"
"""


@pytest.mark.parametrize("device", [BARE, RULE], ids=["bare", "rule"])
def test_modules_train_as_on_the_cpu(device: dict[str, str], tmp_path: Path) -> None:
    assert ask_python(MODULES, tmp_path, **device) == {}


def test_a_rule_for_all_operators_leaves_no_kernel(tmp_path: Path) -> None:
    code = f"{MODULES}\nanswer = [n for n, c in hardpoint.counters().items() if 'portable' in c or 'vendor' in c]"
    # Copies and conversions are not operators that a rule could send to the CPU.
    assert set(ask_python(code, tmp_path, **RULE)) <= {"aten::copy_"}


@pytest.mark.parametrize("device", [BARE, RULE], ids=["bare", "rule"])
def test_operator_database(device: dict[str, str], tmp_path: Path) -> None:
    """The entries that once failed, and a few of every family; `hardpoint check` runs the whole database."""
    code = """
from hardpoint import check
names = "adaptive_max_pool|rms_norm|functional.embedding|^sort|^softmax|conv2d$|^cumsum|index_put|linalg.qr|^addmm"
report = check.run(["ops"], ops=names, dtypes=["float32"], samples=1)
answer = [len(report.results), {r.entry: r.failure for r in report.results if r.verdict == "failed"}]
"""
    count, failed = ask_python(code, tmp_path, timeout=300, **device)
    assert count > 15
    assert failed == {}


@pytest.mark.parametrize("device", [BARE, RULE], ids=["bare", "rule"])
def test_output_that_is_an_input(device: dict[str, str], tmp_path: Path) -> None:
    """Also in the first call of an operator, whose decomposition is tried and given up after it has written."""
    code = """
import torch, hardpoint.torch
device = hardpoint.torch.mount()
def mul(x): torch.mul(x, 3, out=x)
def lists(x): torch._foreach_mul_([x[:2], x[2:]], 0.5)
def div(x): torch.div(x, x + 1, out=x)
def sigmoid(x): torch.sigmoid(x, out=x)
def choice(x): torch.where(x > 2, x, x * 2, out=x)
answer = {}
for write in (mul, lists, div, sigmoid, choice):
    for call in range(2):
        right = torch.arange(1.0, 6.0)
        ours = right.to(device)
        write(right)
        write(ours)
        if not torch.allclose(ours.cpu(), right):
            answer[f"{write.__name__} {call}"] = [ours.tolist(), right.tolist()]
"""
    assert ask_python(code, tmp_path, **device) == {}


@pytest.mark.parametrize("device", [BARE, RULE], ids=["bare", "rule"])
def test_outputs_that_overlap(device: dict[str, str], tmp_path: Path) -> None:
    """What torch refuses is refused in every call, also by operators that a decomposition serves."""
    code = """
import torch, hardpoint.torch
device = hardpoint.torch.mount()
base = torch.arange(12.0).reshape(4, 3)
def empty(x):
    out = x.new_zeros(0)
    torch.cat([out, x], out=out)
cases = {
    "empty": empty,
    "a list": lambda x: torch.cat([x[:2], x[2:]], out=x),
    "part": lambda x: torch.cat([x[:1], x[1:3]], out=x[1:]),
    "itself": lambda x: torch.stack([x[:1], x[1:2]], out=x[:1].expand(2, 1, 3)),
    "shifted": lambda x: x[1:].mul_(x[:-1]),
    "shifted out": lambda x: torch.hypot(x[1:], x[1:], out=x[:-1]),
    "expanded": lambda x: x[:1].expand(4, 3).add_(x),
}
answer = {}
for name, write in cases.items():
    for call in range(2):
        right, ours, said = base.clone(), base.to(device), []
        for x in (right, ours):
            try:
                write(x)
                said.append("")
            except RuntimeError as error:
                said.append(str(error).partition(".")[0])
        if said[0] != said[1] or not said[0] or not torch.equal(ours.cpu(), right):
            answer[f"{name} {call}"] = [said, ours.tolist(), right.tolist()]
"""
    assert ask_python(code, tmp_path, **device) == {}


@pytest.mark.parametrize("device", [BARE, RULE], ids=["bare", "rule"])
def test_dtypes_that_the_cpu_lacks(device: dict[str, str], tmp_path: Path) -> None:
    """16-bit floats run in float32, and the integers of some operators in float64."""
    code = """
import torch, hardpoint.torch
from torch.nn import functional as F
device = hardpoint.torch.mount()
x, labels = torch.randn(1, 2, 4, 4, 4).half(), torch.tensor([1, 0])
answer = []
for f in (lambda x: F.avg_pool3d(x, 2), lambda x: F.multi_margin_loss(x[0, :, 0, 0, :2], labels.to(x.device))):
    ours, wide = x.to(device).requires_grad_(), x.float().requires_grad_()
    result, right = f(ours), f(wide)
    result.float().sum().backward()
    right.sum().backward()
    answer.append([str(result.dtype), str(ours.grad.dtype)])
    torch.testing.assert_close(result.cpu(), right.half())
    torch.testing.assert_close(ours.grad.cpu(), wide.grad.half())
out = torch.empty(0, dtype=torch.half, device=device)
torch.ops.aten.avg_pool3d.out(x.to(device), [2], out=out)
torch.testing.assert_close(out.cpu(), F.avg_pool3d(x.float(), 2).half())
experts = torch.tensor([0, 2, 2, 3], dtype=torch.int32, device=device)
counts = torch.histc(experts, bins=4, min=0, max=3)
answer.append([str(counts.dtype), counts.tolist()])
"""
    assert ask_python(code, tmp_path, **device) == [
        ["torch.float16", "torch.float16"],
        ["torch.float16", "torch.float16"],
        ["torch.int32", [1, 0, 2, 1]],
    ]


def test_coverage_of_a_device_without_kernels(tmp_path: Path) -> None:
    code = """
from hardpoint import coverage
found = {op.name.removeprefix("aten::"): op for op in coverage.collect().operators}
names = ("addmm", "_softmax", "convolution_overrideable", "sort.stable", "exp", "fill_.Scalar", "native_layer_norm",
         "empty.memory_format", "_foreach_add.List", "_thnn_fused_lstm_cell")
answer = {name: found[name].worst_tier() for name in names if name in found}
"""
    answer = ask_python(code, tmp_path, **BARE)
    on_the_cpu = {name for name, tier in answer.items() if tier == "cpu"}
    assert on_the_cpu >= {"addmm", "_softmax", "sort.stable", "exp", "fill_.Scalar", "native_layer_norm"}
    assert answer["empty.memory_format"] == "adapter"


@pytest.mark.parametrize("flag", ["FLAGS_use_system_allocator=1", "FLAGS_allocator_strategy=naive_best_fit"])
def test_paddle_with_its_older_allocators(flag: str, tmp_path: Path) -> None:
    """Paddle's allocators reserve a share of the device's memory, whose size this device does not know."""
    code = """
import hardpoint, paddle
x = paddle.arange(1000, dtype="float32")
answer = [str(x.place), float((x * 2).sum())]
for _ in range(3):
    paddle.zeros([1 << 20])  # freed at once
answer.append(float(paddle.ones([1 << 22]).sum()))
"""
    name, _, value = flag.partition("=")
    assert ask_python(code, tmp_path, **BARE, **{name: value}) == ["Place(bare:0)", 999000.0, float(1 << 22)]
