"""Tensor indices, mixed with slices and numbers."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from comparison import assert_on_device, assert_same, numbers

ROWS, COLUMNS = np.array([0, 2]), np.array([1, -1])
WHERE = {
    "[i]": lambda i, j: i,
    "[i] twice": lambda i, j: paddle.concat([i, i]),
    "[:, i]": lambda i, j: (slice(None), i),
    "[i, j]": lambda i, j: (i, j),
    "[i, :, j]": lambda i, j: (i, slice(None), j),
    "[:, i, j]": lambda i, j: (slice(None), i, j),
    "[1:, i]": lambda i, j: (slice(1, None), i),
    "[:, i, 1]": lambda i, j: (slice(None), i, 1),
    "[1, i]": lambda i, j: (1, i),
    "[..., i]": lambda i, j: (Ellipsis, i),
    "a matrix": lambda i, j: paddle.stack([i, j]),
    "a column and a row": lambda i, j: (i.unsqueeze(1), j),
    "one": lambda i, j: i[:1],
    "a list": lambda i, j: [2, 0],
}


@pytest.mark.parametrize("name", WHERE)
def test_reading(rng, counted, name):
    def read(x):
        return x[WHERE[name](paddle.to_tensor(ROWS), paddle.to_tensor(COLUMNS))]

    assert_same(read, *numbers(rng, (3, 4, 5)), grad=True)
    assert_same(read, rng.integers(0, 99, (3, 4, 5)))
    assert_on_device()


@pytest.mark.parametrize("name", WHERE)
def test_writing(rng, counted, name):
    def write(x, value):
        x = x.clone()
        x[WHERE[name](paddle.to_tensor(ROWS), paddle.to_tensor(COLUMNS))] = value
        return x

    (x,) = numbers(rng, (3, 4, 5))
    assert_same(lambda x: write(x, 7.5), x)
    assert_same(lambda x: write(x, paddle.to_tensor([2.5])), x)
    assert_on_device()


def test_writing_rows(rng, counted):
    x, rows = numbers(rng, (3, 4, 5), (2, 4, 5))

    def write(x, rows):
        x = x.clone()
        x[paddle.to_tensor(ROWS)] = rows
        return x

    assert_same(write, x, rows)
    assert_on_device()


@pytest.mark.parametrize("at", [(slice(None), ROWS, slice(1, 1)), (slice(2, 2), COLUMNS), (slice(1, 1), None, ROWS)])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_writing_to_nothing(rng, at, as_tensor):
    def write(x):
        x = x.clone()
        where = tuple(paddle.to_tensor(index) if isinstance(index, np.ndarray) else index for index in at)
        x[where] = paddle.to_tensor(2.5) if as_tensor else 2.5
        return x

    assert_same(write, *numbers(rng, (3, 4, 5)), grad=True)


VIEWS = {
    "gaps": lambda x: x[:, 1:3],
    "transposed": lambda x: x.transpose([1, 0, 2]) if isinstance(x, paddle.Tensor) else x.transpose(1, 0, 2),
    "every second": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_noncontiguous_views(rng, view):
    """As in NumPy, memory between a view's elements is untouched. Paddle's CPU kernels write to wrong addresses."""
    for where in (lambda i, j: i, lambda i, j: (i, j)):
        (given,) = numbers(rng, (3, 4, 5))
        x, expected = paddle.to_tensor(given), given.copy()
        rows, columns = np.array([0, 1]), np.array([1, -1])
        at = where(paddle.to_tensor(rows), paddle.to_tensor(columns))
        np.testing.assert_array_equal(view(x)[at].numpy(), view(given)[where(rows, columns)])
        view(x)[at] = 0.0
        view(expected)[where(rows, columns)] = 0.0
        np.testing.assert_array_equal(x.numpy(), expected)


def test_indices_out_of_range_are_rejected(rng):
    (given,) = numbers(rng, (3, 4, 5))
    x = paddle.to_tensor(given)
    with pytest.raises(Exception, match="index a contiguous copy of it"):
        x[:, 1:3][paddle.to_tensor(ROWS), 1:] = 0.0
    np.testing.assert_array_equal(x.numpy(), given)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_counts_negative_indices_and_axes_from_the_end(seed, axis, dtype):
    (x,) = numbers(np.random.default_rng(seed), (4, 5, 6))
    index = np.array([0, -1, 2, -3])

    def gathered(t):
        return paddle.gather(t, paddle.to_tensor(index), axis=axis)

    expected = np.take(x, index, axis)
    paddle.set_device("sim:0")
    t = paddle.to_tensor(x).astype(dtype)
    t.stop_gradient = False
    out = gathered(t)
    bound = 1e-6 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(out.astype("float32").numpy(), expected, rtol=bound)
    out.sum().backward()
    counts = np.zeros(x.shape[axis], "float32")
    np.add.at(counts, index, 1)
    shape = [1, 1, 1]
    shape[axis] = -1
    np.testing.assert_array_equal(t.grad.astype("float32").numpy(), np.broadcast_to(counts.reshape(shape), x.shape))


BELOW = np.array([-1, 0, -5, 2, -1])
ALONG = np.array([[-1, 0, 2, -2], [1, -5, -3, 0]])
#: x and y are 5 x 4. Negative indices count from the end, as on Paddle's CPU.
NEGATIVE = {
    "gather": lambda x, y: paddle.gather(x, paddle.to_tensor(BELOW)),
    "index_select": lambda x, y: paddle.index_select(x, paddle.to_tensor(BELOW)),
    "index_add": lambda x, y: paddle.index_add(x, paddle.to_tensor(BELOW), 0, y),
    "scatter": lambda x, y: paddle.scatter(x, paddle.to_tensor(BELOW[1:]), y[1:]),
    "scatter added": lambda x, y: paddle.scatter(x, paddle.to_tensor(BELOW), y, overwrite=False),
    "take_along_axis": lambda x, y: paddle.take_along_axis(x, paddle.to_tensor(ALONG), 0, broadcast=False),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_negative_indices(rng, counted, name):
    assert_same(NEGATIVE[name], *numbers(rng, (5, 4), (5, 4)), grad=True)
    assert_on_device()


@pytest.mark.parametrize("reduce", ["assign", "add"])
def test_put_along_axis_with_negative_indices(rng, counted, reduce):
    """Paddle's CPU reads outside of the tensor in the gradient."""
    values = numbers(rng, (5, 4), (2, 4))
    x, y = (paddle.to_tensor(value, stop_gradient=False) for value in values)
    out = paddle.put_along_axis(x, paddle.to_tensor(ALONG), y, 0, reduce=reduce, broadcast=False)
    weight = numbers(rng, (5, 4))[0]
    (out * paddle.to_tensor(weight)).sum().backward()
    columns = np.arange(4)
    expected, left = values[0].copy(), weight.copy()
    if reduce == "assign":
        expected[ALONG, columns] = values[1]
        left[ALONG, columns] = 0
    else:
        np.add.at(expected, (ALONG, columns), values[1])
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), left)
    np.testing.assert_array_equal(y.grad.numpy(), weight[ALONG, columns])
    assert_on_device()


def test_a_value_that_cannot_be_broadcast_is_refused():
    x, value, rows = paddle.zeros([4, 5, 4]), paddle.ones([3]), paddle.to_tensor([0, 1])
    with pytest.raises(ValueError, match="broadcast"):
        paddle.index_put(x, (rows,), value)
    assert float(x.sum()) == 0
    # Shapes are not checked when the program is built.
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            x = paddle.static.data("x", [4, 5, 4], "float32")
            y = paddle.static.setitem(x, [[0, 1], [2, 3]], paddle.static.data("value", [3], "float32"))
            feed = {"x": np.zeros([4, 5, 4], "float32"), "value": np.ones(3, "float32")}
            executor = paddle.static.Executor(paddle.CustomPlace("sim", 0))
            with pytest.raises(ValueError, match="broadcast"):
                executor.run(feed=feed, fetch_list=[y])
    finally:
        paddle.disable_static()
