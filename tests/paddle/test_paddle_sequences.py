"""Tensors of sequences of different lengths (LoD), in static graphs of Paddle's old representation."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle.base import core

LENGTHS = [[2, 1, 3]]


def compute(kind: str, inputs: dict[str, np.ndarray], outputs: dict[str, str], place: Any, **attributes: Any) -> Any:
    """Results of one operator, and where the sequences of the first start."""
    with paddle.pir_utils.OldIrGuard(), paddle.static.scope_guard(paddle.static.Scope()):
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            block, fed = program.global_block(), {}
            for name, array in inputs.items():
                block.create_var(name=name, shape=[-1, *array.shape[1:]], dtype=str(array.dtype), lod_level=1)
                fed[name] = core.DenseTensor()
                fed[name].set(array, place)
                fed[name].set_recursive_sequence_lengths(LENGTHS)
            for name, dtype in outputs.items():
                block.create_var(name=name, dtype=dtype)
            block.append_op(
                type=kind,
                inputs={name: [name] for name in inputs},
                outputs={name: [name] for name in outputs},
                attrs=attributes,
            )
        executor = paddle.static.Executor(place)
        found = executor.run(program, feed=fed, fetch_list=list(outputs), return_numpy=False)
        return [np.array(tensor) for tensor in found], found[0].lod()


@pytest.mark.parametrize(
    ("kind", "outputs", "attributes"),
    [
        ("sequence_pool", {"Out": "float32", "MaxIndex": "int32"}, {"pooltype": "AVERAGE"}),
        ("sequence_softmax", {"Out": "float32"}, {}),
        ("add_position_encoding", {"Out": "float32"}, {"alpha": 1.0, "beta": 0.5}),
        ("im2sequence", {"Out": "float32"}, {"kernels": [1, 1], "strides": [1, 1], "paddings": [0, 0, 0, 0]}),
    ],
)
def test_operators_on_sequences(rng, kind, outputs, attributes):
    shape = {"sequence_softmax": (6, 1), "im2sequence": (6, 1, 2, 2)}.get(kind, (6, 4))
    inputs = {"X": rng.random(shape).astype("float32")}
    expected, starts = compute(kind, inputs, outputs, paddle.CPUPlace(), **attributes)
    found, found_starts = compute(kind, inputs, outputs, paddle.CustomPlace("sim", 0), **attributes)
    assert found_starts == starts
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        np.testing.assert_allclose(f, e, rtol=1e-6)


def test_fill_takes_the_number_of_sequences(rng):
    inputs = {"Input": rng.random((6, 4)).astype("float32")}
    attributes = {"shape": [-1, 5], "value": 2.5, "dtype": 5}
    results = [
        compute("fill_constant_batch_size_like", inputs, {"Out": "float32"}, place, **attributes)
        for place in (paddle.CPUPlace(), paddle.CustomPlace("sim", 0))
    ]
    for (found,), _ in results:
        np.testing.assert_array_equal(found, np.full((3, 5), 2.5, "float32"))
