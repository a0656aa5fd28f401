"""Random operators: the mapping from generator state to elements, distributions, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

# ---- Every random operator: reproducible, and independent of the CPU generator

RANDOM = {
    "rand": lambda: torch.rand(50, device="sim"),
    "randn": lambda: torch.randn(50, device="sim"),
    "randint": lambda: torch.randint(0, 1000, (50,), device="sim"),
    "randperm": lambda: torch.randperm(50, device="sim"),
    "rand_like": lambda: torch.rand_like(torch.empty(50, device="sim")),
    "randn_like": lambda: torch.randn_like(torch.empty(50, device="sim")),
    "dropout": lambda: torch.dropout(torch.ones(50, device="sim"), 0.5, True),
    "native_dropout": lambda: torch.native_dropout(torch.ones(50, device="sim"), 0.5, True)[0],
    "bernoulli": lambda: torch.bernoulli(torch.full((50,), 0.5, device="sim")),
    "multinomial": lambda: torch.multinomial(torch.ones(50, device="sim"), 20),
    "normal_": lambda: torch.empty(50, device="sim").normal_(1, 2),
    "exponential_": lambda: torch.empty(50, device="sim").exponential_(),
    "random_": lambda: torch.empty(50, device="sim").random_(),
    "poisson": lambda: torch.poisson(torch.full((50,), 20.0, device="sim")),
    "rrelu": lambda: torch.nn.functional.rrelu(-torch.ones(50, device="sim"), training=True),
    "gamma": lambda: torch._standard_gamma(torch.ones(50, device="sim")),
    "normal": lambda: torch.normal(torch.zeros(50, device="sim"), torch.ones(50, device="sim")),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_operators(name):
    draw = RANDOM[name]
    torch.manual_seed(3)
    cpu_state = torch.get_rng_state()
    first, second = draw(), draw()
    assert torch.equal(torch.get_rng_state(), cpu_state), "the CPU's generator was disturbed"
    torch.rand(7)  # must not matter either
    torch.sim.manual_seed(3)
    again = draw()
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    torch.sim.manual_seed(4)
    assert not torch.equal(first.cpu(), draw().cpu())


# ---- The mapping from generator state to elements (kernels/sources/random.c)

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DIGITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def philox(seed: int, counter: int) -> list[int]:
    """Philox 4x32-10 of Salmon et al. 2011, in plain integers."""
    mask = 2**32 - 1
    c = [counter >> (32 * i) & mask for i in range(4)]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def words(seed: int, first: int, count: int) -> list[int]:
    blocks = [philox(seed, first + i) for i in range((count + 3) // 4)]
    return [word for block in blocks for word in block][:count]


def test_the_generator_itself():
    # Known answers published by the authors.
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(2**64 - 1, 2**128 - 1) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("dtype", DIGITS, ids=str)
@pytest.mark.parametrize("offset", [0, 7, 2**32 - 3, 2**40])
def test_rule_of_uniform(dtype, offset, counted):
    seed, n = 2**40 + 17, 41
    generator = torch.Generator(device="sim").manual_seed(seed)
    generator.set_offset(offset)
    drawn = torch.empty(n, dtype=dtype, device="sim").uniform_(generator=generator)
    unit = torch.tensor([(w >> 8) / 2**24 for w in words(seed, offset, n)]).to(dtype)
    assert drawn.tolist() == torch.where(unit < 1, unit, 0).tolist()
    assert generator.get_offset() == offset + 11
    assert counted()["aten::uniform_"] == {"portable": 1}


def test_rule_of_64_bits():
    seed, n = 5, 9
    generator = torch.Generator(device="sim").manual_seed(seed)
    pairs = words(seed, 0, 20)
    pairs = [pairs[2 * i] | pairs[2 * i + 1] << 32 for i in range(n)]
    drawn = torch.empty(n, dtype=torch.float64, device="sim").uniform_(generator=generator)
    assert drawn.tolist() == [(p >> 11) / 2**53 for p in pairs]
    assert generator.get_offset() == 5
    generator.manual_seed(seed)
    integers = torch.empty(n, dtype=torch.int64, device="sim").random_(-(2**63), None, generator=generator)
    assert integers.tolist() == [p - 2**64 if p >= 2**63 else p for p in pairs]
    generator.manual_seed(seed)
    wide = torch.empty(n, dtype=torch.int64, device="sim").random_(3, 3 + 2**40, generator=generator)
    assert wide.tolist() == [3 + p % 2**40 for p in pairs]


def test_rule_of_integers_and_choices():
    generator = torch.Generator(device="sim").manual_seed(3)
    drawn = torch.randint(-5, 95, (30,), device="sim", generator=generator)
    assert drawn.tolist() == [-5 + (w * 100 >> 32) for w in words(3, 0, 30)]
    chosen = torch.empty(10, dtype=torch.bool, device="sim").bernoulli_(0.25, generator=generator)
    assert chosen.tolist() == [w < 2**30 for w in words(3, 8, 10)]


@pytest.mark.parametrize("n", [1, 3, 4, 5, 4095, 4096, 4097, 20001])
@pytest.mark.parametrize("draw_into", ["uniform_", "normal_", "exponential_"])
def test_length_does_not_matter(n, draw_into):
    long = getattr(torch.empty(30000, device="sim"), draw_into)(generator=torch.Generator("sim").manual_seed(1))
    short = getattr(torch.empty(n, device="sim"), draw_into)(generator=torch.Generator("sim").manual_seed(1))
    assert torch.equal(short.cpu(), long[:n].cpu())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_strides_do_not_matter(dtype):
    def drawn(empty: torch.Tensor, fill: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(4)
        return fill(empty).cpu().contiguous()

    for fill in (
        lambda t: t.uniform_(-1, 3),
        lambda t: t.normal_(2, 3),
        lambda t: t.cauchy_(),
        lambda t: t.bernoulli_(torch.full_like(t, 0.3)),
        lambda t: torch.nn.functional.dropout(t.fill_(1), 0.4),
        lambda t: torch.nn.functional.rrelu(t.fill_(-1), training=True),
    ):
        expected = drawn(torch.empty(33, 65, dtype=dtype, device="sim"), fill)
        assert torch.equal(drawn(torch.empty(65, 33, dtype=dtype, device="sim").t(), fill), expected)
        assert torch.equal(drawn(torch.empty(33, 130, dtype=dtype, device="sim")[:, ::2], fill), expected)


def test_gaps_stay():
    whole = torch.zeros(8, 10, device="sim")
    whole[:, ::2].uniform_(1, 2)
    assert (whole[:, 1::2] == 0).all()
    assert (whole[:, ::2] >= 1).all()


def test_devices_agree():
    one, two = (torch.randn(1000, device=d, generator=torch.Generator(d).manual_seed(8)) for d in ("sim:0", "sim:1"))
    assert torch.equal(one.cpu(), two.cpu())


# ---- Distributions. Bounds hold for all but one seed in a million: five standard deviations or an equivalent.

SAMPLES = 100_003


def kolmogorov(sample: torch.Tensor, cdf: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Kolmogorov-Smirnov statistic, scaled such that one sample in a million exceeds 2.7."""
    values = sample.cpu().double().sort()[0]
    n = len(values)
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    at = cdf(values)
    return float(torch.maximum((steps[1:] - at).max(), (at - steps[:-1]).max())) * math.sqrt(n)


