"""Optimizers: ten steps equal the CPU's, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import optimizer as optim

import hardpoint

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(0.1, parameters=p),
    "sgd with decay": lambda p: optim.SGD(0.1, parameters=p, weight_decay=0.01),
    "momentum": lambda p: optim.Momentum(0.1, 0.9, parameters=p),
    "nesterov": lambda p: optim.Momentum(0.1, 0.9, parameters=p, use_nesterov=True, weight_decay=0.01),
    "merged momentum": lambda p: optim.Momentum(0.1, 0.9, parameters=p, use_multi_tensor=True),
    "adam": lambda p: optim.Adam(0.05, parameters=p),
    "merged adam": lambda p: optim.Adam(0.05, parameters=p, use_multi_tensor=True),
    "amsgrad": lambda p: optim.Adam(0.05, parameters=p, amsgrad=True),
    "adamw": lambda p: optim.AdamW(0.05, parameters=p, weight_decay=0.1),
    "adamw with exceptions": lambda p: optim.AdamW(
        0.05, parameters=p, weight_decay=0.1, apply_decay_param_fun=lambda n: False
    ),
    "adagrad": lambda p: optim.Adagrad(0.1, parameters=p),
    "adadelta": lambda p: optim.Adadelta(0.5, parameters=p, rho=0.9),
    "adamax": lambda p: optim.Adamax(0.05, parameters=p),
    "rmsprop": lambda p: optim.RMSProp(0.05, parameters=p),
    "rmsprop centered": lambda p: optim.RMSProp(0.05, parameters=p, centered=True, momentum=0.9),
    "lamb": lambda p: optim.Lamb(0.05, parameters=p),
    "lamb without decay": lambda p: optim.Lamb(0.05, 0.0, parameters=p, always_adapt=True),
    "nadam": lambda p: optim.NAdam(0.05, parameters=p),
    "radam": lambda p: optim.RAdam(0.05, parameters=p),
    "asgd": lambda p: optim.ASGD(0.05, batch_num=3, parameters=p),
    "rprop": lambda p: optim.Rprop(0.05, parameters=p),
}
CLIPS = {
    "global norm": lambda: paddle.nn.ClipGradByGlobalNorm(0.5),
    "norm": lambda: paddle.nn.ClipGradByNorm(0.5),
    "value": lambda: paddle.nn.ClipGradByValue(0.3),
}
SHAPES = ((3, 4), (7,), (1,), (200, 130))


def steps(make, start, grads, device, dtype="float32"):
    """Parameters after one step with each gradient."""
    paddle.set_device(device)
    parameters = []
    for value in start:
        parameter = paddle.create_parameter(list(value.shape), dtype)
        parameter.set_value(paddle.to_tensor(value).astype(dtype))
        parameters.append(parameter)
    optimizer = make(parameters)
    for each in grads:
        for parameter, grad in zip(parameters, each, strict=True):
            (parameter * paddle.to_tensor(grad).astype(dtype)).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    return [p.astype("float32").numpy() if dtype == "float16" else p.numpy() for p in parameters]


def compare(rng, make, dtype="float32", tolerance=1e-5):
    start = [rng.standard_normal(shape) for shape in SHAPES]
    grads = [[rng.standard_normal(shape) for shape in SHAPES] for _ in range(10)]
    expected = steps(make, start, grads, "cpu", dtype)
    hardpoint.reset_counters()
    found = steps(make, start, grads, "sim:0", dtype)
    assert {name: tiers for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}
    # A parameter with one element may barely move.
    assert max(np.abs(e - s).max() for e, s in zip(expected, start, strict=True)) > 1e-4
    for f, e, s in zip(found, expected, start, strict=True):
        assert (e != s.astype(e.dtype)).any()
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_steps(rng, name):
    compare(rng, OPTIMIZERS[name])


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "lamb", "rmsprop"])
def test_double_precision(rng, name):
    # Paddle stores learning rates in float32.
    compare(rng, OPTIMIZERS[name], "float64", 1e-7)


@pytest.mark.parametrize("name", CLIPS)
def test_clipped_gradients(rng, name):
    compare(rng, lambda p: optim.Momentum(0.1, parameters=p, grad_clip=CLIPS[name]()))


def test_learning_rate_schedule(rng):
    compare(rng, lambda p: optim.Adam(optim.lr.CosineAnnealingDecay(0.1, 5), parameters=p))


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "lamb", "rmsprop", "adagrad"])
def test_float16_with_master_weights(rng, name):
    """float16 parameters with float32 steps: the master weights agree with float32 on the CPU."""
    start = [rng.standard_normal(shape).astype("float16") for shape in SHAPES]
    grads = [[rng.standard_normal(shape).astype("float16") for shape in SHAPES] for _ in range(5)]

    def precise(parameters):
        optimizer = OPTIMIZERS[name](parameters)
        optimizer._multi_precision = True
        return optimizer

    expected = steps(OPTIMIZERS[name], start, grads, "cpu")
    hardpoint.reset_counters()
    found = steps(precise, start, grads, "sim:0", "float16")
    assert {name: tiers for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("factor", [4.0, float("inf"), float("nan")])
def test_scaled_losses(counted, factor):
    """A step with non-finite gradients is skipped. Paddle does not scale losses on the CPU."""
    parameter = paddle.create_parameter([4], "float32")
    parameter.set_value(np.ones(4, "float32"))
    optimizer = optim.SGD(0.1, parameters=[parameter])
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, use_dynamic_loss_scaling=False)
    numbers = (1.0, 2.0, factor, 3.0, 1.0)
    for number in numbers:
        scaler.scale((parameter * number).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    np.testing.assert_allclose(parameter.numpy(), 1 - 0.1 * sum(n for n in numbers if np.isfinite(n)), rtol=1e-5)
    assert {name: tiers for name, tiers in counted().items() if "cpu" in tiers} == {}


def test_update_loss_scaling(rng):
    for bad in (False, True):
        results = []
        for device in ("cpu", "sim:0"):
            paddle.set_device(device)
            grads = [paddle.to_tensor(g) for g in np.ones((2, 5), "float32")]
            state = [paddle.to_tensor(np.array([v], d)) for v, d in ((8.0, "float32"), (1, "int32"), (1, "int32"))]
            hardpoint.reset_counters()
            paddle._C_ops.update_loss_scaling_(grads, paddle.to_tensor([bad]), *state, 2, 2, 2.0, 0.5, False)
            results.append([t.numpy() for t in (*grads, *state)])
        for f, e in zip(results[1], results[0], strict=True):
            np.testing.assert_array_equal(f, e)
        assert {name: tiers for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}


STATIC = """
import numpy as np, paddle, hardpoint
paddle.enable_static()
results, counters = [], {}
for place in (paddle.CPUPlace(), paddle.CustomPlace("sim", 0)):
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 6], "float32")
        constant = paddle.nn.initializer.Constant
        y = paddle.static.nn.fc(x, 5, weight_attr=constant(0.1), bias_attr=constant(0.0))
        loss = (y * y).mean()
        paddle.optimizer.NAME(0.05).minimize(loss)
    executor = paddle.static.Executor(place)
    executor.run(startup)
    hardpoint.reset_counters()
    rows = np.random.default_rng(3).standard_normal((6, 4, 6)).astype("float32")
    results.append([executor.run(main, feed={"x": row}, fetch_list=[loss])[0] for row in rows])
    counters = hardpoint.counters()
