"""Autograd, training, functorch, determinism and the optimizers."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vjp, vmap

close = functools.partial(torch.testing.assert_close, check_device=False)


class DigitsNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        )
        self.head = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


def batches(count: int, size: int = 32):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        y = torch.randint(0, 10, (size,), generator=generator)
        x = torch.randn(size, 1, 8, 8, generator=generator) * 0.3
        x[torch.arange(size), 0, y % 8, y // 8] += 3
        yield x, y


def losses(model: nn.Module, device: str, optimizer, steps: int = 30) -> list[float]:
    model = copy.deepcopy(model).to(device)
    update = optimizer(model.parameters())
    seen = []
    for x, y in batches(steps):
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        update.step()
        seen.append(loss.item())
    return seen


# ---- Training


def test_digits_net_trains_as_on_the_cpu():
    model = DigitsNet()
    optimizer = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    mine, theirs = losses(model, "sim", optimizer), losses(model, "cpu", optimizer)
    assert mine == pytest.approx(theirs, abs=1e-4)
    assert theirs[-1] < 0.5 * theirs[0]
    assert losses(model, "sim:1", optimizer, 5) == pytest.approx(theirs[:5], abs=1e-4)


OPTIMIZERS = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "SGD nesterov": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": functools.partial(torch.optim.Adam, lr=1e-2),
    "AdamW amsgrad": functools.partial(torch.optim.AdamW, lr=1e-2, amsgrad=True),
    "RMSprop": functools.partial(torch.optim.RMSprop, lr=1e-3),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=1e-2),
}


@pytest.mark.parametrize("form", ["for loop", "foreach", "fused"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name, form):
    if form == "fused" and name == "RMSprop":
        pytest.skip("torch has no fused RMSprop")
    options = {"for loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[form]
    make = functools.partial(OPTIMIZERS[name], **options)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    plain = functools.partial(OPTIMIZERS[name], foreach=False)
    assert losses(model, "sim", make, 5) == pytest.approx(losses(model, "cpu", plain, 5), abs=1e-4)


def test_tensor_learning_rate_and_capturable_state():
    weight = torch.ones(3, device="sim", requires_grad=True)
    update = torch.optim.Adam([weight], lr=torch.tensor(0.1))
    weight.sum().backward()
    update.step()
    close(weight.detach(), torch.full((3,), 0.9))
    assert update.state[weight]["exp_avg"].device == torch.device("sim:0")


def test_gradient_clipping():
    for device in ("cpu", "sim"):
        parameters = [
            torch.ones(3, device=device, requires_grad=True),
            torch.ones(2, device=device, requires_grad=True),
        ]
        sum((p * p).sum() * 10 for p in parameters).backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        assert norm.item() == pytest.approx(20 * 5**0.5)
        assert parameters[0].grad.tolist() == pytest.approx([1 / 5**0.5] * 3)
        torch.nn.utils.clip_grad_value_(parameters, 0.1)
        assert parameters[1].grad.tolist() == pytest.approx([0.1] * 2)


# ---- Modules against the CPU


def compare_module(module: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5, **options) -> None:
    outcomes = []
    for device in ("cpu", "sim"):
        net = copy.deepcopy(module).to(device)
        given = [t.detach().clone().to(device).requires_grad_(t.is_floating_point()) for t in inputs]
        result = net(*given, **options)
        leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        sum(t.float().sin().sum() for t in leaves).backward()
        outcomes.append([*leaves, *(g.grad for g in given), *(p.grad for p in net.parameters())])
    for mine, theirs in zip(outcomes[1], outcomes[0], strict=True):
        if theirs is None:
            assert mine is None
            continue
        assert mine.device.type == "sim"
        close(mine.detach(), theirs.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent(kind, bidirectional, bias):
    compare_module(
        kind(5, 7, num_layers=2, bidirectional=bidirectional, bias=bias, batch_first=True), torch.randn(3, 4, 5)
    )


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells(kind, bias):
    compare_module(kind(5, 7, bias=bias), torch.randn(3, 5))


def test_lstm_with_initial_state_and_projection():
    for device in ("cpu", "sim"):
        torch.manual_seed(0)
        net = nn.LSTM(4, 6, proj_size=3).to(device)
        torch.manual_seed(1)
        x, h, c = torch.randn(5, 2, 4).to(device), torch.randn(1, 2, 3).to(device), torch.randn(1, 2, 6).to(device)
        out, (hidden, cell) = net(x, (h, c))
        (out.sum() + 2 * cell.sum() + hidden.sum()).backward()
        now = [out.detach().cpu(), cell.detach().cpu(), net.weight_hh_l0.grad.cpu()]
        if device == "cpu":
            expected = now
    for mine, theirs in zip(now, expected, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind):
    lengths = torch.tensor([4, 2, 1])
    x = torch.randn(3, 4, 5)
    net = kind(5, 6, batch_first=True)
    results = []
    for device in ("cpu", "sim"):
        model = copy.deepcopy(net).to(device)
        packed = nn.utils.rnn.pack_padded_sequence(x.to(device), lengths, batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        out.sum().backward()
        results.append((out.detach(), model.weight_ih_l0.grad))
    for mine, theirs in zip(results[1], results[0], strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention(batch_first, need_weights):
    x = torch.randn(3, 5, 8)
    compare_module(nn.MultiheadAttention(8, 2, batch_first=batch_first), x, x, x, need_weights=need_weights)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_scaled_dot_product_attention(causal, masked):
    if causal and masked:
        masked = False
    mask = torch.tril(torch.ones(6, 6, dtype=torch.bool)) if masked else None
    grads = []
    for device in ("cpu", "sim"):
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(2, 3, 6, 4, generator=generator).to(device).requires_grad_() for _ in range(3))
        out = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if mask is None else mask.to(device), is_causal=causal
        )
        out.sin().sum().backward()
        grads.append((out.detach(), q.grad, k.grad, v.grad))
    for mine, theirs in zip(grads[1], grads[0], strict=True):
        close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_transformer_layer(training):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(training)
    compare_module(layer, torch.randn(2, 5, 8))


MODULES = {
    "conv1d": (nn.Conv1d(3, 4, 3, stride=2), (2, 3, 9)),
    "conv2d groups": (nn.Conv2d(4, 8, 3, groups=2, dilation=2, bias=False), (2, 4, 9, 9)),
    "conv2d channels last": (nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), (2, 3, 6, 6)),
    "conv3d": (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv unbatched": (nn.Conv2d(2, 3, 2), (2, 5, 5)),
    "conv same": (nn.Conv2d(2, 3, 4, padding="same"), (1, 2, 6, 6)),
    "conv reflect": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 6, 6)),
    "conv transpose": (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 4, 4)),
    "conv transpose groups": (nn.ConvTranspose1d(4, 4, 3, groups=2), (2, 4, 5)),
    "group norm": (nn.GroupNorm(2, 4), (2, 4, 3)),
    "layer norm": (nn.LayerNorm(6), (4, 6)),
    "rms norm": (nn.RMSNorm(6), (4, 6)),
    "batch norm": (nn.BatchNorm2d(3), (4, 3, 2, 2)),
    "bilinear upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "gelu": (nn.GELU(), (3, 4)),
    "silu": (nn.SiLU(), (3, 4)),
    "prelu": (nn.PReLU(4), (3, 4)),
    "softmax": (nn.Softmax(1), (3, 4)),
    "max pool": (nn.MaxPool2d(2), (1, 2, 4, 4)),
    "avg pool": (nn.AvgPool2d(3, padding=1), (1, 2, 4, 4)),
    "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (2, 4)),
    "spectral norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)).eval(), (2, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module, shape = MODULES[name]
    compare_module(module, torch.randn(shape), tolerance=1e-4)


# ---- Autograd itself


def compare_with_cpu(function):
    """Compare the function's tensors on the CPU and on the device."""
    expected = function("cpu")
    got = function("sim")
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.device.type == "sim"
        close(mine, theirs)


