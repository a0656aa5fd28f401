"""``hardpoint check phi``: its table, its verdicts, and a part of the sweep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import pytest

import hardpoint
from hardpoint.check.phi_cases import TensorSpec, parse_arguments, read_table
from hardpoint.check.phi_sweep import BAD, summarize
from hardpoint.check.phi_worker import POISON, Record, Sweep
from hardpoint.paddle import _adapter

#: Operators of every family, with gradients; the whole sweep takes minutes.
PART = (
    *("relu", "divide_", "pow", "where", "cast", "sum", "cumsum", "argsort", "topk", "concat", "split", "slice"),
    *("gather", "scatter", "index_put", "put_along_axis", "softmax", "layer_norm", "batch_norm", "conv2d", "pool2d"),
    *("embedding", "cross_entropy_with_softmax", "adam_", "dropout", "roi_align", "rnn", "add_raw"),
)
#: Operators in which the sweep found defects: outputs with a wrong dtype (integers and gradients of 16-bit kernels,
#: integer sums), a batch that is broadcast, an input overwritten before its last use, an unwritten output, the name of
#: a layout, a reversed view.
MENDED = {
    **dict.fromkeys(("all", "any", "accuracy", "prelu"), ("float32", "float16", "bfloat16")),
    **dict.fromkeys(("matmul", "cross_entropy_with_softmax_", "nll_loss", "trilinear_interp"), ("float32", "float16")),
    **dict.fromkeys(("mean", "reduce_as", "strided_slice"), ("float32", "int32", "bool")),
}


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    # Second derivatives of some operators end the process on Paddle's CPU.
    return Sweep("sim", order=1)


def bad(records: list[Record]) -> list[str]:
    return [f"{r.verdict}: {r.kernel} {r.dtype}: {r.call}: {r.detail}" for r in records if r.verdict in BAD]


def test_arguments_of_a_line() -> None:
    x, listed, index, fixed, *rest = parse_arguments(
        'x[2,3] {p[2] f=[1,2]} i[5]<3 j=[[1],[2]] 1 -0.5 "NCHW" [1,2] None'
    )
    assert x == TensorSpec("x", (2, 3))
    assert listed == [TensorSpec("p", (2,)), TensorSpec("f", (2,), values=[1, 2])]
    assert index == TensorSpec("i", (5,), below=3)
    assert fixed.shape == (2, 1)
    assert rest == [1, -0.5, "NCHW", [1, 2], None]


def test_arguments_are_the_same_in_every_run() -> None:
    case = read_table().cases["gather"][0]
    first, second = ([spec.array("float32", rng) for spec in case.arguments[:2]] for rng in _generators(case))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[0].dtype == np.float32
    assert first[1].dtype == np.int64
    assert first[1].max() < 4


def _generators(case: object) -> list[np.random.Generator]:
    return [case.generator("float32") for _ in range(2)]  # type: ignore[attr-defined]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    table = tmp_path / "cases.txt"
    table.write_text("# comment\nadd: x[2,3] x[2,3]\nfeed ! moves data\nmul: x[2,3] oops(\n")
    with pytest.raises(ValueError, match=r"cases\.txt:4"):
        read_table(table)


def test_worst_verdict_and_reasons() -> None:
    records = [
        Record("add", "float32", "same", "vendor"),
        Record("add", "float32", "unwritten", "portable", "bytes", "add(x)", "file"),
        Record("add", "int64", "same", "cpu"),
    ]
    kernels = {"add": ["float32", "int64"], "feed": ["float32"], "exp_grad": ["int64"]}
    found = {
        (r.kernel, r.dtype): r
        for r in summarize(kernels, records, {"feed": "moves data"}, {"exp": ["int64: no kernel"]})
    }
    worst = found["add", "float32"]
    assert (worst.verdict, worst.calls, worst.call, worst.saved) == ("unwritten", 2, "add(x)", "file")
    assert found["add", "int64"].tiers == {"cpu": 1}
    assert (found["feed", "float32"].verdict, found["feed", "float32"].detail) == ("not generated", "moves data")
    assert found["exp_grad", "int64"].detail == "the CPU: no kernel"


def test_memory_is_filled() -> None:
    adapter = _adapter.load()
    adapter.start_poisoning("sim", 0, POISON)
    try:
        device = paddle.empty([3, 5], "int32")
    finally:
        adapter.stop_poisoning()
    word = int.from_bytes(bytes([POISON]) * 4, "little")
    assert np.array_equal(device.numpy(), np.full((3, 5), word))
    assert np.array_equal(paddle.zeros([3]).numpy(), np.zeros(3))


def test_defects_are_found(sweep: Sweep) -> None:
    def writes_nothing(out: object, x: object) -> None:
        pass

    def raises(out: object, x: object) -> None:
        raise ValueError("the bus is on fire")

    with hardpoint.kernel("erf", device="sim")(writes_nothing):
        records, _ = sweep.run("erf", ["float32"])
    assert {r.verdict for r in records if r.kernel == "erf"} >= {"unwritten"}
    with hardpoint.kernel("erf", device="sim")(raises):
        records, _ = sweep.run("erf", ["float32"])
    refused = [r for r in records if r.verdict == "refused"]
    assert refused
    assert "the bus is on fire" in refused[0].detail
    records, _ = sweep.run("erf", ["float32"])
    assert bad(records) == []
    assert {r.kernel for r in records} >= {"erf", "erf_grad"}


@pytest.mark.slow
@pytest.mark.parametrize("entry", [*PART, *MENDED])
def test_part_of_the_sweep(sweep: Sweep, entry: str) -> None:
    records, _ = sweep.run(entry, list(MENDED.get(entry, ("float32", "float16", "int64"))))
    assert bad(records) == []
    assert any(r.verdict == "same" for r in records)