CONTINUOUS = {
    "uniform_": ((-2.0, 5.0), lambda x: (x + 2) / 7),
    "normal_": ((1.5, 0.7), lambda x: torch.special.ndtr((x - 1.5) / 0.7)),
    "log_normal_": ((0.3, 0.6), lambda x: torch.special.ndtr((x.log() - 0.3) / 0.6)),
    "exponential_": ((2.5,), lambda x: 1 - torch.exp(-2.5 * x)),
    "cauchy_": ((1.0, 2.0), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_continuous(name, dtype, counted):
    parameters, cdf = CONTINUOUS[name]
    sample = getattr(torch.empty(SAMPLES, dtype=dtype, device="sim"), name)(*parameters)
    assert kolmogorov(sample, cdf) < 2.7
    halves = sample.cpu().double()
    ranks = cdf(halves)  # neighbors are independent, also at the distance of a pair and of a block
    for lag in (1, 2, 4, 64):
        correlation = torch.corrcoef(torch.stack([ranks[:-lag], ranks[lag:]]))[0, 1].item()
        assert abs(correlation) < 5 / math.sqrt(SAMPLES)
    assert not any("cpu" in tiers for tiers in counted().values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_low_precision(dtype):
    unit = torch.empty(SAMPLES, dtype=dtype, device="sim").uniform_().float().cpu()
    step = 2.0 ** -DIGITS[dtype]
    assert unit.max() == 1 - step  # never 1
    assert abs(unit.mean() - (0.5 - step / 2)) < 5 * 0.289 / math.sqrt(SAMPLES)
    assert len(unit.unique()) > 1000  # finer near zero
    other = torch.empty(SAMPLES, dtype=dtype, device="sim").uniform_(1, 2)
    assert other.min() == 1
    assert other.max() == 2 - 2 * step
    normal = torch.empty(SAMPLES, dtype=dtype, device="sim").normal_().float().cpu()
    assert abs(normal.mean()) < 5 / math.sqrt(SAMPLES)
    assert abs(normal.std() - 1) < 0.01
    assert (torch.empty(SAMPLES, dtype=dtype, device="sim").exponential_() > 0).all()


def test_consecutive_calls_are_independent():
    first, second = torch.randn(SAMPLES, device="sim").cpu(), torch.randn(SAMPLES, device="sim").cpu()
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 5 / math.sqrt(SAMPLES)


def chi_square(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """p-value of the chi-square test."""
    expected = probabilities.double() * counts.sum()
    used = expected > 5
    freedom = int(used.sum()) - 1
    statistic = ((counts.double() - expected)[used] ** 2 / expected[used]).sum().item()
    return torch.special.gammaincc(torch.tensor(freedom / 2), torch.tensor(statistic / 2)).item()


def poisson_pmf(rate: float, k: torch.Tensor) -> torch.Tensor:
    return torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1))


def binomial_pmf(n: float, p: float, k: torch.Tensor) -> torch.Tensor:
    choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return torch.exp(choose + k * math.log(p) + (n - k) * math.log1p(-p))


K = torch.arange(200, dtype=torch.float64)
DISCRETE = {
    "geometric": (lambda: torch.empty(SAMPLES, device="sim").geometric_(0.3), 0.7 ** (K - 1) * 0.3 * (K > 0)),
    "geometric of int": (
        lambda: torch.empty(SAMPLES, dtype=torch.int32, device="sim").geometric_(0.1),
        0.9 ** (K - 1) * 0.1 * (K > 0),
    ),
    "randint": (lambda: torch.randint(3, 40, (SAMPLES,), device="sim"), ((K >= 3) & (K < 40)) / 37),
    "poisson 3": (lambda: torch.poisson(torch.full((SAMPLES,), 3.0, device="sim")), poisson_pmf(3, K)),
    "poisson 40": (lambda: torch.poisson(torch.full((SAMPLES,), 40.0, device="sim")), poisson_pmf(40, K)),
    "binomial 12": (
        lambda: torch.binomial(*(torch.full((SAMPLES,), v, device="sim") for v in (12.0, 0.8))),
        binomial_pmf(12, 0.8, K.clamp(max=12)) * (K <= 12),
    ),
    "binomial 90": (
        lambda: torch.binomial(*(torch.full((SAMPLES,), v, device="sim") for v in (90.0, 0.3))),
        binomial_pmf(90, 0.3, K.clamp(max=90)) * (K <= 90),
    ),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([1.0, 0, 3, 2], device="sim"), SAMPLES, replacement=True),
        torch.cat([torch.tensor([1.0, 0, 3, 2]) / 6, torch.zeros(196)]),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name, counted):
    sample, probabilities = DISCRETE[name]
    values = sample().cpu()
    used = {name: tiers for name, tiers in counted().items() if "cpu" in tiers}
    assert not used
    counts = torch.bincount(values.long(), minlength=200)
    assert (counts[probabilities == 0] == 0).all()
    assert chi_square(counts, probabilities) > 1e-6


@pytest.mark.parametrize("shape", [0.2, 1.0, 4.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gamma(shape, dtype):
    sample = torch._standard_gamma(torch.full((SAMPLES,), shape, dtype=dtype, device="sim"))
    assert kolmogorov(sample, lambda x: torch.special.gammainc(torch.full_like(x, shape), x)) < 2.7


def test_dirichlet():
    concentration = torch.tensor([0.5, 2.0, 3.5], device="sim")
    sample = torch.distributions.Dirichlet(concentration).sample((20000,)).cpu().double()
    torch.testing.assert_close(sample.sum(-1), torch.ones(20000, dtype=torch.float64))
    mean = concentration.cpu().double() / 6
    deviation = (mean * (1 - mean) / 7).sqrt()
    assert ((sample.mean(0) - mean).abs() < 5 * deviation / math.sqrt(20000)).all()


def test_large_parameters():
    for rate in (1e4, 1e7):
        sample = torch.poisson(torch.full((SAMPLES,), rate, device="sim")).cpu().double()
        assert abs(sample.mean() - rate) < 5 * math.sqrt(rate / SAMPLES)
        assert abs(sample.std() / math.sqrt(rate) - 1) < 0.01


def test_special_parameters():
    nan = float("nan")
    assert torch.poisson(torch.tensor([0.0, nan], device="sim")).tolist()[0] == 0
    assert torch.poisson(torch.tensor([nan], device="sim")).isnan().all()
    count, p = torch.tensor([5.0, 5.0, 0.0], device="sim"), torch.tensor([0.0, 1.0, 0.5], device="sim")
    assert torch.binomial(count, p).tolist() == [0, 5, 0]
    assert torch.bernoulli(torch.tensor([0.0, 1.0] * 500, device="sim")).tolist() == [0, 1] * 500
    assert (torch.empty(1000, device="sim").bernoulli_(1) == 1).all()
    assert (torch.empty(1000, device="sim").bernoulli_(0) == 0).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, *FLOATS])
def test_random_of_every_dtype(dtype):
    sample = torch.empty(SAMPLES, dtype=dtype, device="sim").random_().cpu().double()
    digits = 53 if dtype is torch.float64 else DIGITS.get(dtype)
    top = 2.0**digits if digits else 1.0 if dtype is torch.bool else float(torch.iinfo(dtype).max)
    assert 0 <= sample.min() <= top * 1e-3
    assert top * 0.999 <= sample.max() <= top
    assert abs(sample.mean() / top - 0.5) < 0.004


def test_normal_of_tensors():
    mean, std = torch.arange(4.0, device="sim"), torch.tensor([[0.1], [10.0]], device="sim")
    sample = torch.normal(mean.expand(5000, 2, 4), std.expand(5000, 2, 4)).cpu()
    torch.testing.assert_close(sample.std(0), std.cpu().expand(2, 4), rtol=0.05, atol=0)
    assert ((sample.mean(0) - mean.cpu()).abs() < 5 * std.cpu() / math.sqrt(5000)).all()
    assert torch.normal(mean, 0.0).tolist() == [0, 1, 2, 3]
    out = torch.empty(0, device="sim")
    torch.normal(2.0, std, out=out)
    assert out.shape == (2, 1)
    spread = torch.randn(SAMPLES, dtype=torch.complex64, device="sim").cpu()
    assert abs(spread.real.var() - 0.5) < 0.01
    assert abs(spread.imag.var() - 0.5) < 0.01


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16])
def test_randperm(n, dtype, counted):
    drawn = torch.randperm(n, dtype=dtype, device="sim")
    assert drawn.dtype == dtype
    assert drawn.sort()[0].tolist() == list(range(n))
    assert "cpu" not in counted().get("aten::randperm.generator_out", {})