def test_views_and_in_place():
    def run(device):
        leaf = torch.arange(12.0, device=device, requires_grad=True)
        x = leaf * 1
        x.view(3, 4)[1].mul_(2)
        x[::5].exp_()
        y = x.view(4, 3).t()
        y = y + y.select(0, 1)
        y[0].zero_()
        y.square().sum().backward()
        return (y.detach(), leaf.grad)

    compare_with_cpu(run)


def test_in_place_on_a_leaf_is_refused():
    leaf = torch.ones(2, device="sim", requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.add_(1)
    x = leaf.exp()
    x_squared = x * x
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x_squared.sum().backward()


def test_second_derivatives():
    def run(device):
        x = torch.linspace(0.1, 1, 5, device=device).requires_grad_()
        (first,) = torch.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return (first.detach(), second)

    compare_with_cpu(run)


def test_gradients_across_devices():
    x = torch.arange(3.0, requires_grad=True)
    y = x.sim() * 2
    z = (y.to("sim:1") * 3).cpu()
    z.square().sum().backward()
    assert x.grad.device.type == "cpu"
    close(x.grad, torch.arange(3.0) * 72)


def test_accumulation():
    weight = torch.ones(2, device="sim", requires_grad=True)
    for _ in range(3):
        (weight * 2).sum().backward()
    assert weight.grad.tolist() == [6, 6]


def test_hooks():
    seen = []
    leaf = torch.ones(2, device="sim", requires_grad=True)
    leaf.register_hook(lambda g: g * 10)
    leaf.register_post_accumulate_grad_hook(lambda p: seen.append(("leaf", p.grad.tolist())))
    middle = leaf * 3
    middle.register_hook(lambda g: seen.append(("middle", g.device.type, g.tolist())))
    middle.sum().backward()
    assert seen == [("middle", "sim", [1, 1]), ("leaf", [30, 30])]


def test_module_hooks():
    seen = []
    layer = nn.Linear(2, 1, bias=False).sim()
    layer.register_forward_hook(lambda m, i, o: seen.append(o.device.type))
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(tuple(gi[0].shape)))
    layer(torch.ones(3, 2, device="sim", requires_grad=True)).sum().backward()
    assert seen == ["sim", (3, 2)]


