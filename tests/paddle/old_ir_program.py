"""Static graphs in Paddle's old representation, on the CPU and on the device. Prints one JSON object per case.

In this representation many operators infer shapes but no dtypes. Run in a process of its own: Paddle chooses the
representation when it is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["HARDPOINT_DEVICE"] = sys.argv[1]
os.environ.update(FLAGS_enable_pir_api="0", FLAGS_enable_pir_in_executor="0", GLOG_minloglevel="2")

import numpy as np
import paddle
import paddle.nn.functional as F

import hardpoint

FLOATS, NARROW = ("float64", "float32"), ("float16", "bfloat16")
REALS = (*FLOATS, *NARROW)
INTEGERS = ("int32", "int64")
COMPLEX = ("complex64", "complex128")
#: Relative to the largest element. Paddle's CPU computes some float64 and complex128 operators through float32. The
#: reference of a 16-bit float is computed in float32 from the same numbers.
TOLERANCE = {"float64": 1e-7, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2, "complex64": 2e-5, "complex128": 1e-6}

Function = Callable[..., Any]


def first(function: Function) -> Function:
    return lambda *inputs: function(*inputs)[0]


def op(kind: str, *inputs: Any, out: Any = None, slots: str = "X Y", **attributes: Any) -> Any:
    """An operator that Paddle's functions no longer build in this representation."""
    helper = paddle.base.layer_helper.LayerHelper(kind)
    result = helper.create_variable_for_type_inference(out or inputs[0].dtype)
    named = {slot: [tensor] for slot, tensor in zip(slots.split(), inputs, strict=False)}
    helper.append_op(type=kind, inputs=named, outputs={"Out": [result]}, attrs=attributes)
    return result


