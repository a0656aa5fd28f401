"""Portable convolutions: forward and gradients against float64 on the CPU, over all arguments."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.nn import functional

import hardpoint

ORDINARY = (functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)

#: 16-bit results are rounded once, as are summed gradients.
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 1e-2, "atol": 1e-2},
}


def draw(
    rng: random.Random, dimensions: int, transposed: bool, *, deep: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...], dict]:
    """Random sizes and arguments of a valid convolution; `deep` has many channels and few pixels."""
    groups = rng.choice([1, 1, 1, 2, 3])
    inner, outer = rng.choice([1, 2, 3, 5, 13]), rng.choice([1, 2, 3, 4, 14])
    if rng.random() < 0.2:
        groups, inner, outer = 6, 1, rng.choice([1, 2])
    sizes = [1, 3, 4, 7, 9, 20] if dimensions < 3 else [1, 3, 5, 6]
    if deep:
        groups, inner, outer, sizes = 1, rng.choice([32, 37]), rng.choice([32, 45]), [1, 2, 3, 4]
    while True:
        kernel = [rng.choice([1, 1, 2, 3, 3, 5]) for _ in range(dimensions)]
        size = [rng.choice(sizes) for _ in range(dimensions)]
        stride = [rng.choice([1, 1, 2, 3]) for _ in range(dimensions)]
        padding = [rng.choice([0, 0, 1, 2]) for _ in range(dimensions)]
        dilation = [rng.choice([1, 1, 2]) for _ in range(dimensions)]
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        arguments: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            arguments["output_padding"] = [rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True)]
            out = [
                (n - 1) * s - 2 * p + r + o
                for n, s, p, r, o in zip(size, stride, padding, reach, arguments["output_padding"], strict=True)
            ]
        else:
            out = [
                (n + 2 * p - r) // s + 1 if n + 2 * p >= r else 0
                for n, s, p, r in zip(size, stride, padding, reach, strict=True)
            ]
        if min(out) > 0:
            break
    batch = rng.choice([1, 3, 70] if deep else [1, 2, 3])
    if transposed:
        return (batch, groups * inner, *size), (groups * inner, outer, *kernel), arguments
    return (batch, groups * inner, *size), (groups * outer, inner, *kernel), arguments


def arrange(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a random layout."""
    layout = rng.choice(["plain", "plain", "channels last", "strided", "reversed"])
    if layout == "channels last" and tensor.dim() > 3:
        return tensor.contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)
    if layout == "strided":
        wide = torch.empty(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if layout == "reversed":
        order = tuple(reversed(range(tensor.dim())))
        return tensor.permute(order).contiguous().permute(order)
    return tensor


def compare(
    rng: random.Random, x_size: Any, w_size: Any, arguments: dict, transposed: bool, dtype: torch.dtype
) -> None:
    function = (TRANSPOSED if transposed else ORDINARY)[len(x_size) - 3]
    x, weight = torch.randn(x_size).to(dtype), torch.randn(w_size).to(dtype)
    channels = w_size[1] * arguments["groups"] if transposed else w_size[0]
    bias = torch.randn(channels).to(dtype) if rng.random() < 0.7 else None
    given = [x, weight] + ([bias] if bias is not None else [])
    exact = [t.double().requires_grad_() for t in given]
    expected = function(*exact, **arguments)
    ours = [t.sim() for t in given]
    ours = [arrange(rng, ours[0]), arrange(rng, ours[1]), *ours[2:]]
    ours = [t.requires_grad_() for t in ours]
    hardpoint.reset_counters()
    actual = function(*ours, **arguments)
    where = f"{x_size} {w_size} {arguments} transposed={transposed}"
    scale = (weight[0].numel() if not transposed else weight.numel() / weight.shape[1]) ** 0.5
    options = {k: v * max(1.0, scale) if k == "atol" else v for k, v in TOLERANCE[dtype].items()}
    torch.testing.assert_close(actual.cpu().double(), expected.detach(), **options, msg=lambda m: f"{where}\n{m}")
    seed = torch.randn(expected.shape).to(dtype)
    theirs = torch.autograd.grad(expected, exact, seed.double())
    found = torch.autograd.grad(actual, ours, arrange(rng, seed.sim()))
    counters = hardpoint.counters()
    assert set(counters["aten::convolution_overrideable"]) == {"portable"}, where
    assert counters["aten::convolution_backward_overrideable"] == {"portable": 1}, where
    for name, mine, right in zip(("input", "weight", "bias"), found, theirs, strict=False):
        largest = max(1.0, right.abs().max().item())
        options = {k: v * largest if k == "atol" else v for k, v in TOLERANCE[dtype].items()}
        assert mine.shape == right.shape
        torch.testing.assert_close(
            mine.cpu().double(), right, **options, msg=lambda m, n=name: f"gradient of {n}: {where}\n{m}"
        )


@pytest.mark.parametrize("transposed", [False, True], ids=["ordinary", "transposed"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_all_arguments(dimensions: int, transposed: bool) -> None:
    rng = random.Random(100 * dimensions + transposed)
    for _ in range(40):
        compare(rng, *draw(rng, dimensions, transposed), transposed, torch.float64)


@pytest.mark.parametrize("transposed", [False, True], ids=["ordinary", "transposed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype: torch.dtype, transposed: bool) -> None:
    rng = random.Random(str(dtype))
    for _ in range(25):
        compare(rng, *draw(rng, 2, transposed), transposed, dtype)


@pytest.mark.parametrize("transposed", [False, True], ids=["ordinary", "transposed"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_many_channels_and_few_pixels(dimensions: int, transposed: bool) -> None:
    rng = random.Random(10 * dimensions + transposed)
    for dtype in (torch.float64, torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for _ in range(3):
            compare(rng, *draw(rng, dimensions, transposed, deep=True), transposed, dtype)


NETWORKS = {
    "3x3": ((2, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    "3x3 stride 2": ((2, 40, 29, 31), (70, 40, 3, 3), {"padding": 1, "stride": 2}),
    "7x7 stride 2": ((1, 3, 64, 64), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    "1x1": ((3, 50, 14, 14), (130, 50, 1, 1), {}),
    "1x1 stride 2": ((3, 50, 14, 14), (30, 50, 1, 1), {"stride": 2}),
    "depthwise": ((2, 96, 20, 20), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
    "depthwise x2": ((2, 16, 20, 20), (32, 1, 5, 5), {"padding": 2, "groups": 16}),
    "patches": ((2, 3, 64, 64), (48, 3, 16, 16), {"stride": 16}),
    "dilated": ((1, 20, 33, 33), (20, 20, 3, 3), {"padding": 4, "dilation": 4}),
    "deep": ((40, 64, 4, 4), (70, 64, 3, 3), {"padding": 1}),
    "deep stride 2": ((9, 64, 8, 8), (70, 64, 3, 3), {"padding": 1, "stride": 2}),
    "many taps": ((1, 2, 40, 40), (3, 2, 25, 25), {"padding": 12}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_networks(name: str) -> None:
    x_size, w_size, given = NETWORKS[name]
    pair = lambda value: [value, value]  # noqa: E731
    arguments = {
        "stride": pair(given.get("stride", 1)),
        "padding": pair(given.get("padding", 0)),
        "dilation": pair(given.get("dilation", 1)),
        "groups": given.get("groups", 1),
    }
    compare(random.Random(name), x_size, w_size, arguments, False, torch.float32)


def test_gradcheck() -> None:
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, device="sim", requires_grad=True)
    weight = torch.randn(4, 1, 3, 2, dtype=torch.float64, device="sim", requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, device="sim", requires_grad=True)
    ordinary = lambda *t: functional.conv2d(*t, stride=(2, 1), padding=1, groups=2)  # noqa: E731
    assert torch.autograd.gradcheck(ordinary, (x, weight, bias))
    weight = torch.randn(2, 2, 3, 2, dtype=torch.float64, device="sim", requires_grad=True)
    transposed = lambda *t: functional.conv_transpose2d(*t, stride=2, output_padding=(1, 0), groups=2)  # noqa: E731
    assert torch.autograd.gradcheck(transposed, (x, weight, bias))


def test_second_derivatives() -> None:
    x = torch.randn(1, 1, 4, dtype=torch.float64, device="sim", requires_grad=True)
    weight = torch.randn(2, 1, 3, dtype=torch.float64, device="sim", requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda a, b: functional.conv1d(a, b, padding=1), (x, weight))


def test_empty_batch() -> None:
    x = torch.randn(0, 3, 8, 8, device="sim", requires_grad=True)
    layer = torch.nn.Conv2d(3, 4, 3).sim()
    out = layer(x)
    assert out.shape == (0, 4, 6, 6)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert layer.weight.grad is not None
    assert layer.weight.grad.abs().sum().item() == 0


def test_channels_last_is_preserved() -> None:
    x = torch.randn(2, 5, 8, 8, device="sim").to(memory_format=torch.channels_last)
    layer = torch.nn.Conv2d(5, 6, 3, padding=1).sim()
    assert layer(x).is_contiguous(memory_format=torch.channels_last)
    assert layer(x.contiguous()).is_contiguous()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("of", ["input", "weight", "both"])
def test_gradients_are_channels_last_if_an_operand_is(of: str, transposed: bool) -> None:
    layer = (torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d)(4, 6, 2)
    x = torch.randn(2, 4, 5, 5)
    if of != "weight":
        x = x.to(memory_format=torch.channels_last)
    if of != "input":
        layer.to(memory_format=torch.channels_last)
    results = []
    for device in ("cpu", "sim"):
        layer, x = layer.to(device), x.detach().to(device).requires_grad_()
        out = layer(x)
        results.append([out, *torch.autograd.grad((out * out).sum(), [x, layer.weight])])
    for mine, right in zip(*reversed(results), strict=True):
        assert mine.is_contiguous(memory_format=torch.channels_last)
        assert mine.stride() == right.stride()
        torch.testing.assert_close(mine.cpu(), right, rtol=1e-4, atol=1e-4)


def test_infinities_stay_in_their_channel() -> None:
    x, weight = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
    x[1, 0, 4, 8] = float("inf")
    expected = functional.conv2d(x, weight, padding=1)
    actual = functional.conv2d(x.sim(), weight.sim(), padding=1).cpu()
    assert torch.equal(actual.isfinite(), expected.isfinite())
    weight.requires_grad_()
    ours = weight.detach().sim().requires_grad_()
    (right,) = torch.autograd.grad(functional.conv2d(x, weight, padding=1).sum(), weight)
    (mine,) = torch.autograd.grad(functional.conv2d(x.sim(), ours, padding=1).sum(), ours)
    assert right[:, 1:].isfinite().all()
    assert mine.cpu()[:, 1:].isfinite().all()


def test_results_are_the_same_every_time() -> None:
    x, weight = torch.randn(4, 16, 30, 30, device="sim"), torch.randn(16, 16, 3, 3, device="sim", requires_grad=True)
    runs = []
    for _ in range(3):
        out = functional.conv2d(x, weight)
        (grad,) = torch.autograd.grad(out.sum(), weight)
        runs.append((out.detach().cpu(), grad.cpu()))
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=True))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_integers(dimensions: int, transposed: bool) -> None:
    rng = random.Random(dimensions)
    function = (TRANSPOSED if transposed else ORDINARY)[dimensions - 1]
    for _ in range(12):
        sizes, weight_sizes, arguments = draw(rng, dimensions, transposed)
        # Products exceed 2**53, which float64 cannot represent exactly.
        x, weight = (torch.randint(-(2**31), 2**31, s) for s in (sizes, weight_sizes))
        channels = weight.shape[1] * arguments["groups"] if transposed else weight.shape[0]
        bias = torch.randint(-(2**40), 2**40, (channels,)) if rng.random() < 0.5 else None
        right = function(x, weight, bias, **arguments)
        hardpoint.reset_counters()
        ours = function(x.to("sim"), weight.to("sim"), None if bias is None else bias.to("sim"), **arguments)
        assert torch.equal(ours.cpu(), right)
        assert "cpu" not in hardpoint.counters()["aten::convolution_overrideable"]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_the_gradient_of_a_bias_keeps_its_precision(layout: torch.memory_format) -> None:
    x, weight = torch.rand(16, 1, 90, 7), torch.ones(2, 1, 1, 1)
    grad = torch.rand(16, 2, 90, 7) + 5  # no cancellation: errors of a naive sum accumulate
    exact = grad.double().sum((0, 2, 3))
    bias = torch.zeros(2, device="sim", requires_grad=True)
    out = functional.conv2d(x.to("sim"), weight.to("sim"), bias)
    (ours,) = torch.autograd.grad(out, bias, grad.to("sim").to(memory_format=layout))
    torch.testing.assert_close(ours.cpu().double(), exact, rtol=2e-7, atol=0)


def test_vendor_kernels_come_first() -> None:
    calls: list[tuple[str, Any]] = []

    def record(name: str) -> Any:
        def kernel(out: Any, *rest: Any) -> None:
            calls.append((name, rest))
            raise NotImplementedError

        return hardpoint.kernel(name)(kernel)

    x = torch.randn(1, 2, 5, 5, device="sim", requires_grad=True)
    weight = torch.randn(3, 2, 3, 3, device="sim", requires_grad=True)
    with record("convolution"), record("convolution_backward_input"), record("convolution_backward_weight"):
        functional.conv2d(x, weight, padding=(1, 2)).sum().backward()
    assert [name for name, _ in calls] == ["convolution", "convolution_backward_input", "convolution_backward_weight"]
    _, (_, _, bias, stride, padding, dilation, transposed, output_padding, groups) = calls[0]
    assert bias is None
    assert [list(v) for v in (stride, padding, dilation, output_padding)] == [[1, 1], [1, 2], [1, 1], [0, 0]]
    assert (transposed, groups) == (False, 1)


@pytest.mark.parametrize("wrong", ["input", "weight", "bias"])
def test_operands_on_other_devices_are_refused(wrong: str) -> None:
    operands = {"input": torch.ones(1, 2, 3, 3), "weight": torch.ones(2, 2, 2, 2), "bias": torch.ones(2)}
    moved = {name: tensor if name == wrong else tensor.to("sim") for name, tensor in operands.items()}
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        functional.conv2d(**moved)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        functional.conv2d(**{name: tensor.to("sim:1" if name == wrong else "sim") for name, tensor in operands.items()})
