"""Compare: correct calls pass, wrong ones are reported."""

from __future__ import annotations

import gc
import json
import os
import threading
from pathlib import Path

import pytest
import torch
import wrong_kernels

import hardpoint
from hardpoint.debug.compare import environment


def reports(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def wrong(report: dict) -> dict:
    return {t["name"]: t["wrong"] for t in report["tensors"] if t["wrong"]}


def test_a_correct_call(capfd):
    a = torch.randn(4, 5, 5, device="sim")
    with hardpoint.compare("all") as compared:
        a + a
    assert compared.counts == {"right": 1}
    written = capfd.readouterr().err
    assert "compare aten::add.Tensor (vendor" in written
    assert "result: numel:100, sizes:[4, 5, 5], strides:[25, 5, 1], view:0, dtype:float32, device:sim:0" in written
    assert written.count("allclose") == 3


def test_strides_ignored(tmp_path: Path):
    a, b = torch.randn(3, 4, device="sim"), torch.randn(4, 3, device="sim")
    with wrong_kernels.strides_ignored(), hardpoint.compare(file=tmp_path / "calls") as compared:
        b * b
        a.t() * b
    assert compared.wrong == {"aten::mul.Tensor": 1}
    [report] = reports(tmp_path / "calls")
    assert report["tier"] == "vendor"
    assert "test_compare.py:" in report["location"]
    found = wrong(report)["result"]
    assert list(wrong(report)) == ["result"]
    flat = a.cpu().flatten().view(4, 3)
    errors = (flat * b.cpu() - a.cpu().t() * b.cpu()).abs()
    assert found["wrong"] == int((errors > 1e-5).sum())
    assert found["of"] == 12
    assert found["max_abs"] == pytest.approx(float(errors.max()), rel=1e-5)
    assert errors[tuple(found["at"])] == errors.max()


def test_an_input_written():
    a, b = torch.randn(3, device="sim"), torch.randn(3, device="sim")
    with (
        wrong_kernels.input_written(),
        hardpoint.compare("stop"),
        pytest.raises(hardpoint.Mismatch, match=r"aten::mul\.Tensor") as caught,
    ):
        a * b
    text = str(caught.value)
    assert "1 of 3 elements wrong" in text
    other = text[text.index("other:") :]
    assert "worst at [0]" in other
    assert "allclose" in text[: text.index("other:")]


def test_wrong_in_backward_only(tmp_path: Path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).to("sim")
    x = torch.randn(5, 3, device="sim")
    with wrong_kernels.backward_wrong(), hardpoint.compare(file=tmp_path / "calls") as compared:
        model(x).sum().backward()
    assert compared.wrong == {"aten::threshold_backward": 1}
    assert compared.counts["right"] > 5
    [report] = reports(tmp_path / "calls")
    assert "module Sequential.1" in report["location"]
    assert "ReluBackward" in report["location"]
    with (
        wrong_kernels.backward_wrong(),
        hardpoint.compare("stop"),
        pytest.raises(hardpoint.Mismatch, match=r"aten::threshold_backward"),
    ):
        model(x).sum().backward()


def test_in_place_and_out_are_compared(tmp_path: Path):
    a = torch.randn(3, 4, device="sim")
    out = torch.empty(3, 4, device="sim")
    with hardpoint.compare("all", file=tmp_path / "calls") as compared:
        a.mul_(2)
        torch.add(a, a, out=out)
        a[1:].copy_(a[:-1].clone())
    assert compared.counts.keys() == {"right"}
    names = [{t["name"] for t in r["tensors"]} for r in reports(tmp_path / "calls")]
    assert {"self"} <= names[0]
    assert {"self", "other", "out"} <= names[1]

    @hardpoint.kernel("mul", strided=True)
    def mul(out, x, y):
        pass  # does not write the output

    with mul, hardpoint.compare(file=tmp_path / "wrong") as compared:
        a.mul_(a)
    assert compared.wrong == {"aten::mul_.Tensor": 1}
    assert list(wrong(reports(tmp_path / "wrong")[0])) == ["self"]


def test_special_values_are_counted():
    @hardpoint.kernel("mul", strided=True)
    def mul(out, x, y):
        wrong_kernels.view(out).copy_(torch.tensor([float("nan"), float("inf"), 1.0]))

    a = torch.ones(3, device="sim")
    with mul, hardpoint.compare("stop"), pytest.raises(hardpoint.Mismatch) as caught:
        a * a
    assert "2 of 3 elements wrong" in str(caught.value)
    assert "1 differ in NaN, 1 differ in Inf" in str(caught.value)
    b = torch.tensor([float("nan"), float("inf"), -float("inf")], device="sim")
    with hardpoint.compare("stop"):
        b + b


def test_random_operators_are_compared_by_distribution():
    x = torch.ones(4000, device="sim")
    with hardpoint.compare("stop") as compared:
        torch.nn.functional.dropout(x, 0.3)
        x.uniform_()
        torch.randn(4000, device="sim")
        x.bernoulli_(0.2)
    assert compared.counts["right"] >= 4

    @hardpoint.kernel("uniform")
    def uniform(out, *_):
        wrong_kernels.view(out).copy_(torch.rand(4000) ** 2)

    with uniform, hardpoint.compare("mismatches", ops="uniform_") as compared:
        torch.empty(4000, device="sim").uniform_()
    assert compared.wrong == {"aten::uniform_": 1}


def test_ties_are_not_wrong():
    a = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], device="sim")
    with hardpoint.compare("stop") as compared:
        a.sort(1)
        a.max(1)
        a.argmax()
        a.topk(2)
    assert compared.counts["wrong"] == 0


