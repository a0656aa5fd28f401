"""All tools on Paddle's calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import wrong_kernels

import hardpoint
from hardpoint._runtime import package_file
from hardpoint.debug._saved.paddle import is_paddle_call
from hardpoint.debug.replay import load

if find_spec("paddle") is None:
    pytest.skip("Paddle is not installed", allow_module_level=True)
# Paddle searches this folder by default if it is installed in the same place.
LOADER = package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent
os.environ.setdefault("CUSTOM_DEVICE_ROOT", str(LOADER))
import paddle  # noqa: E402

paddle.disable_signal_handler()


@pytest.fixture(autouse=True)
def _on_the_device():
    paddle.set_device("sim:0")


def reports(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def wrong(report: dict) -> dict:
    return {t["name"]: t["wrong"] for t in report["tensors"] if t["wrong"]}


def test_dump_shows_arguments_and_values(tmp_path: Path):
    x = paddle.arange(6, dtype="float32").reshape([2, 3])
    with hardpoint.dump(3, ops="matmul", file=tmp_path / "calls"):
        paddle.matmul(x, x, transpose_y=True)
    [record] = reports(tmp_path / "calls")
    assert record["operator"] == "phi::matmul"
    assert record["arguments"]["input 0"]["sizes"] == [2, 3]
    assert record["arguments"]["input 0"]["values"] == [[0, 1, 2], [3, 4, 5]]
    assert record["arguments"]["attribute 1"] is True
    assert record["results"]["output 0"]["values"] == [[5, 14], [14, 50]]
    assert record["results"]["output 0"]["device"] == "sim:0"
    assert "test_paddle_calls.py:" in record["location"]


def test_a_correct_call(capfd):
    x = paddle.randn([4, 5])
    with hardpoint.compare("all") as compared:
        x + x
    assert compared.counts == {"right": 1}
    written = capfd.readouterr().err
    assert "compare phi::add (vendor" in written
    assert "output 0: numel:20, sizes:[4, 5], strides:[5, 1], view:0, dtype:float32, device:sim:0" in written
    assert written.count("allclose") == 3


def test_wrong_strides(tmp_path: Path):
    a, b = paddle.randn([1, 3]), paddle.randn([4, 3])
    with wrong_kernels.strides_wrong(), hardpoint.compare(file=tmp_path / "calls", save=tmp_path / "saved") as compared:
        b * b
        a * b
    assert compared.wrong == {"phi::multiply": 1}
    [report] = reports(tmp_path / "calls")
    found = wrong(report)["output 0"]
    assert (found["wrong"], found["of"]) == (12, 12)
    assert found["max_abs"] == pytest.approx(1, rel=1e-5)
    [file] = (tmp_path / "saved").iterdir()
    assert is_paddle_call(file)
    with wrong_kernels.strides_wrong():
        [again], spent, native = load(file).replay("sim")
        assert again["verdict"] == "wrong"
        assert spent > 0
        assert native > 0
    [again], _, _ = load(file).replay("sim")
    assert again["verdict"] == "right", "the kernel is fixed"


def test_an_input_written():
    a, b = paddle.randn([3]), paddle.randn([3])
    before = b.numpy()
    with (
        wrong_kernels.input_written(),
        pytest.raises(hardpoint.Mismatch, match=r"phi::multiply") as caught,
        hardpoint.compare("stop"),
    ):
        a * b
    assert "1 of 3 elements wrong" in str(caught.value)
    assert b.numpy()[0] == pytest.approx(2 * before[0])


def test_wrong_in_backward_only(tmp_path: Path):
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 2))
    x = paddle.randn([5, 3])
    with wrong_kernels.backward_wrong(), hardpoint.compare(save=tmp_path, file=tmp_path / "calls") as compared:
        net(x).sum().backward()
    assert compared.wrong == {"phi::relu_grad": 1}
    assert compared.counts["right"] > 5
    file = tmp_path / "phi.relu_grad-1.call"
    with wrong_kernels.backward_wrong():
        [report], _, _ = load(file).replay("sim")
    assert wrong(report)["output 0"]["wrong"] > 0
    [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "right"


def test_inputs_of_in_place_calls_are_saved_as_before(tmp_path: Path):
    a, b = paddle.randn([3]), paddle.randn([3])
    before = a.numpy()
    with wrong_kernels.input_written(), hardpoint.compare(save=tmp_path):
        a.multiply_(b)
    [file] = tmp_path.iterdir()
    content = load(file).content
    assert content["outputs"] == [0], "the output aliases the first input"
    np.testing.assert_array_equal(np.frombuffer(content["inputs"][0][3], np.float32), before)


def test_layers_are_named(tmp_path: Path):
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.body = paddle.nn.Sequential(paddle.nn.Linear(3, 4))

        def forward(self, x):
            return self.body(x)

    net = Net()
    x = paddle.randn([5, 3])
    with hardpoint.dump(1, ops="matmul", file=tmp_path / "calls"):
        net(x)
    assert "module Net.body.0" in reports(tmp_path / "calls")[0]["location"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "bool", "complex64"])
def test_dtypes(rng, dtype):
    values = rng.integers(0, 2, [4, 5])
    x = paddle.to_tensor(values).astype(dtype)
    with hardpoint.compare("stop") as compared:
        paddle.transpose(x, [1, 0])
        x == x  # noqa: B015
        if dtype != "bool":
            x + x
    assert compared.counts["right"] >= (1 if dtype == "bool" else 2)
    assert set(compared.counts) == {"right"}


def test_random_kernels_are_compared_by_distribution():
    with hardpoint.compare("stop") as compared:
        paddle.randn([1000])
        paddle.nn.functional.dropout(paddle.ones([1000]), 0.3)
    assert compared.counts["wrong"] == 0
    assert compared.counts["right"] >= 2

    @hardpoint.kernel("uniform")
    def zeros(out, *rest):
        wrong_kernels.view(out).zero_()

    with zeros, pytest.raises(hardpoint.Mismatch, match="distributed differently"), hardpoint.compare("stop"):
        paddle.uniform([1000])


def test_a_window_of_steps():
    net = paddle.nn.Linear(3, 2)
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    x = paddle.randn([4, 3])
    with hardpoint.compare(ops="matmul", steps="2:2") as compared:
        for _ in range(3):
            net(x).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    assert compared.counts == {"right": 1}


def test_error_rule_names_the_line():
    x = paddle.randn([4, 4])
    with hardpoint.fallback("error"), pytest.raises(Exception, match=r"phi::eig: .*forbids.*test_paddle_calls\.py"):
        paddle.linalg.eig(x)
    paddle.linalg.eig(x)


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    x = paddle.randn([4])
    monkeypatch.setenv("HARDPOINT_DUMP", "2")
    x + x
    monkeypatch.setenv("HARDPOINT_DUMP", "0")
    x * x
    written = capfd.readouterr().err
    assert "phi::add: vendor kernel add" in written
    assert "input 0: numel:4" in written
    assert "multiply" not in written


@pytest.mark.slow
def test_no_false_alarms_in_training():
    paddle.seed(0)
    nets = [
        (paddle.vision.models.resnet18(num_classes=4), paddle.randn([2, 3, 32, 32])),
        (paddle.nn.TransformerEncoderLayer(16, 2, 32), paddle.randn([2, 5, 16])),
    ]
    for net, x in nets:
        optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
        with hardpoint.compare() as compared:
            net(x).square().mean().backward()
            optimizer.step()
        assert compared.wrong == {}
        assert compared.counts["right"] > 100


def test_script_for_a_bug_report(tmp_path: Path):
    a, b = paddle.randn([3]), paddle.randn([3])
    with wrong_kernels.input_written(), hardpoint.compare(save=tmp_path):
        a * b
    [file] = tmp_path.glob("*.call")
    text = load(file).script("sim")
    assert text.count("\n") <= 30
    (tmp_path / "bug.py").write_text(text)
    done = subprocess.run([sys.executable, tmp_path / "bug.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr  # that process has no wrong kernel


def test_invalid_files(tmp_path: Path):
    (tmp_path / "no").write_bytes(b"no")
    with pytest.raises(ValueError, match="is not a saved call"):
        load(tmp_path / "no")
    assert not is_paddle_call(tmp_path / "no")


def test_the_first_nan_is_found(tmp_path: Path):
    x = paddle.to_tensor([4.0, -1.0])
    with hardpoint.watch_nan(file=tmp_path / "calls", save=tmp_path / "saved") as watched:
        y = x + x
        paddle.sqrt(y) * x
    assert [report["operator"] for report in watched.produced] == ["phi::sqrt"]
    [report] = reports(tmp_path / "calls")
    assert report["inputs"]["input 0"]["min"] == -2.0
    assert report["results"]["output 0"]["nan"] == 1
    assert "test_paddle_calls.py:" in report["location"]
    [file] = (tmp_path / "saved").iterdir()
    [again], _, _ = load(file).replay("sim")
    assert again["verdict"] == "right"
    with pytest.raises(hardpoint.NonFiniteError, match="phi::sqrt"), hardpoint.watch_nan("stop"):
        paddle.sqrt(y)


def test_leaks():
    x = paddle.randn([100, 100])
    history = []
    with hardpoint.leaks() as found:
        for _ in range(3):
            history.append(paddle.matmul(x, x) + 1)
    assert [(group["operator"], group["storages"]) for group in found.groups] == [("phi::scale", 3)]
    assert found.groups[0]["bytes"] >= 3 * 40_000
    assert "test_paddle_calls.py:" in found.groups[0]["location"]


def test_calls_are_recorded(tmp_path: Path):
    x = paddle.randn([3, 4])
    with hardpoint.record(tmp_path / "all", ops="multiply|add", limit=2) as recorded:
        for _ in range(3):
            x * x
    assert [file.name for file in recorded.files] == ["phi.multiply-1.call", "phi.multiply-2.call"]
    [report], _, _ = load(recorded.files[0]).replay("sim")
    assert report["verdict"] == "right"
    with hardpoint.record(tmp_path / "failing", calls="failing") as recorded, hardpoint.fallback("error"):
        x + x
        with pytest.raises(Exception, match="phi::eig"):
            paddle.linalg.eig(paddle.randn([3, 3]))
    [file] = recorded.files
    with hardpoint.fallback("error"):
        [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "fails"
    assert "same error as when saved" in report["reason"]
