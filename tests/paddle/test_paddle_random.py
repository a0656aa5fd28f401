"""Random numbers: distributions, reproducibility, and generation on the device."""

from __future__ import annotations

import numpy as np
import paddle
import pytest

import hardpoint

N = 40_000
MADE = {
    "normal": lambda: paddle.normal(1.0, 2.0, [N]),
    "randn": lambda: paddle.randn([N]),
    "uniform": lambda: paddle.uniform([N], min=-2.0, max=3.0),
    "uniform in half precision": lambda: paddle.uniform([N], "float32", -1.0, 1.0).astype("float16"),
    "double": lambda: paddle.rand([N], "float64"),
    "whole": lambda: paddle.randint(-3, 9, [N]),
    "whole in 32 bits": lambda: paddle.randint(0, 5, [N], "int32"),
    "permutation": lambda: paddle.randperm(N),
    "coin": lambda: paddle.bernoulli(paddle.full([N], 0.3)),
    "exponential": lambda: paddle.zeros([N]).exponential_(2.0),
    "poisson": lambda: paddle.poisson(paddle.full([N], 3.5)),
    "gamma": lambda: paddle.standard_gamma(paddle.full([N], 2.5)),
    "normal in place": lambda: paddle.zeros([N]).normal_(0.5, 0.1),
    "uniform in place": lambda: paddle.zeros([N]).uniform_(2.0, 4.0),
    "truncated": lambda: truncated(0.5, 2.0, -1.0, 1.0),
    "categories": lambda: paddle.multinomial(paddle.to_tensor([0.1, 0.0, 0.6, 0.3]), N, True),
    "categories once": lambda: paddle.multinomial(paddle.ones([200, 20]), 7),
}


def truncated(mean, std, low, high):
    layer = paddle.nn.initializer.TruncatedNormal(mean, std, low, high)
    parameter = paddle.create_parameter([N], "float32", default_initializer=layer)
    return parameter.detach()


def drawn(name, device, seed):
    paddle.set_device(device)
    paddle.seed(seed)
    return MADE[name]().numpy()


@pytest.mark.parametrize("name", MADE)
def test_the_same_seed_gives_the_same_numbers(name):
    first, again, other = (drawn(name, "sim:0", seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("name", MADE)
def test_a_second_draw_differs(name):
    paddle.seed(3)
    assert (MADE[name]().numpy() != MADE[name]().numpy()).any()


@pytest.mark.parametrize("name", MADE)
def test_distribution_equals_the_cpus(rng, counted, name):
    """Compare moments and quantiles of two samples, within 6 standard deviations."""
    seed = int(rng.integers(1 << 30))
    expected, found = drawn(name, "cpu", seed), drawn(name, "sim:0", seed + 1)
    assert {op: tiers for op, tiers in hardpoint.counters().items() if "cpu" in tiers} == {}
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    e, f = (np.sort(x.astype("float64").ravel()) for x in (expected, found))
    bound = 6 * np.sqrt(2 / f.size)
    assert abs(f.mean() - e.mean()) <= bound * max(e.std(), 1e-9)
    assert f.std() == pytest.approx(e.std(), rel=bound * 3)
    # Compare the cumulative distribution at some quantiles; works for discrete and continuous distributions.
    for cut in np.quantile(e, [0.05, 0.25, 0.5, 0.75, 0.95]):
        assert abs((f <= cut).mean() - (e <= cut).mean()) <= bound / 2


def test_permutations_and_samples_have_no_repeats():
    assert sorted(paddle.randperm(1000).numpy()) == list(range(1000))
    assert paddle.randperm(0).shape == [0]
    for row in paddle.multinomial(paddle.rand([50, 9]), 9).numpy():
        assert sorted(row) == list(range(9))


def test_bounds():
    x = paddle.uniform([N], min=-2.0, max=3.0).numpy()
    assert x.min() >= -2
    assert x.max() < 3
    x = truncated(0.5, 2.0, -1.0, 1.0).numpy()
    assert x.min() >= -1
    assert x.max() <= 1
    assert set(paddle.multinomial(paddle.to_tensor([0.1, 0.0, 0.6]), 1000, True).numpy()) == {0, 2}


def test_explicit_seed():
    first, again = (paddle.uniform([100], min=0.0, max=1.0, seed=5).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_generator_state():
    paddle.seed(11)
    state = paddle.get_rng_state("sim:0")
    first = paddle.randn([50]).numpy()
    paddle.set_rng_state(state, "sim:0")
    np.testing.assert_array_equal(paddle.randn([50]).numpy(), first)


def test_the_seed_reaches_static_graphs():
    """Set in static graph mode, in which Paddle has no current device."""
    numbers = []
    paddle.enable_static()
    try:
        for seed in (5, 5, 6):
            with paddle.static.program_guard(paddle.static.Program()):
                paddle.seed(seed)
                program, drawn = paddle.static.default_main_program(), paddle.uniform([100])
                numbers.append(paddle.static.Executor(paddle.CustomPlace("sim", 0)).run(program, fetch_list=[drawn])[0])
    finally:
        paddle.disable_static()
    assert np.array_equal(numbers[0], numbers[1])
    assert not np.array_equal(numbers[0], numbers[2])
