"""Views and in-place operators: writes are visible write_through every alias."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from comparison import assert_same


def write_through(view, change):
    def program(x):
        x = x.clone()
        seen = view(x)
        change(seen)
        return x, seen

    return program


VIEWS = {
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, 1:4],
    "steps": lambda x: x[::2, 1::2],
    "one": lambda x: x[2, 3],
    "transposed": lambda x: x.transpose([1, 0]),
    "reshaped": lambda x: x.reshape([6, 4]),
    "flipped stride": lambda x: x.t()[1:3],
}
CHANGES = {
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(3.5),
    "add_": lambda v: v.add_(paddle.to_tensor(1.5)),
    "scale_": lambda v: v.scale_(0.5, 1.0),
    "relu_": lambda v: paddle.nn.functional.relu_(v),
    "exp_": lambda v: v.exp_(),
    "clip_": lambda v: v.clip_(-0.5, 0.5),
    "cumsum_": lambda v: v.cumsum_(0) if v.ndim else None,
    "assigned": lambda v: v.__setitem__(0, 7.0) if v.ndim else None,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", VIEWS)
def test_write_through_a_view(rng, view, change):
    assert_same(write_through(VIEWS[view], CHANGES[change]), rng.standard_normal((4, 6)).astype("float32"))


def test_zero_through_a_slice():
    a = paddle.ones([4, 3])
    v = a[0:2]
    v.zero_()
    np.testing.assert_array_equal(a.numpy(), [[0] * 3] * 2 + [[1] * 3] * 2)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "int64", "bool", "complex64", "complex128", "float16"]
)
def test_layouts_of_every_dtype(rng, dtype):
    data = (rng.standard_normal((3, 4, 5)) * 3).astype(dtype)
    x = paddle.to_tensor(data)
    for view in (lambda t: t.transpose([2, 0, 1]), lambda t: t[1:, ::2, 1:4:2], lambda t: t.transpose([1, 0, 2])[2]):
        expected = view(paddle.to_tensor(data, place=paddle.CPUPlace()))
        np.testing.assert_array_equal(view(x).contiguous().numpy(), expected.numpy())


def test_in_place_change_of_dtype(rng):
    assert_same(lambda x, y: x.clone().equal_(y), *(rng.integers(0, 2, (2, 5000)).astype("float32")))
    assert_same(lambda x: x.clone().cast_("float64"), rng.standard_normal(5000).astype("float32"))
    assert_same(lambda x: x.clone().cast_("int16"), (rng.standard_normal(5000) * 9).astype("float32"))


def test_a_detached_variable_shares_memory():
    """In programs of the old IR."""
    paddle.enable_static()
    try:
        with (
            paddle.pir_utils.OldIrGuard(),
            paddle.static.scope_guard(paddle.static.Scope()),
            paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
        ):
            x = paddle.static.data("x", [3, 2], "float32")
            x.persistable = True
            detached, executor = x.detach(), paddle.static.Executor(paddle.CustomPlace("sim", 0))
            program, scope = paddle.static.default_main_program(), paddle.static.global_scope()
            first = executor.run(program, feed={"x": np.ones([3, 2], "float32")}, fetch_list=[x, detached])
            assert [array.sum() for array in first] == [6, 6]
            detached.set_value(np.full([3, 2], 7, "float32"), scope)
            again = executor.run(program, fetch_list=[x, detached])
            assert [array.sum() for array in again] == [42, 42]
    finally:
        paddle.disable_static()