def test_saved_tensor_hooks():
    x = torch.arange(3.0, device="sim", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = x.exp() * x
    y.sum().backward()
    values = torch.arange(3.0)
    close(x.grad, values.exp() * (values + 1))


def test_anomaly_mode():
    x = torch.tensor([-1.0], device="sim", requires_grad=True)
    with (
        torch.autograd.detect_anomaly(),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"),
    ):
        (x.sqrt() * 0).sum().backward()
    with torch.autograd.detect_anomaly():
        y = torch.ones(2, device="sim", requires_grad=True)
        (y * 2).sum().backward()
    assert y.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ y,
        lambda x, y: (x * y.t()).relu() + x,
        lambda x, y: x.softmax(1) * y.t(),
        lambda x, y: nn.functional.conv1d(x[None], y[:, :, None]),
        lambda x, y: torch.linalg.solve(x @ x.t() + 5 * torch.eye(3, device=x.device, dtype=x.dtype), y[:3]),
        lambda x, y: torch.cat([x, y.t()]).logsumexp(0),
    ],
)
def test_gradcheck(function):
    x = torch.randn(3, 3, dtype=torch.float64).sim().requires_grad_()
    y = torch.randn(3, 3, dtype=torch.float64).sim().requires_grad_()
    assert torch.autograd.gradcheck(function, (x, y))


def test_gradgradcheck():
    x = torch.randn(3, 2, dtype=torch.float64).sim().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: (t.t() @ t).tanh(), (x,))


def test_custom_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    x = torch.tensor([2.0], device="sim", requires_grad=True)
    Cube.apply(x).backward()
    assert x.grad.tolist() == [12]


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2, device="sim") + 1
        x.add_(1)
        view = x[0]
    assert x.is_inference()
    assert view.is_inference()
    assert x.tolist() == [3, 3]


def test_backward_uses_the_streams_of_forward():
    stream = torch.sim.Stream()
    x = torch.full((1 << 20,), 2.0, device="sim", requires_grad=True)
    stream.wait_stream(torch.sim.current_stream())
    with torch.sim.stream(stream):
        loss = (x * x).sum()
    torch.sim.current_stream().wait_stream(stream)
    loss.backward()
    assert x.grad[0].item() == x.grad[-1].item() == 4.0


# ---- Kernels registered on autograd keys


@pytest.fixture
def custom_library():
    with torch.library._scoped_library("hpgrad", "FRAGMENT") as library:
        yield library


def test_autograd_kernel_for_the_device(custom_library):
    """Legacy registration: a Python autograd kernel on AutogradPrivateUse1."""
    calls = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.hpgrad.scale(x, factor)

        @staticmethod
        def backward(ctx, g):
            calls.append(g.device.type)
            return g * ctx.factor * 10, None  # 10 distinguishes this kernel from torch's

    custom_library.define("scale(Tensor x, float factor) -> Tensor")
    custom_library.impl("scale", lambda x, factor: x * factor, "CPU")
    custom_library.impl("scale", lambda x, factor: x * factor, "PrivateUse1")
    custom_library.impl("scale", Scale.apply, "AutogradPrivateUse1")
    x = torch.ones(2, device="sim", requires_grad=True)
    y = torch.ops.hpgrad.scale(x, 3.0)
    assert y.tolist() == [3, 3]
    y.sum().backward()
    assert x.grad.tolist() == [30, 30]
    assert calls == ["sim"]