def test_numbers_promote_as_in_the_program():
    with hardpoint.compare("stop") as compared:
        torch.arange(4, device="sim") * 2.5
        torch.arange(4, device="sim").half() + 1
        torch.tensor(3, device="sim") / 2
        torch.arange(4, device="sim") * torch.tensor(2.5, dtype=torch.float64)
    assert compared.counts["wrong"] == 0
    assert compared.counts["right"] >= 4


def test_tolerances_and_a_wider_reference():
    @hardpoint.kernel("mul", strided=True)
    def mul(out, x, y):
        wrong_kernels.view(out).copy_(wrong_kernels.view(x).cpu() * wrong_kernels.view(y).cpu() * 1.001)

    a = torch.rand(50, device="sim") + 1
    with mul:
        with hardpoint.compare() as compared:
            a * a
        assert compared.wrong
        with hardpoint.compare(tolerances={"mul": (1e-2, 0.0)}) as compared:
            a * a
        assert not compared.wrong
        with hardpoint.compare(reference="float64") as compared:
            a * a
        assert compared.wrong
    with hardpoint.compare("stop", reference="float64"):
        a.exp().log().sum()


def test_tolerances_in_the_environment(monkeypatch):
    @hardpoint.kernel("mul", strided=True)
    def mul(out, x, y):
        wrong_kernels.view(out).copy_(wrong_kernels.view(x).cpu() * wrong_kernels.view(y).cpu() * 1.001)

    a = torch.rand(50, device="sim") + 1
    with mul:
        for given, right in (
            ("mul:1e-2:0", True),
            ("aten::mul.Tensor:1e-2:0", True),
            (".*:1e-2:0, mul:1e-6:0", False),  # the last match wins
            ("mul@float64:1e-2:0", False),
            ("mm:1e-2:0, mul@float32:1e-2:0", True),
        ):
            monkeypatch.setenv("HARDPOINT_COMPARE", f"mismatches; tolerances={given}")
            a * a
            compared = environment.tool
            monkeypatch.delenv("HARDPOINT_COMPARE")
            assert compared.failed() != right, given
    for given in ("mul", "mul:1e-2", "mul:a:b", "mul:-1:0", ":1:1", "(:1:1"):
        with pytest.raises(ValueError, match="tolerance"):
            monkeypatch.setenv("HARDPOINT_COMPARE", f"stop; tolerances={given}")