def test_every_permutation():
    seen = torch.stack([torch.randperm(3, device="sim") for _ in range(1200)]).cpu()
    numbers = torch.bincount((seen * torch.tensor([9, 3, 1])).sum(1), minlength=27)
    assert (numbers > 0).sum() == 6
    assert chi_square(numbers[numbers > 0], torch.full((6,), 1 / 6)) > 1e-6


def test_multinomial_without_replacement():
    weights = torch.tensor([[0.0, 1, 2, 3], [4, 0, 1, 1]], device="sim")
    for _ in range(20):
        drawn = torch.multinomial(weights, 3).cpu()
        assert sorted(drawn[0].tolist()) == [1, 2, 3]
        assert sorted(drawn[1].tolist()) == [0, 2, 3]


WRONG = [
    lambda d: torch.empty(3, device=d).uniform_(2, 1),
    lambda d: torch.empty(3, device=d, dtype=torch.half).uniform_(0, 1e6),
    lambda d: torch.empty(3, device=d).normal_(0, -1),
    lambda d: torch.empty(3, device=d).exponential_(-1),
    lambda d: torch.empty(3, device=d).geometric_(1.5),
    lambda d: torch.empty(3, device=d).cauchy_(0, -1),
    lambda d: torch.empty(3, device=d).log_normal_(0, 0),
    lambda d: torch.empty(3, device=d).bernoulli_(1.5),
    lambda d: torch.empty(3, device=d).random_(5, 2),
    lambda d: torch.empty(3, device=d, dtype=torch.uint8).random_(0, 1000),
    lambda d: torch.multinomial(torch.tensor([1.0, -1.0], device=d), 5, replacement=True),
    lambda d: torch.multinomial(torch.tensor([0.0, 0.0], device=d), 5, replacement=True),
    lambda d: torch.multinomial(torch.ones(3, device=d), 4),
    lambda d: torch.nn.functional.dropout(torch.ones(3, device=d), 1.5),
    lambda d: torch.randperm(-1, device=d),
]


