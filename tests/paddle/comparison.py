"""Run a function on the CPU and on the device, and compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

import hardpoint

#: Relative to the largest element, since the summation order differs.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def arrays(result: Any) -> list[np.ndarray]:
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in arrays(part)]
    if result.dtype == paddle.bfloat16:
        result = result.astype("float32")
    return [result.numpy()]


def numbers(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Random numbers with a nonzero mean."""
    return [np.asarray(rng.standard_normal(shape) + 0.1, "float32") for shape in shapes]


def run(function: Callable[..., Any], inputs: list[np.ndarray], device: str, dtype: str | None, grad: bool) -> Any:
    paddle.set_device(device)
    tensors = []
    for given in inputs:
        tensor = paddle.to_tensor(given)
        if dtype is not None and np.issubdtype(given.dtype, np.floating):
            tensor = tensor.astype(dtype)
        tensor.stop_gradient = not (grad and np.issubdtype(given.dtype, np.floating))
        tensors.append(tensor)
    result = function(*tensors)
    found = arrays(result)
    if grad:
        first = result[0] if isinstance(result, (tuple, list)) else result
        # A different gradient for each element.
        weight = np.linspace(0.5, 1.5, found[0].size).reshape(found[0].shape).astype("float32")
        (first * paddle.to_tensor(weight).astype(first.dtype)).sum().backward()
        found += [array for t in tensors if t.grad is not None for array in arrays(t.grad)]
    return found


def assert_same(
    function: Callable[..., Any],
    *inputs: np.ndarray,
    dtype: str | None = None,
    grad: bool = False,
    tolerance: float | None = None,
) -> list[np.ndarray]:
    """Compare results and gradients on the device with the CPU; returns those of the device."""
    # The CPU lacks kernels for 16-bit floats: the reference is computed in float32 from the rounded inputs.
    narrow = dtype in ("float16", "bfloat16")
    if narrow:
        paddle.set_device("cpu")
        inputs = tuple(
            paddle.to_tensor(x).astype(dtype).astype("float32").numpy() if x.dtype == np.float32 else x for x in inputs
        )
    expected = run(function, list(inputs), "cpu", "float32" if narrow else dtype, grad)
    found = run(function, list(inputs), "sim:0", dtype, grad)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        if not narrow:
            assert f.dtype == e.dtype
        if f.dtype.kind not in "fc":
            np.testing.assert_array_equal(f, e)
            continue
        bound = TOLERANCE[dtype or str(e.real.dtype)] if tolerance is None else tolerance
        # Terms of a sum may cancel, so errors are relative to the largest input too.
        scale = [e, *(x for x in inputs if x.dtype.kind == "f" and x.size > e.size)]
        largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in scale)
        np.testing.assert_allclose(f.astype(e.dtype), e, rtol=bound, atol=bound * largest)
    return found


def assert_on_device() -> None:
    """Assert that nothing ran on the CPU since the counters were reset."""
    assert {name: tiers for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}
