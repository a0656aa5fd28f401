"""silu_mul in PyTorch, on the CPU and on the device: values, gradients, graphs, autocast, messages."""

import hardpoint.torch
import pytest
import torch

from myops import silu_mul
from myops.kernels import on_device

DEVICE = hardpoint.torch.mount()
#: Hardpoint's torch.compile backend, if installed.
BACKEND = "hardpoint" if "hardpoint" in torch._dynamo.list_backends() else "aot_eager"
DEVICES = pytest.mark.parametrize("device", ["cpu", DEVICE])
op = torch.ops.myops.silu_mul.default


def reference(gate, up):
    return torch.nn.functional.silu(gate) * up


def random(*shape, device, dtype=torch.float32):
    return torch.randn(shape, dtype=torch.float64).to(dtype).to(device).requires_grad_()


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (), (0, 2), (70, 1000)])
def test_values_and_gradients(device, dtype, shape):
    gate, up = random(*shape, device=device, dtype=dtype), random(*shape, device=device, dtype=dtype)
    out = silu_mul(gate, up)
    expected = reference(gate.cpu().double(), up.cpu().double())
    grad = torch.randn(shape)
    gradients = torch.autograd.grad(out, (gate, up), grad.to(device, dtype))
    right = torch.autograd.grad(expected, (gate, up), grad.to(dtype).double())
    assert out.dtype == dtype
    assert out.device == gate.device
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(dtype, 1e-5)
    for a, b in zip((out, *gradients), (expected, *right), strict=True):
        torch.testing.assert_close(a.cpu().double(), b.cpu().double(), rtol=tolerance, atol=tolerance)


@DEVICES
def test_strides_and_broadcasting(device):
    gate, up = random(4, 6, device=device), random(6, 1, device=device)
    out = silu_mul(gate.t(), up)
    torch.testing.assert_close(out, reference(gate.t(), up))
    out.sum().backward()
    right = torch.autograd.grad(reference(gate.t(), up).sum(), (gate, up))
    torch.testing.assert_close((gate.grad, up.grad), right)


def test_tiers():
    if not on_device.available():
        pytest.skip(f"{DEVICE} has no compiler and uses torch operators")
    hardpoint.reset_counters()
    silu_mul(random(3, device=DEVICE), random(3, device=DEVICE)).sum().backward()
    assert hardpoint.counters()["myops::silu_mul"] == {"portable": 1}
    assert hardpoint.counters()["myops::silu_mul_backward"] == {"portable": 1}


@DEVICES
def test_gradcheck(device):
    inputs = [random(3, 5, device=device, dtype=torch.float64) for _ in range(2)]
    assert torch.autograd.gradcheck(op, inputs)
    assert torch.autograd.gradgradcheck(op, inputs)


@DEVICES
@pytest.mark.parametrize("shape", [(3, 5), (0,)])
def test_opcheck(device, shape):
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if device == "cpu":  # torch supports this check only for its own devices
        checks.append("test_autograd_registration")
    torch.library.opcheck(op, [random(*shape, device=device) for _ in range(2)], test_utils=checks)
    grads = [random(*shape, device=device).detach() for _ in range(3)]
    torch.library.opcheck(torch.ops.myops.silu_mul_backward.default, grads)


@DEVICES
@pytest.mark.parametrize("dynamic", [False, True])
def test_graph(device, dynamic):
    layer = torch.nn.Linear(8, 16, device=device)

    def net(x):
        gate, up = layer(x).chunk(2, -1)
        return silu_mul(gate, up).sum()

    compiled = torch.compile(net, backend=BACKEND if device != "cpu" else "aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (4, 7):
        x = random(rows, 8, device=device)
        right = torch.autograd.grad(net(x), (x, layer.weight))
        torch.testing.assert_close(torch.autograd.grad(compiled(x), (x, layer.weight)), right)


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(device, dtype):
    gate, up = random(3, device=device), random(3, device=device)
    with torch.autocast(device, dtype):
        out = silu_mul(gate, up)
        assert silu_mul(gate.double(), up.double()).dtype == torch.float64
    assert out.dtype == dtype
    out.float().sum().backward()
    assert gate.grad.dtype == torch.float32
    torch.testing.assert_close(out.float(), reference(gate, up), rtol=2e-2, atol=2e-2)


def message(function, *arguments):
    with pytest.raises((RuntimeError, NotImplementedError)) as error:
        function(*arguments)
    return str(error.value)


@DEVICES
def test_messages_are_those_of_torch(device):
    two, three = torch.ones(2, device=device), torch.ones(3, device=device)
    assert message(silu_mul, two, three) == message(torch.mul, two, three)
    assert "same dtype, but got: " in message(silu_mul, two, two.double())
    assert "same shape, but got: " in message(op, two, three)
    assert message(silu_mul, two.int(), two.int()) == "\"silu_mul\" not implemented for 'Int'"
    with pytest.raises(Exception, match="same dtype, but got: "):
        torch.compile(silu_mul, backend="aot_eager", fullgraph=True)(two, two.double())


def test_two_devices():
    a, b = torch.ones(2), torch.ones(2, device=DEVICE)
    assert f"found at least two devices, cpu and {DEVICE}:0!" in message(op, a, b)