@pytest.mark.parametrize("call", WRONG)
def test_errors_are_those_of_the_cpu(call):
    with pytest.raises((RuntimeError, ValueError)) as expected:
        call("cpu")
    with pytest.raises(type(expected.value)) as actual:
        call("sim")
    assert str(actual.value).split("\n")[0] == str(expected.value).split("\n")[0]


def test_empty():
    for draw_into in ("uniform_", "normal_", "exponential_", "random_", "bernoulli_"):
        assert getattr(torch.empty(0, 3, device="sim"), draw_into)().shape == (0, 3)
    for sample in (torch.poisson, torch.bernoulli, torch._standard_gamma):
        assert sample(torch.empty(0, device="sim")).shape == (0,)


# ---- Dropout


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout(dtype, counted):
    x = (torch.rand(SAMPLES) + 0.5).to(dtype).sim().requires_grad_()
    y = torch.nn.functional.dropout(x, 0.3)
    y.backward(torch.full_like(y, 3))
    assert counted()["aten::native_dropout"] == {"portable": 1}
    assert counted()["aten::native_dropout_backward"] == {"portable": 1}
    kept = (y != 0).cpu()
    assert abs(kept.double().mean() - 0.7) < 5 * math.sqrt(0.21 / SAMPLES)
    scale = 1 / 0.7
    torch.testing.assert_close(y.detach().cpu(), (x.detach().cpu().double() * kept * scale).to(dtype))
    torch.testing.assert_close(x.grad.cpu(), (kept * 3 * scale).to(dtype))


def test_dropout_at_the_ends():
    x = torch.rand(100, device="sim", requires_grad=True)
    assert torch.equal(torch.nn.functional.dropout(x, 0.0).cpu(), x.detach().cpu())
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False).cpu(), x.detach().cpu())
    assert (torch.nn.functional.dropout(x, 1.0) == 0).all()
    out, mask = torch.native_dropout(x.detach(), 0.5, False)
    assert torch.equal(out.cpu(), x.detach().cpu())
    assert mask.all()
    out, mask = torch.native_dropout(x.detach(), 1.0, True)
    assert not mask.any()
    assert (out == 0).all()


def test_rrelu():
    x = torch.randn(SAMPLES, device="sim")
    noise = torch.empty_like(x)
    y = torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.4, True)
    negative = x <= 0
    assert (noise[~negative] == 1).all()
    assert kolmogorov(noise[negative], lambda s: (s - 0.1) / 0.3) < 2.7
    torch.testing.assert_close(y, torch.where(negative, x * noise, x))
    torch.testing.assert_close(
        torch.nn.functional.rrelu(x, 0.1, 0.4).cpu(), torch.nn.functional.leaky_relu(x.cpu(), 0.25)
    )
