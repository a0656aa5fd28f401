"""The third tier: operators in terms of others, where a device has no kernel of its own."""

from __future__ import annotations

import pytest
import torch

import hardpoint
from hardpoint.torch import decompositions


def tiers(name: str) -> set[str]:
    return set(hardpoint.counters().get(name, {}))


def cpu_calls() -> list[str]:
    return [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_runs_on_the_device(shape: tuple[int, ...], dtype: torch.dtype, counted) -> None:
    x = torch.rand(shape, dtype=dtype)
    actual = torch.logit(x.sim(), 0.1)
    torch.testing.assert_close(actual.cpu(), torch.logit(x, 0.1))
    assert tiers("aten::logit") == {"decomposition"}
    assert cpu_calls() == []


def test_backward(counted) -> None:
    x = torch.rand(6, requires_grad=True)
    y = x.detach().sim().requires_grad_()
    torch.logit(x, 1e-3).pow(2).sum().backward()
    torch.logit(y, 1e-3).pow(2).sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)
    assert cpu_calls() == []


def test_keyword_only_arguments(counted) -> None:
    x = torch.randn(4, 9)
    torch.testing.assert_close(torch.round(x.sim(), decimals=2).cpu(), torch.round(x, decimals=2))
    assert cpu_calls() == []


def test_out_and_in_place(counted) -> None:
    x = torch.rand(5, 4)
    out = torch.empty(0, device="sim")
    assert torch.logit(x.sim(), 0.1, out=out) is out
    torch.testing.assert_close(out.cpu(), torch.logit(x, 0.1))
    base = x.sim()
    base.t()[1:].logit_(0.1)
    expected = x.clone()
    expected.t()[1:].logit_(0.1)
    torch.testing.assert_close(base.cpu(), expected)
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
    for name in decompositions.REFUSED:
        packet, _, overload = name.removeprefix("aten::").partition(".")
        assert hasattr(getattr(torch.ops.aten, packet), overload or "default"), name


def test_mistakes_give_the_errors_of_torch() -> None:
    with pytest.raises(RuntimeError, match="logit"):
        torch.logit(torch.zeros(3, dtype=torch.complex64).sim())
