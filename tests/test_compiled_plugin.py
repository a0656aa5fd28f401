"""A device with only memory, copies and a compiler (tests/fixtures/compiled.py) runs every operator."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_tools import CC, ROOT, ask_python, environment

from hardpoint._runtime import cache_dir

FIXTURES = ROOT / "tests" / "fixtures"
FILE = FIXTURES / "compiled.py"
TINY = {"HARDPOINT_PLUGIN_PATH": str(FILE), "HARDPOINT_DEVICE": "tiny", "CC": CC}

#: The user's cache, since hundreds of kernels are compiled on the first run. The fingerprint keeps them separate.
KERNELS = cache_dir()

pytestmark = pytest.mark.slow


def test_plugin_is_small_and_has_no_kernels() -> None:
    assert len(FILE.read_text().splitlines()) < 300
    assert "@kernel" not in FILE.read_text()


def test_compiler_and_fingerprint(tmp_path: Path) -> None:
    code = """
import torch, hardpoint
from hardpoint._runtime import core
answer = dict(compiler=core.compiler("tiny", 0), sum=(torch.ones(3, device="tiny") + 1).tolist())
"""
    answer = ask_python(code, tmp_path, **TINY)
    dialect, fingerprint, group_size = answer["compiler"]
    assert (dialect, group_size, answer["sum"]) == ("c", 1, [2, 2, 2])
    # The fingerprint keys the cache: kernels of other plug-ins must not match.
    assert [folder.name for folder in (tmp_path / "kernels").iterdir()] == [fingerprint]
    other = ask_python(
        "import torch, hardpoint\nfrom hardpoint._runtime import core\nanswer = core.compiler('sim', 0)",
        tmp_path,
        HARDPOINT_DEVICE="sim",
    )
    assert other[0] == dialect
    assert other[1] != fingerprint


def test_compile_errors(tmp_path: Path) -> None:
    code = """
import torch, hardpoint
from hardpoint._runtime import core
try:
    core.compile("tiny", 0, "void f(void) { return nonsense; }", "")
except Exception as error:
    answer = [str(error)]
answer.append(len(core.compile("tiny", 0, "int f(void) { return VALUE; }", "-DVALUE=3")) > 0)
"""
    message, compiled = ask_python(code, tmp_path, **TINY)
    assert "nonsense" in message
    assert compiled


def test_device_graphs(tmp_path: Path) -> None:
    """Without the plug-in's graphs, streams and events: recorded launches are replayed."""
    code = f"""
import sys
sys.path.insert(0, {str(FIXTURES)!r})
import torch, hardpoint
from graph_training import train
from hardpoint.torch import _adapter
answer = [train("tiny", False), train("tiny", True), _adapter.load().extensions()]
"""
    eager, replayed, extensions = ask_python(code, KERNELS, **TINY)
    assert not {"graphs", "streams", "events"} & set(extensions)
    assert replayed == eager
    assert len(set(eager)) == 4


def test_training(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "examples")!r})
import torch, hardpoint
from digits import Net, digits

def train(device, dropout, epochs):
    torch.manual_seed(0)
    images, labels, *_ = digits()
    model = Net()
    for module in model:
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    model.to(device)
    images, labels = images.to(device), labels.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            batch = batch.to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses

answer = dict(tiny=train("tiny", 0, 2), cpu=train("cpu", 0, 2))
# Dropout masks depend on the device, so the losses differ.
answer["dropout"] = train("tiny", 0.2, 2)
answer["counters"] = hardpoint.counters()
"""
    answer = ask_python(code, KERNELS, timeout=300, **TINY)
    assert answer["tiny"] == pytest.approx(answer["cpu"], rel=1e-3, abs=1e-4)
    assert answer["tiny"][-1] < 0.5 < 2 < answer["tiny"][0]
    assert answer["dropout"] != answer["tiny"]
    assert answer["dropout"][-1] < 0.6
    assert "aten::native_dropout" in answer["counters"]
    assert {name: tiers for name, tiers in answer["counters"].items() if "cpu" in tiers} == {}


def test_copies(tmp_path: Path) -> None:
    code = """
