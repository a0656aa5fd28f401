"""The CPU tier: unmapped kernels of any signature run on the CPU."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_same

import hardpoint
import hardpoint.devices.sim
from hardpoint._runtime import core


def image(rng):
    return rng.standard_normal((2, 4, 9, 11)).astype("float32")


# Various signatures: lists in and out, optional tensors, strings, lists of numbers, integer and float attributes in
# registers and on the stack, tensors in place of attributes.
SAMPLES = {
    "lists": lambda x: [t * 1 for t in paddle.split(x, [1, 3], axis=1)],
    "list of inputs": lambda x: paddle.stack([x, x * 2], axis=1),
    "optional": lambda x: F.instance_norm(x),
    "strings": lambda x: F.interpolate(x, size=[5, 7], mode="bicubic", align_corners=False),
    "numbers on the stack": lambda x: F.interpolate(x, scale_factor=[1.5, 0.7], mode="bilinear", align_corners=True),
    "windows": lambda x: F.unfold(x, [3, 2], strides=2, paddings=1),
    "grid": lambda x: F.grid_sample(x, paddle.full([2, 3, 3, 2], 0.3)),
    "two outputs": lambda x: paddle.kthvalue(x, 2, axis=-1),
    "tensor for an attribute": lambda x: paddle.gather(x, paddle.to_tensor([2, 0]), axis=paddle.to_tensor(1)),
    "reals": lambda x: paddle.nn.functional.local_response_norm(x, size=3, alpha=2e-3, beta=0.6, k=1.5),
    "scalars": lambda x: paddle.clip(x, -0.25, 0.75),
    "pad": lambda x: F.pad(x, [1, 2, 0, 1], mode="reflect"),
    "linear algebra": lambda x: paddle.linalg.qr(x[0, 0])[1].abs(),
    "scatter": lambda x: paddle.put_along_axis(x, paddle.zeros([2, 4, 1, 11], "int64"), 3.0, 2, reduce="add"),
    "boxes": lambda x: paddle.vision.ops.roi_align(
        x, paddle.to_tensor([[0.0, 0, 5, 5], [1, 1, 8, 7]]), paddle.to_tensor([1, 1], "int32"), 3, 0.5, 2
    ),
    "yolo": lambda x: paddle.vision.ops.yolo_box(
        x.reshape([1, 18, 4, 11])[:, :12], paddle.to_tensor([[32, 64]], "int32"), [10, 13, 16, 30], 1, 0.01, 8
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_results(rng, name):
    assert_same(SAMPLES[name], image(rng))


@pytest.mark.parametrize(
    "name", ["lists", "strings", "windows", "grid", "pad", "scatter", "boxes", "numbers on the stack"]
)
def test_gradients(rng, name):
    assert_same(SAMPLES[name], image(rng), grad=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["strings", "windows", "pad", "scalars"])
def test_16_bit_floats_without_a_cpu_kernel(rng, name, dtype):
    assert_same(SAMPLES[name], image(rng), dtype=dtype)


def test_counters_and_observers(counted):
    seen = []
    observer = core.add_observer(lambda op, tier, begin: seen.append((op, tier, begin)))
    try:
        paddle.kthvalue(paddle.ones([3, 3]), 2)
    finally:
        core.remove_observer(observer)
    assert counted()["phi::kthvalue"] == {"cpu": 1}
    assert [entry for entry in seen if entry[0] == "phi::kthvalue"] == [
        ("phi::kthvalue", "cpu", True),
        ("phi::kthvalue", "cpu", False),
    ]


def test_error_of_the_kernel_is_raised():
    with pytest.raises(ValueError, match="axis"):
        paddle.kthvalue(paddle.ones([3, 3]), 2, axis=5)
    assert paddle.kthvalue(paddle.ones([3, 3]), 2)[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_failing_copy_names_the_operator(rng, number):
    """Each copy of a call may fail, to the CPU or back; the next call succeeds."""
    data = rng.standard_normal((3, 4)).astype("float32")
    x = paddle.to_tensor(data)
    with (
        hardpoint.devices.sim.fault(f"copy:after={number}:operator=phi::kthvalue"),
        pytest.raises(OSError, match=r"phi::kthvalue.*injected copy failure"),
    ):
        paddle.kthvalue(x, 2, axis=1)
    np.testing.assert_array_equal(paddle.kthvalue(x, 2, axis=1)[0].numpy(), np.sort(data, 1)[:, 1])


def test_asynchronous_failure_names_the_operator():
    x = paddle.ones([4])
    with hardpoint.devices.sim.fault("kernel:operator=phi::scale"):
        y = x * 2
        with pytest.raises(OSError, match="phi::scale"):
            y.numpy()
    assert (x * 3).tolist() == [3, 3, 3, 3]


def test_inputs_without_memory(rng):
    assert_same(
        lambda x: paddle.squeeze(F.max_pool2d(x, 2, 2) * 2, 0),
        rng.standard_normal((1, 2, 4, 6)).astype("float32"),
        grad=True,
    )


def test_distribution_of_random_numbers():
    paddle.seed(3)
    x = paddle.uniform([20_000], min=-1, max=3)
    y = paddle.randn([20_000])
    assert abs(float(x.mean()) - 1) < 0.05
    assert float(x.min()) >= -1
    assert float(x.max()) <= 3
    assert abs(float(y.mean())) < 0.05
    assert abs(float(y.std()) - 1) < 0.05


OPTIMIZERS = ["SGD", "Momentum", "Adam", "AdamW", "Adagrad", "Adamax", "RMSProp", "Adadelta", "Lamb", "NAdam", "RAdam"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(rng, name):
    start, data = rng.standard_normal((4, 3)).astype("float32"), rng.standard_normal((8, 4)).astype("float32")

    def train(weight, x):
        weight = paddle.create_parameter(
            weight.shape, "float32", default_initializer=paddle.nn.initializer.Assign(weight)
        )
        decay = "lamb_weight_decay" if name == "Lamb" else "weight_decay"
        optimizer = getattr(paddle.optimizer, name)(learning_rate=0.05, parameters=[weight], **{decay: 0.01})
        losses = []
        for _ in range(4):
            loss = (paddle.tanh(x @ weight) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.detach())
        return [weight.detach(), *losses]

    # Division by small running means amplifies rounding errors.
    assert_same(train, start, data, tolerance=1e-3 if name == "RMSProp" else 2e-5)
    assert hardpoint.mounted() == ["sim"]


@pytest.mark.parametrize("rule", ["phi::sigmoid_cross_entropy.*=cpu", ".*=cpu"])
def test_in_place_composition_under_a_rule(rng, counted, rule):
    """The CPU tier gets the original inputs, which no step of the composition has overwritten."""
    logits, labels = rng.standard_normal((3, 4)).astype("float32"), rng.random((3, 4)).astype("float32")
    x = paddle.to_tensor(logits, stop_gradient=False)
    with hardpoint.fallback(rule):
        loss = F.binary_cross_entropy_with_logits(x, paddle.to_tensor(labels), reduction="none")
        # Paddle lets the gradient overwrite the incoming one.
        loss.backward(paddle.full_like(loss, 2.0))
    np.testing.assert_allclose(x.grad.numpy(), 2 * (1 / (1 + np.exp(-logits)) - labels), rtol=1e-5, atol=1e-6)
    tiers = {name: tiers for name, tiers in counted().items() if "sigmoid_cross_entropy" in name}
    assert len(tiers) == 2
    assert all(tier == {"cpu": 1} for tier in tiers.values())


def test_kernels_that_require_the_same_object_in_and_out(rng):
    """merged_momentum compares the addresses of its parameters."""
    values = [rng.standard_normal(shape).astype("float32") for shape in ((3, 4), (5,))]

    def train() -> list[np.ndarray]:
        parameters = [paddle.create_parameter(v.shape, "float32") for v in values]
        for parameter, value in zip(parameters, values, strict=True):
            parameter.set_value(value)
        optimizer = paddle.optimizer.Momentum(0.1, parameters=parameters, use_multi_tensor=True)
        for _ in range(2):
            sum((p * p).sum() for p in parameters).backward()
            optimizer.step()
            optimizer.clear_grad()
        return [p.numpy() for p in parameters]

    with hardpoint.fallback("phi::merged_momentum=cpu"):
        found = train()
    paddle.set_device("cpu")
    for ours, right in zip(found, train(), strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-6)
