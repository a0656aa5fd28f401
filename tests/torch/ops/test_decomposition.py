"""Decompositions: operators composed of others, on a device without a kernel for them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import hardpoint
from hardpoint.ops import torch_overloads
from hardpoint.torch import decompositions

COUNT = itertools.count()
LIBRARY = torch.library.Library("hpdecomposed", "FRAGMENT")


def tiers(name: str) -> set[str]:
    return set(hardpoint.counters().get(name, {}))


def cpu_calls() -> list[str]:
    return [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers]


@pytest.mark.parametrize("shape", [(3,), (0, 3), (5, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_runs_on_the_device(shape: tuple[int, ...], dtype: torch.dtype, counted) -> None:
    x, y = torch.rand(shape, dtype=dtype), torch.rand(shape, dtype=dtype)
    actual = torch.linalg.cross(x.sim(), y.sim())
    torch.testing.assert_close(actual.cpu(), torch.linalg.cross(x, y))
    assert tiers("aten::linalg_cross.out") == {"decomposition"}
    assert cpu_calls() == []


def test_backward(counted) -> None:
    x, y = torch.rand(6, 3, requires_grad=True), torch.rand(6, 3)
    z = x.detach().sim().requires_grad_()
    torch.linalg.cross(x, y).pow(2).sum().backward()
    torch.linalg.cross(z, y.sim()).pow(2).sum().backward()
    torch.testing.assert_close(z.grad.cpu(), x.grad)
    assert cpu_calls() == []


def test_out_and_in_place(counted) -> None:
    x = torch.rand(5, 4) + 3
    out = torch.empty(0, device="sim")
    assert torch.mvlgamma(x.sim(), 2, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.mvlgamma(x, 2))
    base = x.sim()
    base.t()[1:].mvlgamma_(2)
    expected = x.clone()
    expected.t()[1:].mvlgamma_(2)
    torch.testing.assert_close(base.cpu(), expected)
    assert "decomposition" in tiers("aten::mvlgamma.out")
    assert cpu_calls() == []


@pytest.fixture
def own_operator() -> Any:
    """An operator that only has a CPU kernel, and whose decomposition was not looked up yet."""
    name = f"tripled_{next(COUNT)}"
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, lambda x: x * 3, "CPU")
    return getattr(torch.ops.hpdecomposed, name)


def decompose(monkeypatch: pytest.MonkeyPatch, wanted: Any, decomposition: Any) -> None:
    found = decompositions.find
    monkeypatch.setattr(
        decompositions,
        "find",
        lambda name: decomposition if name == wanted.default._schema.name else found(name),
    )


def test_recursive_decomposition_falls_back_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch, own_operator: Any, counted
) -> None:
    decompose(monkeypatch, own_operator, lambda x: own_operator(x))
    x = torch.randn(8)
    for _ in range(2):
        torch.testing.assert_close(own_operator(x.sim()).cpu(), x * 3)
    assert hardpoint.counters()[own_operator.default._schema.name] == {"cpu": 2}


def test_decomposition_that_ends_on_the_cpu_is_not_reused(
    monkeypatch: pytest.MonkeyPatch, own_operator: Any, counted
) -> None:
    asked = []

    def decomposition(x: torch.Tensor) -> torch.Tensor:
        asked.append(x.dtype)
        torch.linalg.eigvals(x[:4, None] * x[:4])
        return x + x + x

    decompose(monkeypatch, own_operator, decomposition)
    x = torch.randn(8, dtype=torch.float64)
    results = [own_operator(x.sim()).cpu() for _ in range(3)]
    assert asked == [torch.float64]
    assert all(torch.equal(r, results[0]) for r in results), "a call differs from the next one"
    torch.testing.assert_close(results[0], x * 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_fractions_and_exponents(dtype: torch.dtype, counted) -> None:
    info = torch.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, info.max, info.tiny, info.smallest_normal / 4]
    x = torch.cat([torch.tensor(special, dtype=torch.float64).to(dtype), torch.randn(500).exp().to(dtype)])
    for given in (x, x[:510].view(51, 10).T, x[:0]):
        mantissa, exponent = torch.frexp(given.sim())
        right = torch.frexp(given)
        torch.testing.assert_close(mantissa.cpu(), right.mantissa, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(mantissa.cpu().signbit(), right.mantissa.signbit())
        assert torch.equal(exponent.cpu(), right.exponent)
    assert cpu_calls() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_matrix_exponentials(dtype: torch.dtype, counted) -> None:
    for shape in ((0, 0), (1, 1), (5, 5), (2, 3, 4, 4), (0, 3, 3)):
        for size in (1e-3, 0.3, 2.0):
            a = torch.randn(shape, dtype=dtype) * size
            wide = a.to(torch.complex128 if dtype.is_complex else torch.float64)
            expected = torch.linalg.matrix_exp(wide).to(dtype)
            tolerance = {"rtol": 1e2 * torch.finfo(dtype).eps, "atol": 1e3 * torch.finfo(dtype).eps}
            torch.testing.assert_close(torch.linalg.matrix_exp(a.sim()).cpu(), expected, **tolerance)
    given = torch.randn(4, 4, dtype=dtype)
    gradients = []
    for x in (given.clone().requires_grad_(), given.sim().requires_grad_()):
        torch.linalg.matrix_exp(x).abs().sum().backward()
        assert x.grad is not None
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-3, atol=1e-4)
    assert cpu_calls() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (2, 7, 3), (0, 4, 3)], ids=str)
def test_least_squares(shape: tuple[int, ...], driver: str, dtype: torch.dtype, counted) -> None:
    a, b = torch.randn(shape, dtype=dtype), torch.randn(*shape[:-1], 3, dtype=dtype)
    pairs = [(a, b), (a, b[..., 0])]
    # Below full rank, torch's gelsy on the CPU is sometimes wrong: its pivots depend on uninitialized memory.
    if driver in ("gelsd", "gelss"):
        low = a.clone()
        low[..., 1] = 2 * low[..., 0]
        pairs.append((low, b))
    for left, right in pairs:
        expected = torch.linalg.lstsq(left, right, driver=driver)
        actual = torch.ops.aten.linalg_lstsq(left.sim(), right.sim(), driver=driver)
        for ours, theirs in zip(actual, expected, strict=True):
            scale = {"rtol": 1e-3, "atol": 1e-3} if dtype in (torch.float32, torch.complex64) else {}
            torch.testing.assert_close(ours.cpu(), theirs, **scale)
    assert cpu_calls() == []


@pytest.mark.parametrize(
    ("left", "right"),
    [((1, 4, 3), (4, 2)), ((2, 4, 3), (4, 5)), ((4, 3), (2, 4, 5)), ((5, 2, 4, 3), (2, 4, 1)), ((2, 4, 3), (1, 4, 2))],
    ids=str,
)
def test_lstsq_of_other_ranks_is_torchs(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = torch.randn(left), torch.randn(right)
    results = []
    for device in ("cpu", "sim"):
        try:
            results.append(torch.linalg.lstsq(a.to(device), b.to(device)).solution.cpu())
        except RuntimeError as error:
            results.append(str(error))
    if isinstance(results[0], torch.Tensor):
        torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3)
    else:
        assert results[1] == results[0]


def test_random_operators_are_not_decomposed() -> None:
    # The numbers for a seed must not depend on the tier.
    for name in ("aten::native_dropout", "aten::exponential_", "aten::normal_", "aten::uniform_"):
        assert decompositions.find(name) is None


def test_excluded_operators_exist() -> None:
    for name in torch_overloads.NOT_DECOMPOSED:
        packet, _, overload = name.partition(".")
        assert hasattr(getattr(torch.ops.aten, packet), overload or "default"), name
        assert decompositions.find(f"aten::{name}") is None


def test_errors_are_torchs() -> None:
    with pytest.raises(RuntimeError, match="logit"):
        torch.logit(torch.zeros(3, dtype=torch.complex64).sim())


@pytest.mark.parametrize("mask_type", [None, 0, 1, 2])
@pytest.mark.parametrize("inputs", [(0, 0, 0), (0, 1, 1), (0, 1, 2)], ids=str)
def test_attention_of_the_fast_path(inputs: tuple[int, ...], mask_type: int | None, counted) -> None:
    width, heads = 8, 2
    mask = None
    if mask_type is not None:
        mask = torch.rand({0: (5, 5), 1: (3, 5), 2: (3, heads, 5, 5)}[mask_type]) > 0.5
        mask[..., 0] = False
    tensors = [torch.randn(3, 5, width) for _ in range(3)]
    weights = [torch.randn(3 * width, width), torch.randn(3 * width), torch.randn(width, width), torch.randn(width)]
    for wanted, average in itertools.product((True, False), repeat=2):
        results = []
        for device in ("cpu", "sim"):
            moved = [t.to(device) for t in tensors]
            arguments = [*(moved[i] for i in inputs), width, heads, *(w.to(device) for w in weights)]
            on_device = None if mask is None else mask.to(device)
            results.append(torch._native_multi_head_attention(*arguments, on_device, wanted, average, mask_type))
        (right, right_weights), (ours, our_weights) = results
        torch.testing.assert_close(ours.cpu(), right, rtol=1e-4, atol=1e-4)
        if wanted:
            torch.testing.assert_close(our_weights.cpu(), right_weights, rtol=1e-4, atol=1e-5)
        else:
            assert our_weights is None
            assert right_weights is None
    assert cpu_calls() == []


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_in_inference(norm_first: bool, activation: str, counted) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=norm_first, activation=activation
    ).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False, False, False, True, True]])
    with torch.inference_mode():
        right = [layer(x), layer(x, src_key_padding_mask=padding)]
        layer.to("sim")
        ours = [layer(x.sim()), layer(x.sim(), src_key_padding_mask=padding.sim())]
    for a, b in zip(ours, right, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
    assert tiers("aten::_transformer_encoder_layer_fwd") == {"decomposition"}
    assert cpu_calls() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 2, 1, None])
def test_gradients_of_weight_norm(dim: int | None, dtype: torch.dtype, counted) -> None:
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 3, 2, dtype=dtype), dim=dim)
    gradients = []
    for device in ("cpu", "sim"):
        module.zero_grad()
        module.to(device).weight.float().sin().sum().backward()
        gradients.append([p.grad.cpu() for p in module.parameters() if p.grad is not None])
    assert len(gradients[0]) == 2
    torch.testing.assert_close(gradients[1], gradients[0])
    assert cpu_calls() == []
