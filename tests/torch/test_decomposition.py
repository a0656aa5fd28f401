"""The third tier: operators in terms of others, where a device has no kernel of its own."""

from __future__ import annotations

import pytest
import torch

import hardpoint
from hardpoint.ops import torch_overloads
from hardpoint.torch import decompositions


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


def test_one_that_comes_back_to_itself_goes_to_the_cpu(counted) -> None:
    x = torch.randn(8)
    for _ in range(2):
        mantissa, exponent = torch.frexp(x.sim())
        assert torch.equal(mantissa.cpu(), torch.frexp(x)[0])
        assert torch.equal(exponent.cpu(), torch.frexp(x)[1])
    assert hardpoint.counters()["aten::frexp.Tensor_out"]["cpu"] >= 1


def test_one_that_ends_on_the_cpu_is_not_used_again(monkeypatch: pytest.MonkeyPatch, counted) -> None:
    asked = []
    found = decompositions.find

    def find(name: str):
        if name != "aten::linalg_matrix_exp":
            return found(name)

        def decomposition(a):
            asked.append(a.dtype)
            values, vectors = torch.linalg.eig(a)
            return (vectors * values.exp() @ torch.linalg.inv(vectors)).real

        return decomposition

    monkeypatch.setattr(decompositions, "find", find)
    a = torch.randn(4, 4, dtype=torch.float64)
    expected = torch.linalg.matrix_exp(a)
    results = [torch.linalg.matrix_exp(a.sim()).cpu() for _ in range(3)]
    assert asked == [torch.float64]
    assert all(torch.equal(r, results[0]) for r in results), "a call differs from the next one"
    torch.testing.assert_close(results[0], expected)


def test_random_operators_are_not_decomposed() -> None:
    # Which tier serves must not change the numbers that a seed gives.
    for name in ("aten::native_dropout", "aten::exponential_", "aten::normal_", "aten::uniform_"):
        assert decompositions.find(name) is None


def test_refused_ones_exist() -> None:
    for name in torch_overloads.NOT_DECOMPOSED:
        packet, _, overload = name.partition(".")
        assert hasattr(getattr(torch.ops.aten, packet), overload or "default"), name
        assert decompositions.find(f"aten::{name}") is None


def test_mistakes_give_the_errors_of_torch() -> None:
    with pytest.raises(RuntimeError, match="logit"):
        torch.logit(torch.zeros(3, dtype=torch.complex64).sim())
