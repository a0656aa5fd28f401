"""Data movement, indexing, selection and creation: equal to the CPU's, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same

C = paddle._C_ops


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def product(pair):
    return pair[0] * pair[1]


#: Name -> function of tensors, and their shapes.
MOVES = {
    "concat": (lambda a, b: paddle.concat([a, b], 1), (2, 3, 4), (2, 5, 4)),
    "concat first": (lambda a, b: paddle.concat([a, b, a], 0), (2, 3), (4, 3)),
    "concat with nothing": (lambda a, b: paddle.concat([a, b], 0), (2, 3), (0, 3)),
    "stack": (lambda a, b: paddle.stack([a, b], -1), (2, 3), (2, 3)),
    "stack numbers": (lambda a, b: paddle.stack([a, b]), (), ()),
    "split": (lambda a: C.split(a, [1, 2, 3], 1), (2, 6, 3)),
    "split evenly": (lambda a: C.split_with_num(a, 3, 1), (2, 6, 3)),
    "chunk": (lambda a: [t * t for t in paddle.chunk(a, 2, -1)], (3, 8)),
    # Uses all parts: Paddle's own gradient crashes if one is unused.
    "unstack": (lambda a: sum(k * part for k, part in enumerate(paddle.unstack(a, 1), 1)), (2, 3, 4)),
    "unbind": (lambda a: sum(k * part for k, part in enumerate(paddle.unbind(a, 2), 1)), (2, 3, 4)),
    "slice": (lambda a: paddle.slice(a, [0, 2], [1, -3], [3, 4]) * 2, (4, 3, 5)),
    "strided_slice": (lambda a: paddle.strided_slice(a, [0, 1], [0, 5], [4, 1], [2, -2]) * 2, (4, 6)),
    "getitem": (lambda a: a[1:, None, ::2, 1] * a[0, 0, 0], (3, 5, 4)),
    "backwards": (lambda a: a[::-1, 1::2] * 2, (3, 6)),
    "transpose": (lambda a: a.transpose([2, 0, 1]) * 2, (2, 3, 4)),
    "transpose four": (lambda a: a.transpose([0, 2, 1, 3]) + 1, (2, 3, 4, 5)),
    "tile": (lambda a: paddle.tile(a, [2, 1, 3]), (2, 3, 4)),
    "tile more": (lambda a: paddle.tile(a, [3, 2]), (4,)),
    "tile once": (lambda a: paddle.tile(a, [1, 1]), (4, 3)),
    "tile ones": (lambda a: paddle.tile(a, [3, 2]), (1, 4)),
    "expand": (lambda a: paddle.expand(a, [5, 3, 4]) * 1.5, (3, 1)),
    "expand_as": (lambda a, b: paddle.expand_as(a, b) * b, (1, 4), (3, 4)),
    "broadcast_to": (lambda a: paddle.broadcast_to(a, [2, 3]) * 2, (3,)),
    "broadcast_tensors": (lambda a, b: product(paddle.broadcast_tensors([a, b])), (3, 1), (1, 4)),
    "meshgrid": (lambda a, b: product(paddle.meshgrid(a, b)), (3,), (4,)),
    "flip": (lambda a: paddle.flip(a, [0, 2]), (2, 3, 4)),
    "roll": (lambda a: paddle.roll(a, [1, -2], [0, 2]), (2, 3, 4)),
    "roll flat": (lambda a: paddle.roll(a, 5), (3, 4)),
    "tril": (lambda a: paddle.tril(a, -1), (4, 5)),
    "triu": (lambda a: paddle.triu(a, 1), (2, 4, 4)),
    "diag of a vector": (lambda a: paddle.diag(a, 1), (4,)),
    "diag of a matrix": (lambda a: paddle.diag(a, -1), (4, 5)),
    "diagonal": (lambda a: paddle.diagonal(a, 1, 0, 2) * 2, (3, 2, 4)),
    "trace": (lambda a: paddle.trace(a, 1, 0, 1) if a.stop_gradient else paddle.diagonal(a).sum(), (4, 5)),
    "reshape": (lambda a: a.reshape([4, -1]) * 2, (2, 6)),
    "squeeze": (lambda a: paddle.unsqueeze(paddle.squeeze(a, 1), [0, 2]) * 2, (3, 1, 4)),
    "flatten": (lambda a: paddle.flatten(a, 1) * 2, (2, 3, 4)),
    "assign": (lambda a: paddle.assign(a) * 2, (3, 4)),
    "bmm": (lambda a, b: paddle.bmm(a, b), (3, 4, 5), (3, 5, 2)),
    "mv": (lambda a, b: paddle.mv(a, b), (4, 5), (5,)),
    "addmm": (lambda a, b, c: paddle.addmm(a, b, c, 0.5, 2.0), (4, 3), (4, 5), (5, 3)),
    "addmm with a row": (lambda a, b, c: paddle.addmm(a, b, c), (1, 3), (4, 5), (5, 3)),
    "dot": (lambda a, b: paddle.dot(a, b), (7,), (7,)),
    "dot of rows": (lambda a, b: paddle.dot(a, b), (3, 7), (3, 7)),
    "outer": (lambda a, b: paddle.outer(a, b), (3,), (4,)),
}


@pytest.mark.parametrize("name", MOVES)
def test_data_movement(rng, counted, name):
    program, *shapes = MOVES[name]
    assert_same(program, *(numbers(rng, *shape) for shape in shapes), grad=True)
    assert_on_device()


@pytest.mark.parametrize("name", ["concat", "stack", "tile", "transpose", "flip", "slice", "expand"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_data_movement_in_other_dtypes(rng, counted, name, dtype):
    program, *shapes = MOVES[name]
    assert_same(program, *(numbers(rng, *shape) for shape in shapes), dtype=dtype, grad=True)
    assert_on_device()


@pytest.mark.parametrize("name", ["concat", "split", "stack", "flip", "roll", "assign"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_data_movement_of_integers(rng, counted, name, dtype):
    program, *shapes = MOVES[name]
    if name == "assign":
        program = paddle.assign
    if dtype == "bool" and name == "roll":
        pytest.skip("Paddle has no such kernel")
    assert_same(program, *(rng.integers(0, 2 if dtype == "bool" else 99, shape).astype(dtype) for shape in shapes))
    assert_on_device()


def index(rng, high, *shape, dtype="int64"):
    return rng.integers(0, high, shape).astype(dtype)


def t(array):
    return paddle.to_tensor(array)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_reading_by_index(rng, counted, dtype):
    x = numbers(rng, 6, 5, 4)
    rows, columns = index(rng, 6, 9, dtype=dtype), index(rng, 5, 7, dtype=dtype)
    assert_same(lambda a: paddle.gather(a, t(rows)), x, grad=True)
    assert_same(lambda a: paddle.gather(a, t(columns), axis=1), x, grad=True)
    assert_same(lambda a: paddle.index_select(a, t(columns), axis=1), x, grad=True)
    pairs, few = np.stack([rows[:7], columns], -1), index(rng, 20, 6, 3, dtype=dtype)
    assert_same(lambda a: paddle.gather_nd(a, t(pairs)), x, grad=True)
    assert_same(lambda a: paddle.gather_nd(a, t(rows[:, None])), x, grad=True)
    assert_same(lambda a: paddle.index_sample(a, t(few)), x.reshape(6, 20), grad=True)
    along = index(rng, 5, 6, 3, 4, dtype="int64")
    assert_same(lambda a: paddle.take_along_axis(a, t(along), 1, broadcast=False), x, grad=True)
    assert_on_device()


def test_writing_by_index(rng, counted):
    x, rows = numbers(rng, 6, 5), index(rng, 6, 9)
    apart = rng.permutation(6)[:4].astype("int64")
    assert_same(lambda a, u: paddle.scatter(a, t(apart), u), x, numbers(rng, 4, 5), grad=True)
    assert_same(lambda a, u: paddle.scatter(a, t(rows), u, overwrite=False), x, numbers(rng, 9, 5))
    pairs = np.stack([rows, index(rng, 5, 9)], -1)
    assert_same(lambda a, u: paddle.scatter_nd_add(a, t(pairs), u), x, numbers(rng, 9), grad=True)
    assert_same(lambda a, u: paddle.index_add(a, t(rows), 0, u), x, numbers(rng, 9, 5), grad=True)
    order = np.argsort(rng.random((6, 5)), 1)[:, :3].astype("int64")
    assert_same(
        lambda a, u: paddle.put_along_axis(a, t(order), u, 1, broadcast=False), x, numbers(rng, 6, 3), grad=True
    )
    assert_same(
        lambda a, u: paddle.put_along_axis(a, t(order), u, 1, "add", broadcast=False), x, numbers(rng, 6, 3), grad=True
    )
    assert_same(lambda a, u: paddle.put_along_axis(a, t(order), u, 1, "mul", broadcast=False), x, numbers(rng, 6, 3))
    assert_same(lambda a, u: paddle.index_put(a, (t(apart), t(apart[::-1] % 5)), u), x, numbers(rng, 4), grad=True)
    assert_same(
        lambda a, u: paddle.index_put(a, (t(rows), t(pairs[:, 1])), u, accumulate=True), x, numbers(rng, 9), grad=True
    )
    assert_same(lambda a, u: paddle.index_put(a, (t(apart),), u), x, numbers(rng, 5), grad=True)
    assert_on_device()


def assigned(key, value):
    def program(a):
        b = a * 1
        b[key] = value
        return b

    return program


def test_assignment(rng, counted):
    x = numbers(rng, 4, 6)
    for key, value in ((0, 7.0), (slice(1, 3), 2.0), ((slice(None), slice(0, 6, 2)), -1.0), ((1, 2), 5.0)):
        assert_same(assigned(key, value), x, grad=True)
    row = numbers(rng, 6)
    for key in (0, slice(1, 3), (slice(None, None, 2),)):
        assert_same(lambda a, v, k=key: assigned(k, v)(a), x, row, grad=True)
    assert_on_device()


@pytest.mark.parametrize("steps", [1, 2, -1])
def test_assignment_by_the_kernel(rng, counted, steps):
    x = numbers(rng, 5, 6)
    starts, ends = ([1], [5]) if steps > 0 else ([4], [0])
    assert_same(lambda a: C.set_value(a, starts, ends, [steps], [0], [], [], [1], [3.5]), x)
    assert_same(
        lambda a, v: C.set_value_with_tensor(a, v, starts, ends, [steps], [0], [], []), x, numbers(rng, 6), grad=True
    )
    assert_same(lambda a, v: C.set_value_with_tensor(a, v, [2], [3], [1], [0], [0], []), x, numbers(rng, 6), grad=True)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_selection(rng, counted, dtype):
    x = rng.integers(0, 2 if dtype == "bool" else 4, (5, 6, 7)).astype(dtype)
    mask = rng.random((5, 6, 7)) < 0.4
    assert_same(paddle.nonzero, x)
    assert_same(paddle.masked_select, x, mask)
    assert_same(lambda a: a[t(mask)], x)
    assert_same(lambda a: paddle.masked_select(a, t(np.zeros_like(mask))), x)
    assert_on_device()


def test_gradients_of_selection(rng, counted):
    x, mask = numbers(rng, 5, 6), rng.random((5, 6)) < 0.4
    mask[0, 0] = True
    assert_same(lambda a: paddle.masked_select(a, t(mask)), x, grad=True)
    assert_same(lambda a: paddle.masked_select(a, t(mask[:1])), x)
    assert_same(lambda a: C.masked_fill(a, t(mask), t(np.float32(2.5))), x, grad=True)
    # Paddle's CPU kernel gives a scalar value no gradient.
    value = paddle.to_tensor(np.float32(0.5), stop_gradient=False)
    C.masked_fill(t(x), t(mask), value).sum().backward()
    assert float(value.grad) == mask.sum()
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_unique(rng, counted, dtype):
    x = rng.integers(0, 9, (5, 8)).astype(dtype)
    assert_same(paddle.unique, x)
    assert_same(lambda a: paddle.unique(a, return_inverse=True, return_counts=True), x)
    assert_on_device()


MADE = {
    "arange": lambda d: paddle.arange(2, 17, 3, d),
    "down": lambda d: paddle.arange(9, -2, -2, d),
    "nothing": lambda d: paddle.arange(3, 3, 1, d),
    "eye": lambda d: paddle.eye(4, 6, dtype=d),
    "full": lambda d: paddle.full([2, 3], 5, d),
    "full_like": lambda d: paddle.full_like(paddle.zeros([2, 2], d), 4),
    "zeros_like": lambda d: paddle.zeros_like(paddle.ones([2, 2], d)),
    "values": lambda d: C.assign_value_(
        paddle.zeros([2, 2], d), [2, 2], getattr(paddle, d), [1, 2, 3, 4], paddle.framework._current_expected_place()
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", MADE)
def test_creation(counted, name, dtype):
    assert_same(lambda: MADE[name](dtype))
    assert_on_device()


def test_more_creation(counted):
    assert_same(lambda: paddle.linspace(-1.5, 4.0, 13))
    assert_same(lambda: paddle.linspace(3.0, 1.0, 7, "float64"))
    assert_same(lambda: paddle.linspace(3.0, 1.0, 1))
    assert_same(lambda: paddle.arange(0.0, 1.0, 0.1))
    assert_same(lambda: paddle.tril_indices(4, 5, -1))
    assert_same(lambda: paddle.triu_indices(5, 4, 1))
    assert_on_device()


def test_repeats(rng, counted):
    for axis in (0, 1, -1):
        assert_same(lambda a, d=axis: paddle.repeat_interleave(a, 3, d), numbers(rng, 2, 3, 4), grad=True)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_masks_of_sequences(counted, dtype):
    for lengths in (np.array([3, 0, 5, 9]), np.array([[1], [4]], "int32")):
        assert_same(lambda x: F.sequence_mask(x, 6, dtype), lengths)
    assert_on_device()
    assert_same(lambda x: F.sequence_mask(x, dtype=dtype), np.array([3, 0, 5]))


def test_empty_tensors(rng):
    for program in (lambda a: paddle.concat([a, a]), lambda a: paddle.flip(a, [0]), lambda a: a.transpose([1, 0]) * 1):
        assert_same(program, numbers(rng, 0, 3))
    assert_same(lambda a: paddle.gather(a, t(np.zeros(0, "int64"))), numbers(rng, 4, 3))
    assert_same(lambda a: paddle.expand(a, [2, 0, 3]), numbers(rng, 0, 3))


# Empty tensors have no memory. Shapes: of the tensor.
EMPTY = {
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "pad": lambda x: F.pad(x, [1, 1] * x.ndim, value=2.5),
    "one_hot": lambda x: F.one_hot(x.astype("int64"), 4),
    "linear": lambda x: x @ paddle.ones([x.shape[-1], 3]),
    "product over nothing": lambda x: x.t() @ x,
    "sum": lambda x: x.sum(-1),
    "prod": lambda x: x.prod(0),
    "where": lambda x: paddle.where(x > 0, x, -x),
    "take_along_axis": lambda x: paddle.take_along_axis(x, paddle.zeros_like(x, dtype="int64"), 0),
    "tile": lambda x: paddle.tile(x, [2, 2]),
    "stack": lambda x: paddle.stack([x, x]),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(-1),
    "roll": lambda x: x.roll(1, 0),
    "index_select": lambda x: paddle.index_select(paddle.ones([2, 3]), x.flatten().astype("int64")),
    "full_like": lambda x: paddle.full_like(x, 2.5),
}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("name", EMPTY)
def test_operators_on_empty_tensors(name, shape):
    assert_same(EMPTY[name], np.zeros(shape, "float32"))


@pytest.mark.parametrize("function", [F.softmax, lambda x: F.pad(x, [1, 1, 1, 1]), lambda x: x.t() @ x])
def test_gradients_of_empty_tensors(function):
    x = paddle.zeros([0, 3])
    x.stop_gradient = False
    function(x).sum().backward()
    assert x.grad.shape == [0, 3]


REARRANGED = {
    "crop": lambda x: paddle.crop(x, [2, 3, -1], [1, 0, 2]),
    "crop to a tensor's shape": lambda x: paddle.crop(x, paddle.to_tensor([2, 3, 4], dtype="int32"), [0, 2, 1]),
    "fill_diagonal_": lambda x: (x[0] + 0).fill_diagonal_(2.5),
    "fill_diagonal_ above": lambda x: (x[0] + 0).fill_diagonal_(2.5, 2),
    "fill_diagonal_ below": lambda x: (x[0] + 0).T.contiguous().fill_diagonal_(2.5, -1),
    "channel_shuffle": lambda x: F.channel_shuffle(x.reshape([2, 6, 2, 5]), 3),
    "channel_shuffle of NHWC": lambda x: F.channel_shuffle(x.reshape([2, 5, 2, 6]), 2, "NHWC"),
}


@pytest.mark.parametrize("name", REARRANGED)
def test_windows_diagonals_and_channels(rng, counted, name):
    assert_same(REARRANGED[name], numbers(rng, 4, 5, 6), grad=True)
    assert_on_device()


def test_equal_all(rng, counted):
    x = numbers(rng, 4, 5)
    other = x.copy()
    other[3, 4] += 1
    for y, expected in ((x, True), (other, False), (x[:3], False)):
        found = paddle.equal_all(paddle.to_tensor(x), paddle.to_tensor(y))
        assert found.shape == []
        assert found.item() is expected
    assert_on_device()