def test_custom_op_decorator():
    @torch.library.custom_op("hpgrad2::twice", mutates_args=(), device_types="sim")
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    twice.register_autograd(lambda ctx, g: g * 2)
    x = torch.ones(2, device="sim", requires_grad=True)
    twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


# ---- functorch


def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ weight).square().sum(-1)


@pytest.mark.parametrize(
    "transform",
    [
        lambda x, w: vmap(model, in_dims=(0, None))(x, w),
        lambda x, w: grad(lambda t: model(x, t).sum())(w),
        lambda x, w: vmap(grad(model, argnums=1), in_dims=(0, None))(x, w),
        lambda x, w: jacrev(model, argnums=1)(x, w),
        lambda x, w: jacfwd(model, argnums=1)(x, w),
        lambda x, w: jvp(lambda t: model(x, t), (w,), (torch.ones_like(w),))[1],
        lambda x, w: vjp(lambda t: model(x, t), w)[1](torch.ones(len(x), device=w.device))[0],
        lambda x, w: torch.func.hessian(lambda t: model(x[0], t))(w),
        lambda x, w: vmap(lambda t: t.sort().values.cumsum(0))(x),
        lambda x, w: vmap(lambda t: torch.nn.functional.layer_norm(t, t.shape))(x),
    ],
)
def test_functorch(transform):
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(4, 3, generator=generator), torch.randn(3, 2, generator=generator)
    made = transform(x.sim(), weight.sim())
    assert made.device.type == "sim"
    close(made, transform(x, weight))


def test_per_sample_gradients():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3)
    results = []
    for device in ("cpu", "sim"):
        module = copy.deepcopy(net).to(device)
        parameters = {k: v.detach() for k, v in module.named_parameters()}

        def loss(weights, sample, module=module):
            return functional_call(module, weights, (sample,)).sum()

        results.append(vmap(grad(loss), in_dims=(None, 0))(parameters, x.to(device)))
    for name, mine in results[1].items():
        close(mine, results[0][name])


def test_vmap_randomness():
    made = vmap(lambda _: torch.rand(3, device="sim"), randomness="different")(torch.arange(2, device="sim"))
    assert made.is_sim
    assert made[0].tolist() != made[1].tolist()


# ---- Determinism


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


ALL_DTYPES = (
    torch.float32,
    torch.float16,
    torch.complex64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda d, t: torch.empty(5, device=d, dtype=t),
        lambda d, t: torch.empty((), device=d, dtype=t),
        lambda d, t: torch.empty(0, device=d, dtype=t),
        lambda d, t: torch.empty_strided((2, 3), (1, 2), device=d, dtype=t),
        lambda d, t: torch.empty_like(torch.zeros(3, device=d, dtype=t)),
        lambda d, t: torch.zeros(2, device=d, dtype=t).resize_(5),
    ],
    ids=["empty", "scalar", "nothing", "strided", "like", "resize"],
)
def test_uninitialized_memory_is_filled(deterministic, make, dtype):
    torch.testing.assert_close(make("sim", dtype).cpu(), make("cpu", dtype), equal_nan=True)


def test_uninitialized_memory_is_not_filled_if_disabled(deterministic):
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        torch.zeros(1000, device="sim")
        assert torch.empty(1000, device="sim").tolist() == [0] * 1000
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_training_is_deterministic(deterministic):
    net = DigitsNet()
    optimizer = functools.partial(torch.optim.Adam, lr=1e-2)
    assert losses(net, "sim", optimizer, 4) == losses(net, "sim", optimizer, 4)


def test_tensors_of_zeros_without_memory() -> None:
    zeros = torch._efficientzerotensor((3,), dtype=torch.complex64, device="sim")
    x = torch.ones(3, dtype=torch.complex64, device="sim")
    for product in (torch.dot(x, zeros), torch.vdot(zeros, x), torch.dot(x.conj(), zeros)):
        assert product._is_zerotensor()
        assert product.tolist() == 0
    assert x.clone().copy_(zeros).tolist() == [0, 0, 0]
    with forward_ad.dual_level():
        a, b = forward_ad.make_dual(x, x), forward_ad.make_dual(2 * x, zeros)
        product = forward_ad.unpack_dual(torch.dot(a, b))
        assert (product.primal.tolist(), product.tangent.tolist()) == (6, 6)
