"""Common subexpression elimination: repeated operators run once, unless that would change results."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from hardpoint.graph.report import Explanation, _listening

RUNS = 3  # one plain, one recorded, one replayed

#: Random operators. Every call must draw new numbers.
DRAWS = {
    "randn_like": torch.randn_like,
    "rand_like": torch.rand_like,
    "randint_like": lambda x: torch.randint_like(x, 1 << 20),
    "uniform": lambda x: torch.empty_like(x).uniform_(),
    "exponential": lambda x: torch.empty_like(x).exponential_(),
    "cauchy": lambda x: torch.empty_like(x).cauchy_(),
    "log_normal": lambda x: torch.empty_like(x).log_normal_(),
    "geometric": lambda x: torch.empty_like(x).geometric_(1e-3),
    "random": lambda x: torch.empty_like(x).random_(),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.5)),
    "dropout": F.dropout,
    "alpha_dropout": lambda x: F.alpha_dropout(x, training=True),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "gumbel_softmax": F.gumbel_softmax,
}


def runs(function, *inputs):
    """Compare every run with eager mode under the same seed; returns the last results and the graphs."""
    made = Explanation()
    with _listening(made):
        graph = torch.compile(function, backend="hardpoint")
        for _ in range(RUNS):
            results = []
            for mode in (function, graph):
                torch.manual_seed(7)
                results.append(mode(*inputs))
            torch.testing.assert_close(results[1], results[0])
    return results[1], made.graphs


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", DRAWS)
def test_random_operators_are_not_merged(name, grad):
    draw = DRAWS[name]
    x = torch.ones(64, 4, device="sim", requires_grad=grad)
    (one, other), _ = runs(lambda x: (x * draw(x), x * draw(x)), x)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", DRAWS)
def test_backward_uses_the_drawn_numbers(name):
    draw = DRAWS[name]
    x = torch.ones(64, 4, device="sim", requires_grad=True)
    made = torch.compile(lambda x: x * draw(x.detach()).sigmoid().square(), backend="hardpoint")
    for _ in range(RUNS):
        result = made(x)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        torch.testing.assert_close(gradient, result)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_equal_operators_are_merged(grad):
    x = torch.randn(8, 8, device="sim", requires_grad=grad)
    mask = torch.rand(8, 8, device="sim") > 0.5

    def layers(x, mask, count):
        for _ in range(count):
            x = (x + torch.where(mask, 0.0, -5.0)).softmax(1)
        return x

    counts = [sum(g.nodes for g in runs(lambda x, m, c=c: layers(x, m, c), x, mask)[1]) for c in (1, 2, 3)]
    # Each layer adds a sum and a softmax, in training also two views for the gradient; the mask is computed once.
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [4 if grad else 2] * 2


def test_results_do_not_alias():
    x = torch.randn(5, device="sim")
    (one, other), _ = runs(lambda x: ((x + 1).exp(), (x + 1).exp()), x)
    one.zero_()
    torch.testing.assert_close(other, (x + 1).exp())


def test_constants_that_compare_equal_are_distinct():
    x = torch.randint(-5, 5, (6,), device="sim")
    (whole, real, minus, plus), _ = runs(lambda x: (x * 1, x * 1.0, torch.copysign(x, -0.0), torch.copysign(x, 0.0)), x)
    assert (whole.dtype, real.dtype) == (torch.int64, torch.float32)
    assert not torch.equal(minus, plus)


def test_reads_after_a_write_are_not_merged():
    x = torch.randn(6, device="sim")

    def function(x, buffer):
        before = buffer.exp() * 2
        buffer.add_(x)
        return before + buffer.exp() * 3

    for mode in (function, torch.compile(function, backend="hardpoint")):
        buffer = torch.ones(6, device="sim")
        results = [mode(x, buffer) for _ in range(RUNS)]
        total = torch.ones(6, device="sim")
        for result in results:
            expected = total.exp() * 2 + (total + x).exp() * 3
            torch.testing.assert_close(result, expected)
            total = total + x


@pytest.mark.parametrize("capture", [False, True], ids=["broken", "whole"])
def test_data_dependent_sizes(capture):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=capture):
        x = torch.tensor([1.0, 0.0, 3.0, 0.0], device="sim")
        found, _ = runs(lambda x: x.nonzero().sum() + x.nonzero().sum() * 2, x)
    assert found.item() == 6


def test_custom_operators_are_not_merged():
    calls = []

    @torch.library.custom_op("hardpoint_test_cse::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    counted.register_fake(torch.empty_like)
    x = torch.zeros(3, device="sim")
    made = torch.compile(lambda x: counted(x) * 10 + counted(x), backend="hardpoint")
    with torch.no_grad():
        assert made(x).tolist() == [12.0] * 3
    assert len(calls) == 2