np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
assert {name: tiers for name, tiers in counters.items() if "cpu" in tiers} == {}, counters
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Momentum", "Adam", "AdamW", "Lamb", "RMSProp"])
def test_static_graphs(run_python, name):
    run_python(STATIC.replace("NAME", name))


def test_step_with_a_disabled_operator(rng):
    """The CPU runs the whole step, once."""
    start = [rng.standard_normal(shape) for shape in SHAPES]
    grads = [[rng.standard_normal(shape) for shape in SHAPES] for _ in range(3)]
    expected = steps(OPTIMIZERS["lamb"], start, grads, "cpu")
    hardpoint.reset_counters()
    with hardpoint.fallback("hardpoint::vector_norm"):
        found = steps(OPTIMIZERS["lamb"], start, grads, "sim:0")
    assert hardpoint.counters()["phi::lamb"] == {"cpu": 3 * len(SHAPES)}
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)


#: Number of arguments of a vendor kernel.
VENDOR = {"momentum": 9, "adam": 14, "adamw": 14, "merged adam": 14, "lamb": 7, "rmsprop": 10, "nadam": 14, "rprop": 7}


@pytest.mark.parametrize("name", VENDOR)
def test_vendor_kernels_are_tried_first(rng, name):
    calls = []
    step = f"{name.removeprefix('merged ').replace('adamw', 'adam')}_step"

    @hardpoint.kernel(step)
    def decline(*arguments):
        # Tensors are valid only during the call.
        calls.append((len(arguments), tuple(arguments[0].shape), arguments[1]))
        raise NotImplementedError("not this one")

    with decline:
        compare(rng, OPTIMIZERS[name])
    assert len(calls) == 10 * len(SHAPES)
    assert {count for count, _, _ in calls} == {VENDOR[name]}
    assert all(shape in SHAPES and second is None for _, shape, second in calls)


def test_vendor_kernel_runs_the_step():
    parameter = paddle.create_parameter([3], "float32")

    @hardpoint.kernel("sgd_step")
    def sgd_step(param, master, grad, lr):
        parameter.fill_(7.0)

    optimizer = optim.SGD(0.1, parameters=[parameter])
    parameter.sum().backward()
    hardpoint.reset_counters()
    with sgd_step, paddle.no_grad():
        optimizer.step()
    assert hardpoint.counters()["phi::sgd"] == {"vendor": 1}
    assert parameter.numpy().tolist() == [7, 7, 7]


@pytest.mark.parametrize("make", [optim.RAdam, optim.NAdam])
def test_saved_state(rng, make):
    """These optimizers keep a number for each element. All are saved, for a run on another device."""
    start = rng.standard_normal((3, 4)).astype("float32")

    def state(device):
        paddle.set_device(device)
        parameter = paddle.create_parameter([3, 4], "float32")
        parameter.set_value(paddle.to_tensor(start))
        optimizer = make(0.05, parameters=[parameter])
        for _ in range(2):
            (parameter * parameter).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        saved = [x.numpy() for x in optimizer.state_dict().values() if isinstance(x, paddle.Tensor)]
        return sorted(saved, key=lambda x: float(x.sum()))

    found, expected = state("sim:0"), state("cpu")
    assert len(found) == len(expected) >= 5
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)