CONDITION = np.arange(12).reshape(3, 4) % 3 == 0
INDEX = np.array([2, 0, 1])
#: Name: dtypes, function of two tensors of 3 x 4.
CASES: dict[str, tuple[tuple[str, ...], Function]] = {
    "add": ((*REALS, *INTEGERS, *COMPLEX), lambda x, y: x + y),
    "subtract": ((*REALS, *INTEGERS, *COMPLEX), lambda x, y: x - y),
    "multiply": ((*REALS, *INTEGERS, *COMPLEX), lambda x, y: x * y),
    "divide": ((*REALS, *COMPLEX), lambda x, y: x / y),
    "pow": (REALS, lambda x, y: paddle.pow(x, y)),
    "pow_scalar": (REALS, lambda x, y: x**2.0),
    "maximum": ((*REALS, *INTEGERS), lambda x, y: op("elementwise_max", x, y)),
    "fmin": (FLOATS, lambda x, y: paddle.fmin(x, y)),
    "mod": (INTEGERS, lambda x, y: x % y),
    "floor_divide": (INTEGERS, lambda x, y: x // y),
    "less_than": ((*REALS, *INTEGERS), lambda x, y: x < y),
    "equal": ((*FLOATS, *INTEGERS), lambda x, y: paddle.equal(x, y)),
    "logical_and": ((*FLOATS, *INTEGERS), lambda x, y: op("logical_and", x, y, out="bool")),
    "scale": ((*REALS, *INTEGERS), lambda x, y: paddle.scale(x, 2.0, 1.0)),
    "cast": ((*REALS, *INTEGERS), lambda x, y: x.astype("float64") + y.astype("float64")),
    "broadcast": (REALS, lambda x, y: x + y[0]),
    "axis_add": ((*REALS, *INTEGERS, *COMPLEX), lambda x, y: op("elementwise_add", x, y[:, 0], axis=0)),
    "axis_subtract": (FLOATS, lambda x, y: op("elementwise_sub", x, y[:, 0:1], axis=0)),
    "axis_multiply": (FLOATS, lambda x, y: op("elementwise_mul", x.reshape([3, 2, 2]), y[0, :2], axis=1)),
    "axis_divide": (FLOATS, lambda x, y: op("elementwise_div", x, y[:, 0], axis=0)),
    "axis_floor_divide": (INTEGERS, lambda x, y: op("elementwise_floordiv", x, y[:, 0] + 1, axis=0)),
    "axis_mod": (INTEGERS, lambda x, y: op("elementwise_mod", x, y[:, 0] + 1, axis=0)),
    "axis_pow": (FLOATS, lambda x, y: op("elementwise_pow", x, y, axis=0)),
    "axis_maximum": (FLOATS, lambda x, y: op("elementwise_max", x, y, axis=0)),
    "axis_minimum": (FLOATS, lambda x, y: op("elementwise_min", x, y, axis=0)),
    "axis_less_than": (FLOATS, lambda x, y: op("less_than", x, y, out="bool", axis=0)),
    "where": ((*REALS, *INTEGERS), lambda x, y: paddle.where(paddle.assign(CONDITION), x, y)),
    "argsort": (FLOATS, lambda x, y: paddle.sort(x, 1)),
    "sort_order": (FLOATS, lambda x, y: paddle.argsort(x, 1)),
    "topk": (FLOATS, first(lambda x, y: paddle.topk(x, 2))),
    "argmax": ((*FLOATS, *INTEGERS), lambda x, y: op("arg_max", x, out="int64", axis=1, dtype=3)),
    "max": (FLOATS, lambda x, y: paddle.max(x, 1)),
    "sum": ((*REALS, *INTEGERS), lambda x, y: op("reduce_sum", x, dim=[1])),
    "mean": (REALS, lambda x, y: paddle.mean(x, 1)),
    "prod": (FLOATS, lambda x, y: paddle.prod(x, 1)),
    "logsumexp": (FLOATS, lambda x, y: op("logsumexp", x, axis=[1])),
    "norm": (FLOATS, lambda x, y: paddle.norm(x, 2, 1)),
    "cumsum": ((*FLOATS, *INTEGERS), lambda x, y: paddle.cumsum(x, 1)),
    "matmul": (REALS, lambda x, y: op("matmul_v2", x, y, trans_y=True)),
    "concat": ((*REALS, *INTEGERS), lambda x, y: paddle.concat([x, y], 1)),
    "stack": (REALS, lambda x, y: paddle.stack([x, y], 1)),
    "split": (REALS, first(lambda x, y: paddle.split(x, 2, 1))),
    "slice": ((*REALS, *INTEGERS), lambda x, y: x[1:, ::2]),
    "gather": (REALS, lambda x, y: paddle.gather(x, paddle.assign(INDEX))),
    "index_select": (FLOATS, lambda x, y: paddle.index_select(x, paddle.assign(INDEX), 1)),
    "gather_nd": (FLOATS, lambda x, y: paddle.gather_nd(x, paddle.assign(INDEX[:2].reshape(1, 2)))),
    "scatter": (FLOATS, lambda x, y: paddle.scatter(x, paddle.assign(INDEX), y)),
    "transpose": (REALS, lambda x, y: paddle.transpose(x, [1, 0])),
    "reshape": (REALS, lambda x, y: paddle.reshape(x, [2, 6])),
    "expand": (REALS, lambda x, y: paddle.expand(x, [2, 3, 4])),
    "tile": (REALS, lambda x, y: paddle.tile(x, [2, 1])),
    "flip": (FLOATS, lambda x, y: paddle.flip(x, [1])),
    "roll": (FLOATS, lambda x, y: op("roll", x, shifts=[1], axis=[1])),
    "pad": (FLOATS, lambda x, y: F.pad(x, [1, 1, 0, 2], value=0.5)),
    "tril": (FLOATS, lambda x, y: op("tril_triu", x, diagonal=0, lower=True)),
    "erf": (REALS, lambda x, y: paddle.erf(x)),
    "relu": (REALS, lambda x, y: F.relu(x - 1)),
    "gelu": (REALS, lambda x, y: op("gelu", x)),
    "sigmoid": ((*REALS, *COMPLEX), lambda x, y: op("sigmoid", x)),
    "tanh": ((*REALS, *COMPLEX), lambda x, y: op("tanh", x)),
    "silu": ((*REALS, *COMPLEX), lambda x, y: F.silu(x)),
    "exp": ((*REALS, *COMPLEX), lambda x, y: op("exp", x)),
    "log": ((*REALS, *COMPLEX), lambda x, y: op("log", x)),
    "sqrt": (REALS, lambda x, y: op("sqrt", x)),
    "abs": (REALS, lambda x, y: op("abs", x)),
    "square": (("float16", *FLOATS, *COMPLEX), lambda x, y: paddle.square(x)),
    "reciprocal": (FLOATS, lambda x, y: paddle.reciprocal(x)),
    "softplus": (FLOATS, lambda x, y: op("softplus", x)),
    "leaky_relu": (REALS, lambda x, y: F.leaky_relu(x - 1)),
    "clip": ((*REALS, *INTEGERS), lambda x, y: paddle.clip(x, 1, 2)),
    "softmax": (REALS, lambda x, y: F.softmax(x)),
    "log_softmax": (REALS, lambda x, y: F.log_softmax(x)),
    "layer_norm": (REALS, lambda x, y: F.layer_norm(x, [4], y[0], y[1])),
    "cross_entropy": (FLOATS, lambda x, y: F.cross_entropy(x, paddle.assign(INDEX), reduction="none")),
    "mse_loss": (FLOATS, lambda x, y: F.mse_loss(x, y)),
    "smooth_l1": (FLOATS, lambda x, y: F.smooth_l1_loss(x, y)),
    "bce_logits": (FLOATS, lambda x, y: F.binary_cross_entropy_with_logits(x, y)),
    "kl_div": (FLOATS, lambda x, y: F.kl_div(x, y)),
    "dropout": (FLOATS, lambda x, y: F.dropout(x, 0.5, training=False, mode="downscale_in_infer")),
    "dropout_ones": (FLOATS, lambda x, y: F.dropout(x, 0.0)),
    "interpolate": (
        FLOATS,
        lambda x, y: F.interpolate(x.reshape([1, 1, 3, 4]), size=[6, 5], mode="bilinear", align_corners=False),
    ),
    "interpolate_corners": (
        FLOATS,
        lambda x, y: F.interpolate(x.reshape([1, 1, 3, 4]), size=[2, 3], mode="bilinear", align_corners=True),
    ),
    "nearest": (FLOATS, lambda x, y: F.interpolate(x.reshape([1, 1, 3, 4]), size=[6, 8])),
    "max_pool": (FLOATS, lambda x, y: F.max_pool2d(x.reshape([1, 1, 3, 4]), 2, 1)),
    "avg_pool": (FLOATS, lambda x, y: F.avg_pool2d(x.reshape([1, 1, 3, 4]), 2, 1)),
    "conv2d": (FLOATS, lambda x, y: F.conv2d(x.reshape([1, 1, 3, 4]), y[:2, :2].reshape([1, 1, 2, 2]))),
    "full_like": ((*REALS, *INTEGERS), lambda x, y: paddle.full_like(x, 2) + x),
    "one_hot": (("int64",), lambda x, y: F.one_hot(x, 10)),
    "shape": (FLOATS, lambda x, y: paddle.shape(x)),
    "cumprod": (FLOATS, lambda x, y: paddle.cumprod(x, 1)),
    "real": (COMPLEX, lambda x, y: paddle.real(x)),
    "conj": (COMPLEX, lambda x, y: paddle.conj(x)),
}


def compute(function: Function, inputs: list[np.ndarray], dtype: str, place: Any) -> list[np.ndarray]:
    """The result and the inputs' gradients, as float32 if they are bfloat16, and their dtypes."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(program, startup):
        fed = [paddle.static.data(f"x{i}", list(x.shape), str(x.dtype)) for i, x in enumerate(inputs)]
        variables = [x if str(i.dtype) == dtype else x.astype(dtype) for x, i in zip(fed, inputs, strict=True)]
        for variable in variables:
            variable.stop_gradient = dtype in INTEGERS
        out = function(*variables)
        fetched = [out]
        if dtype not in INTEGERS and out.dtype not in (paddle.bool, paddle.int32, paddle.int64):
            # A different gradient for each element.
            weight = paddle.assign(np.linspace(0.5, 1.5, 48).astype("float32"))
            weight = weight[: int(np.prod(out.shape))].reshape(out.shape).astype(out.dtype)
            found = paddle.static.gradients([out], variables, [weight])
            fetched += [gradient for gradient in found if gradient is not None]
        executor = paddle.static.Executor(place)
        executor.run(startup)
        tensors = executor.run(
            program, feed={f"x{i}": x for i, x in enumerate(inputs)}, fetch_list=fetched, return_numpy=False
        )
    return [decode(tensor) for tensor in tensors]


def decode(tensor: Any) -> np.ndarray:
    array = np.array(tensor)
    if array.dtype == np.uint16:  # bfloat16
        return (array.astype("uint32") << 16).view("float32")
    return array


def difference(name: str, dtype: str, device: str) -> str:
    """How the device differs from the CPU; empty if it does not."""
    function = CASES[name][1]
    rng = np.random.RandomState(7)
    inputs = [rng.uniform(0.5, 3.0, (3, 4)) for _ in range(2)]
    if dtype in INTEGERS:
        inputs = [np.floor(x * 3).astype(dtype) for x in inputs]
    elif dtype in COMPLEX:
        inputs = [(x + 0.5j * x[::-1]).astype(dtype) for x in inputs]
    elif dtype in NARROW:
        inputs = [(np.round(x * 16) / 16).astype("float32") for x in inputs]  # exact in 8 bits
    else:
        inputs = [x.astype(dtype) for x in inputs]
    expected = compute(function, inputs, "float32" if dtype in NARROW else dtype, paddle.CPUPlace())
    found = compute(function, inputs, dtype, paddle.CustomPlace(device, 0))
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for i, (f, e) in enumerate(zip(found, expected, strict=True)):
        narrow = dtype in NARROW and e.dtype == np.float32
        wanted = np.dtype("float16") if narrow and dtype == "float16" else e.dtype
        if f.dtype != wanted or f.shape != e.shape:
            return f"result {i} is {f.dtype} {f.shape}, expected {wanted} {e.shape}"
        if f.dtype.kind in "biu":
            if not (f == e).all():
                return f"result {i} is {f.tolist()}, expected {e.tolist()}"
            continue
        bound = TOLERANCE.get(dtype, 0)
        error = float(np.abs(f.astype(e.dtype) - e).max() / max(float(np.abs(e).max()), 1e-3))
        if not error <= bound:
            return f"result {i} differs by {error:.3g}: {f.ravel()[:4]}, expected {e.ravel()[:4]}"
    return ""


def main(device: str) -> None:
    paddle.enable_static()
    for name, (dtypes, _) in CASES.items():
        for dtype in dtypes:
            try:
                found = difference(name, dtype, device)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"[-600:]
            print(json.dumps({"case": f"{name}-{dtype}", "difference": found}), flush=True)
    print("on the CPU:", json.dumps([name for name, tiers in hardpoint.counters().items() if "cpu" in tiers]))


if __name__ == "__main__":
    main(sys.argv[1])