import itertools, warnings
import torch, hardpoint
warnings.simplefilter("ignore")  # casting complex values to real discards the imaginary part
hardpoint.reset_counters()
LAYOUTS = {"dense": lambda x: x, "turned": lambda x: x.mT, "gaps": lambda x: x[:, ::2]}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.complex128]
wrong = []
for (name, layout), source, target in itertools.product(LAYOUTS.items(), DTYPES, DTYPES):
    base = torch.randn(12, 17).mul(3).round()
    base = (torch.complex(base, base.roll(5)) if source.is_complex else base).to(source)
    given, ours = layout(base), layout(base.to("tiny"))
    if not torch.equal(ours.to(target).cpu(), given.to(target)):
        wrong.append(["to", name, str(source), str(target)])
    # Memory between the elements of a view must not change.
    there, here = (torch.ones(30, 40, dtype=target, device=device) for device in ("cpu", "tiny"))
    rows, columns = given.shape
    there[1 : 1 + rows, 1 : 1 + 2 * columns : 2].copy_(given)
    here[1 : 1 + rows, 1 : 1 + 2 * columns : 2].copy_(ours)
    if not torch.equal(here.cpu(), there):
        wrong.append(["copy_", name, str(source), str(target)])
answer = [wrong, hardpoint.counters()]
"""
    wrong, counters = ask_python(code, KERNELS, timeout=300, **TINY)
    assert wrong == []
    assert list(counters["aten::copy_"]) == ["portable"]


#: OpInfo entries by family.
FAMILIES = {
    "pointwise": "add mul div.floor_rounding exp sigmoid pow where clamp remainder logical_and lerp atan2",
    "activations": "nn.functional.gelu nn.functional.leaky_relu nn.functional.softplus",
    "reductions": "sum mean amax prod argmax all std var_mean logsumexp",
    "scans": "cumsum cummax",
    "softmax": "softmax log_softmax",
    "norms": "nn.functional.layer_norm nn.functional.batch_norm nn.functional.group_norm",
    "pooling": "nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d",
    "images": "nn.functional.interpolate.bilinear nn.functional.pad.reflect nn.functional.unfold",
    "indexing": "gather scatter_add scatter_reduce.amax index_select index_put index_add __getitem__ take masked_fill",
    "selection": "masked_select nonzero nn.functional.embedding",
    "moves": "cat flip roll tril fill zero_ clone",
    "sorting": "sort topk kthvalue searchsorted",
    "products": "mm bmm addmm nn.functional.linear",
    "losses": "nn.functional.cross_entropy nn.functional.mse_loss",
    "random": "uniform normal bernoulli nn.functional.dropout randint_like",
}
ENTRIES = [entry for names in FAMILIES.values() for entry in names.split()]
CONVOLUTIONS = ["nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv_transpose2d"]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("entries", "dtypes"),
    [
        pytest.param(ENTRIES, "float32,int64", id="families"),
        # Integer convolutions run on the CPU on every device.
        pytest.param(CONVOLUTIONS, "float32", id="convolutions"),
    ],
)
def test_check_verdicts_are_strict(entries: list[str], dtypes: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    pattern = f"^({'|'.join(map(re.escape, entries))})$"
    options = ["--ops", pattern, "--dtypes", dtypes, "--samples", "2", "--json", str(report), "--strict"]
    command = [sys.executable, "-m", "hardpoint.cli", "check", "ops", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(KERNELS, **TINY), timeout=1100)
    assert report.exists(), done.stdout + done.stderr
    results = json.loads(report.read_text())["results"]
    assert set(entries) <= {r["entry"] for r in results}  # includes variants of an entry
    verdicts = {r["entry"]: (r["verdict"], r["failure"]) for r in results if r["entry"] in entries}
    assert {entry: found for entry, found in verdicts.items() if found[0] != "strict"} == {}
    assert done.returncode == 0
