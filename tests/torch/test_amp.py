"""Autocast with CUDA's operator lists, and gradient scaling."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

HALF, BFLOAT, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64


def tensor(*shape: int, dtype: torch.dtype = SINGLE) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).sim() + 0.1


# ---- Settings


def test_functions():
    assert torch.sim.get_amp_supported_dtype() == [HALF, BFLOAT]
    assert torch.sim.is_autocast_enabled() is False
    assert torch.sim.get_autocast_dtype() == HALF
    assert torch.get_autocast_dtype("sim") == HALF
    assert torch.sim.is_bf16_supported()
    torch.sim.set_autocast_enabled(True)
    torch.sim.set_autocast_dtype(BFLOAT)
    try:
        assert torch.is_autocast_enabled("sim")
        assert torch.sim.get_autocast_dtype() == BFLOAT
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == BFLOAT
    finally:
        torch.sim.set_autocast_enabled(False)
        torch.sim.set_autocast_dtype(HALF)
    assert (tensor(2, 2) @ tensor(2, 2)).dtype == SINGLE


def test_unsupported_dtype():
    with pytest.raises(ValueError, match=r"supports float16 and bfloat16, got torch\.float64"):
        torch.sim.set_autocast_dtype(DOUBLE)
    with pytest.warns(UserWarning, match=r"not supported|Supported"), torch.autocast("sim", dtype=DOUBLE):
        assert not torch.sim.is_autocast_enabled()


def test_context():
    assert not torch.sim.is_autocast_enabled()
    with torch.autocast("sim"):
        assert torch.sim.is_autocast_enabled()
        assert not torch.is_autocast_enabled("cpu")
        with torch.autocast("sim", dtype=BFLOAT):
            assert torch.sim.get_autocast_dtype() == BFLOAT
        assert torch.sim.get_autocast_dtype() == HALF
        with torch.autocast("sim", enabled=False):
            assert (tensor(2, 2) @ tensor(2, 2)).dtype == SINGLE
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == HALF
    assert not torch.sim.is_autocast_enabled()


def test_other_devices_keep_their_own():
    with torch.autocast("sim"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == SINGLE
    with torch.autocast("cpu"):
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == SINGLE


def test_amp_shortcuts():
    with pytest.warns(FutureWarning, match=r"`torch.sim.amp.autocast\(args...\)` is deprecated"):
        autocast = torch.sim.amp.autocast(dtype=BFLOAT)
    with autocast:
        assert (tensor(2, 2) @ tensor(2, 2)).dtype == BFLOAT
    with pytest.warns(FutureWarning, match=r"`torch.sim.amp.GradScaler\(args...\)` is deprecated"):
        assert torch.sim.amp.GradScaler().is_enabled()


def test_as_decorator():
    @torch.autocast("sim", dtype=BFLOAT)
    def multiply(x):
        return x @ x

    assert multiply(tensor(3, 3)).dtype == BFLOAT


# ---- Operator lists

LOWER = {
    "mm": lambda: torch.mm(tensor(3, 4), tensor(4, 2)),
    "matmul": lambda: tensor(3, 4) @ tensor(4, 2),
    "bmm": lambda: torch.bmm(tensor(2, 3, 4), tensor(2, 4, 2)),
    "addmm": lambda: torch.addmm(tensor(3, 2), tensor(3, 4), tensor(4, 2)),
    "baddbmm": lambda: torch.baddbmm(tensor(2, 3, 2), tensor(2, 3, 4), tensor(2, 4, 2)),
    "mv": lambda: torch.mv(tensor(3, 4), tensor(4)),
    "linear": lambda: F.linear(tensor(3, 4), tensor(2, 4), tensor(2)),
    "conv1d": lambda: F.conv1d(tensor(1, 2, 5), tensor(3, 2, 3)),
    "conv2d": lambda: F.conv2d(tensor(1, 2, 5, 5), tensor(3, 2, 3, 3), tensor(3)),
    "conv_transpose2d": lambda: F.conv_transpose2d(tensor(1, 2, 4, 4), tensor(2, 3, 3, 3)),
    "einsum": lambda: torch.einsum("ij,jk->ik", tensor(3, 4), tensor(4, 2)),
    "chain_matmul": lambda: torch.linalg.multi_dot([tensor(3, 4), tensor(4, 2), tensor(2, 2)]),
    "prelu": lambda: F.prelu(tensor(3, 4), tensor(1)),
    "gru_cell": lambda: nn.GRUCell(3, 4).sim()(tensor(2, 3)),
    "lstm_cell": lambda: nn.LSTMCell(3, 4).sim()(tensor(2, 3))[0],
    "attention": lambda: F.scaled_dot_product_attention(tensor(1, 2, 4), tensor(1, 2, 4), tensor(1, 2, 4)),
}
SINGLES = {
    "exp": lambda d: tensor(3, dtype=d).exp(),
    "log": lambda d: tensor(3, dtype=d).log(),
    "log1p": lambda d: tensor(3, dtype=d).log1p(),
    "pow": lambda d: tensor(3, dtype=d) ** 2,
    "rsqrt": lambda d: tensor(3, dtype=d).rsqrt(),
    "reciprocal": lambda d: tensor(3, dtype=d).reciprocal(),
    "softmax": lambda d: tensor(3, 4, dtype=d).softmax(1),
    "log_softmax": lambda d: tensor(3, 4, dtype=d).log_softmax(1),
    "layer_norm": lambda d: F.layer_norm(tensor(3, 4, dtype=d), (4,)),
    "group_norm": lambda d: F.group_norm(tensor(2, 4, 3, dtype=d), 2),
    "sum": lambda d: tensor(3, 4, dtype=d).sum(),
    "sum dim": lambda d: tensor(3, 4, dtype=d).sum(1),
    "prod": lambda d: tensor(3, dtype=d).prod(),
    "cumsum": lambda d: tensor(3, dtype=d).cumsum(0),
    "norm": lambda d: tensor(3, dtype=d).norm(),
    "mse_loss": lambda d: F.mse_loss(tensor(3, dtype=d), tensor(3, dtype=d)),
    "l1_loss": lambda d: F.l1_loss(tensor(3, dtype=d), tensor(3, dtype=d)),
    "smooth_l1_loss": lambda d: F.smooth_l1_loss(tensor(3, dtype=d), tensor(3, dtype=d)),
    "cross_entropy": lambda d: F.cross_entropy(tensor(3, 4, dtype=d), torch.tensor([0, 1, 2], device="sim")),
    "cosine_similarity": lambda d: F.cosine_similarity(tensor(2, 3, dtype=d), tensor(2, 3, dtype=d)),
    "cdist": lambda d: torch.cdist(tensor(2, 3, dtype=d), tensor(2, 3, dtype=d)),
    "softplus": lambda d: F.softplus(tensor(3, dtype=d)),
    "acos": lambda d: (tensor(3, dtype=d) / 2).acos(),
    "erfinv": lambda d: (tensor(3, dtype=d) / 2).erfinv(),
}
PROMOTED = {
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack([a, b]),
    "atan2": torch.atan2,
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, b),
    "dot": torch.dot,
    "cross": lambda a, b: torch.cross(a[:3], b[:3], dim=0),
    "tensordot": lambda a, b: torch.tensordot(a, b, 1),
    "index_put": lambda a, b: a.index_put((torch.arange(4, device="sim"),), b),
    "bilinear": lambda a, b: F.bilinear(a[None], b[None], torch.ones(1, 4, 4, device="sim", dtype=a.dtype)),
}


@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
@pytest.mark.parametrize("name", LOWER)
def test_lower_precision(name, dtype):
    torch.manual_seed(0)
    expected = LOWER[name]()
    torch.manual_seed(0)
    with torch.autocast("sim", dtype=dtype):
        made = LOWER[name]()
    assert expected.dtype == SINGLE
    assert made.dtype == dtype
    torch.testing.assert_close(made.float(), expected, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("dtype", [HALF, BFLOAT, SINGLE], ids=str)
@pytest.mark.parametrize("name", SINGLES)
def test_float32(name, dtype):
    with torch.autocast("sim", dtype=BFLOAT):
        made = SINGLES[name](dtype)
    assert made.dtype == SINGLE
    torch.testing.assert_close(made, SINGLES[name](SINGLE), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("name", PROMOTED)
@pytest.mark.parametrize(
    ("left", "right", "expected"), [(HALF, SINGLE, SINGLE), (SINGLE, HALF, SINGLE), (HALF, HALF, HALF)]
)
def test_promotion(name, left, right, expected):
    with torch.autocast("sim"):
        made = PROMOTED[name](tensor(4, dtype=left), tensor(4, dtype=right))
    assert made.dtype == expected
    reference = PROMOTED[name](tensor(4), tensor(4))
    torch.testing.assert_close(made.float(), reference, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("call", [lambda t: t + t, lambda t: t * 2, torch.relu, lambda t: t.reshape(-1), torch.sigmoid])
@pytest.mark.parametrize("dtype", [HALF, SINGLE, BFLOAT], ids=str)
def test_other_operators_keep_the_dtype(call, dtype):
    with torch.autocast("sim"):
        assert call(tensor(2, 2, dtype=dtype)).dtype == dtype


def test_double_is_not_lowered():
    with torch.autocast("sim"):
        assert (tensor(2, 2, dtype=DOUBLE) @ tensor(2, 2, dtype=DOUBLE)).dtype == DOUBLE


def test_explicit_dtype_is_kept():
    with torch.autocast("sim"):
        assert tensor(3, dtype=HALF).sum(dtype=DOUBLE).dtype == DOUBLE
        assert tensor(3, dtype=HALF).softmax(0, dtype=HALF).dtype == HALF


def test_binary_cross_entropy_is_refused():
    x = tensor(3) / 2
    with torch.autocast("sim"), pytest.raises(RuntimeError, match="binary_cross_entropy is unsafe under autocast"):
        F.binary_cross_entropy(x, x)
    with torch.autocast("sim"):
        assert F.binary_cross_entropy_with_logits(x, x).dtype == SINGLE
        with torch.autocast("sim", enabled=False):
            assert F.binary_cross_entropy(x, x).dtype == SINGLE
    assert F.binary_cross_entropy(x, x).isfinite()


# ---- Weight cache, custom functions


def test_weights_are_cast_once():
    layer = nn.Linear(3, 3, bias=False).sim()
    x = tensor(2, 3)
    with torch.autocast("sim"):
        first, second = layer(x), layer(x)
        (first + second).sum().backward()
    assert layer.weight.grad.dtype == SINGLE
    torch.testing.assert_close(layer.weight.grad, 2 * x.sum(0).expand(3, 3), rtol=1e-2, atol=1e-2)


def test_custom_forward_and_backward():
    seen = []

    class Multiply(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="sim", cast_inputs=SINGLE)
        def forward(ctx, a, b):
            seen.append((torch.is_autocast_enabled("sim"), a.dtype))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="sim")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((torch.is_autocast_enabled("sim"), g.dtype))
            return g @ b.t(), a.t() @ g

    a = tensor(2, 2, dtype=HALF).detach().requires_grad_()
    b = tensor(2, 2).detach().requires_grad_()
    with torch.autocast("sim"):
        out = Multiply.apply(a, b)
    out.sum().backward()
    assert out.dtype == SINGLE
    assert seen == [(False, SINGLE), (False, SINGLE)]
    assert a.grad.dtype == HALF


# ---- Gradient scaling


def train(device: str, amp: bool) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    update = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(device, enabled=amp, init_scale=1024.0)
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1)).to(device)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(15):
        update.zero_grad()
        with torch.autocast(device, dtype=HALF, enabled=amp):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
        losses.append(loss.item())
    return losses


def test_grad_scaler_training():
    mixed, plain = train("sim", True), train("cpu", False)
    assert mixed == pytest.approx(plain, rel=2e-2)
    assert mixed[-1] < mixed[0] / 2


def test_grad_scaler_skips_infinite_gradients():
    weight = torch.ones(2, device="sim", requires_grad=True)
    update = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("sim", init_scale=4.0)
    scaler.scale((weight * torch.tensor([1.0, float("inf")], device="sim")).sum()).backward()
    scaler.step(update)
    scaler.update()
    assert weight.tolist() == [1, 1]
    assert scaler.get_scale() == 2.0
    update.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(update)
    assert weight.grad.tolist() == [1, 1]
    scaler.step(update)
    scaler.update()
    assert weight.tolist() == [0, 0]


def test_grad_scaler_state():
    scaler = torch.amp.GradScaler("sim", init_scale=8.0, growth_interval=1)
    weight = torch.ones(1, device="sim", requires_grad=True)
    update = torch.optim.SGD([weight], lr=0.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(update)
    scaler.update()
    assert scaler.get_scale() == 16.0
    other = torch.amp.GradScaler("sim")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 16.0


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_grad_scaler_with_fused_optimizers(optimizer):
    weight = torch.ones(2, device="sim", requires_grad=True)
    update = optimizer([weight], lr=0.5, fused=True)
    scaler = torch.amp.GradScaler("sim", init_scale=4.0)
    scaler.scale((weight * 2).sum()).backward()
    scaler.step(update)
    scaler.update()
    expected = torch.ones(2, requires_grad=True)
    plain = optimizer([expected], lr=0.5)
    (expected * 2).sum().backward()
    plain.step()
    torch.testing.assert_close(weight.detach().cpu(), expected.detach())