def test_a_window_of_steps(tmp_path: Path):
    weight = torch.nn.Parameter(torch.ones(3, device="sim"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with hardpoint.compare("all", ops="mul", steps="2:3", file=tmp_path / "calls"):
        for step in range(1, 6):
            (weight * float(step)).sum().backward()
            optimizer.step()
    assert len([r for r in reports(tmp_path / "calls") if "Backward" not in r["location"]]) == 2


def test_memory_is_bounded():
    a = torch.ones(1000, device="sim")
    with hardpoint.compare("all", max_bytes=1000) as compared:
        a + a
    assert compared.counts == {"not compared": 1}
    assert "1 not compared" in compared.summary()


def test_bad_options(tmp_path: Path):
    for options, message in (
        ({"mode": "some"}, "must be one of all, mismatches, stop"),
        ({"reference": "float8"}, "reference must be float64"),
        ({"steps": "two"}, "FIRST:LAST"),
        ({"file": "/nowhere/calls"}, "cannot write to /nowhere/calls"),
    ):
        with pytest.raises(ValueError, match=message):
            hardpoint.compare(**options)


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    a = torch.ones(2, device="sim")
    monkeypatch.setenv("HARDPOINT_COMPARE", "all; ops=mul")
    a * a + a
    os.environ["HARDPOINT_COMPARE"] = "0"
    a * a
    written = capfd.readouterr().err
    assert written.count("compare aten::") == 1
    assert "compare: 1 calls right, 0 wrong" in written


def transformer() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 32), torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(32, 50)
    )
    return model, torch.randint(50, (4, 12)), torch.randint(50, (4, 12))


def test_no_false_alarms_for_a_transformer():
    model, x, y = transformer()
    model, x, y = model.to("sim"), x.to("sim"), y.to("sim")
    optimizer = torch.optim.AdamW(model.parameters())
    with hardpoint.compare("mismatches") as compared:
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    assert compared.wrong == {}
    assert compared.counts["right"] > 200
    # Attention with dropout, of two layers in two steps, forward and backward.
    assert compared.counts["not compared"] == 2 * 2 * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", ["plain", "causal", "mask", "bias", "shared heads"])
def test_attention(dtype, case):
    heads = 2 if case == "shared heads" else 4
    shapes = (2, 4, 9, 16), (2, heads, 11, 16), (2, heads, 11, 16)
    q, k, v = (torch.randn(shape, dtype=dtype, device="sim", requires_grad=True) for shape in shapes)
    options: dict[str, object] = {"is_causal": case == "causal", "enable_gqa": heads == 2}
    if case == "mask":
        options["attn_mask"] = torch.rand(9, 11).to("sim") < 0.7
    if case == "bias":
        options["attn_mask"] = torch.randn(2, 4, 9, 11).to("sim", dtype)
    with hardpoint.compare("all") as compared:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, **options).square().sum().backward()
    assert compared.wrong == {}
    assert compared.counts["not compared"] == 0
    assert "aten::_scaled_dot_product_fused_attention_overrideable_backward" in hardpoint.counters()


@pytest.mark.slow
def test_no_false_alarms_for_a_conv_net():
    model = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(8, 8, 3, groups=2), torch.nn.GroupNorm(2, 8), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1)),
        *(torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 10)),
    ).to("sim")
    x, y = torch.randn(8, 3, 16, 16, device="sim"), torch.randint(10, (8,), device="sim")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with hardpoint.compare("mismatches") as compared:
        for _ in range(2):
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert compared.wrong == {}
    assert compared.counts["not compared"] == 0


def test_results_private_to_the_backward_are_not_compared():
    weight, bags = torch.randn(10, 3, device="sim"), torch.tensor([[1, 2], [3, 4]], device="sim")
    logs = torch.randn(20, 4, 8, device="sim").log_softmax(2)
    targets, lengths = torch.randint(1, 8, (4, 6), device="sim"), torch.tensor([6, 5, 4, 3])
    with hardpoint.compare("stop") as compared:
        torch.nn.functional.embedding_bag(bags, weight)
        torch.nn.functional.ctc_loss(logs, targets, torch.tensor([20, 20, 18, 17]), lengths)
        torch.arange(6.0, device="sim") % 4
        torch.arange(6, device="sim") & 3
    assert compared.counts["not compared"] == 0


def test_from_several_threads():
    tensors = [torch.randn(5, 5, device="sim") for _ in range(4)]

    def work(a: torch.Tensor) -> None:
        for _ in range(10):
            (a @ a).relu_().sum()

    with hardpoint.compare("mismatches") as compared:
        threads = [threading.Thread(target=work, args=(a,)) for a in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert compared.counts == {"right": 120}


def test_compared_tensors_are_freed_at_once() -> None:
    x = torch.randn(64, 64, device="sim", requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        with hardpoint.compare("stop") as compared:
            before = torch.sim.memory_allocated()
            y = (x @ x).relu()
            del y
            assert torch.sim.memory_allocated() == before
    finally:
        gc.enable()
    assert compared.counts["right"] == 2
