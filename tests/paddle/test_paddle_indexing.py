"""Tensors as indices, beside slices and numbers."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from both import numbers, same, served_by_the_device

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

    same(read, *numbers(rng, (3, 4, 5)), grad=True)
    same(read, rng.integers(0, 99, (3, 4, 5)))
    served_by_the_device()


@pytest.mark.parametrize("name", WHERE)
def test_writing(rng, counted, name):
    def write(x, value):
        x = x.clone()
        x[WHERE[name](paddle.to_tensor(ROWS), paddle.to_tensor(COLUMNS))] = value
        return x

    (x,) = numbers(rng, (3, 4, 5))
    same(lambda x: write(x, 7.5), x)
    same(lambda x: write(x, paddle.to_tensor([2.5])), x)
    served_by_the_device()


def test_writing_rows(rng, counted):
    x, rows = numbers(rng, (3, 4, 5), (2, 4, 5))

    def write(x, rows):
        x = x.clone()
        x[paddle.to_tensor(ROWS)] = rows
        return x

    same(write, x, rows)
    served_by_the_device()


VIEWS = {
    "gaps": lambda x: x[:, 1:3],
    "transposed": lambda x: x.transpose([1, 0, 2]) if isinstance(x, paddle.Tensor) else x.transpose(1, 0, 2),
    "every second": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_that_are_not_contiguous(rng, view):
    """As in NumPy: what lies between the elements of a view stays. Paddle's own CPU kernels write elsewhere."""
    for where in (lambda i, j: i, lambda i, j: (i, j)):
        (given,) = numbers(rng, (3, 4, 5))
        x, expected = paddle.to_tensor(given), given.copy()
        rows, columns = np.array([0, 1]), np.array([1, -1])
        at = where(paddle.to_tensor(rows), paddle.to_tensor(columns))
        np.testing.assert_array_equal(view(x)[at].numpy(), view(given)[where(rows, columns)])
        view(x)[at] = 0.0
        view(expected)[where(rows, columns)] = 0.0
        np.testing.assert_array_equal(x.numpy(), expected)


def test_places_outside_of_a_tensor_are_refused(rng):
    (given,) = numbers(rng, (3, 4, 5))
    x = paddle.to_tensor(given)
    with pytest.raises(Exception, match="index a contiguous copy of the view"):
        x[:, 1:3][paddle.to_tensor(ROWS), 1:] = 0.0
    np.testing.assert_array_equal(x.numpy(), given)
