"""Random numbers. The rule by which a seed and an offset give each element is in kernels/random.c."""

from hardpoint.ops import Op, Overload

STATE = ("seed", "offset")


def _filling(name: str, doc: str, aten: tuple[str, ...], *attributes: str) -> Op:
    return Op(name, "custom", (), doc, {n: Overload() for n in aten}, attributes=(*STATE, *attributes))


OPS = (
    _filling("uniform", "numbers from [from, to)", ("uniform_",), "from", "to"),
    _filling(
        "normal",
        "normal numbers",
        (
            "normal_",
            "normal.Tensor_float",
            "normal.Tensor_float_out",
            "normal.float_Tensor",
            "normal.float_Tensor_out",
            "normal.Tensor_Tensor",
            "normal.Tensor_Tensor_out",
        ),
        "mean",
        "std",
    ),
    _filling("log_normal", "e to normal numbers", ("log_normal_",), "mean", "std"),
    _filling("exponential", "exponential numbers", ("exponential_",), "lambd"),
    _filling("geometric", "trials up to the first success", ("geometric_",), "p"),
    _filling("cauchy", "Cauchy numbers", ("cauchy_",), "median", "sigma"),
    _filling("bernoulli", "1 with probability p, else 0", ("bernoulli_.float",), "p"),
    _filling(
        "random",
        "integers from low on, range of them; range 0: any 64 bits",
        ("random_.from", "random_.to", "random_"),
        "range",
        "low",
    ),
    Op(
        "bernoulli_tensor",
        "custom",
        ("p",),
        "1 with a probability for each element, else 0",
        {"bernoulli_.Tensor": Overload(), "bernoulli.out": Overload()},
        attributes=STATE,
    ),
    Op(
        "dropout",
        "custom",
        ("input",),
        "out, mask: elements kept with probability 1 - p, and scaled",
        {"native_dropout": Overload()},
        attributes=(*STATE, "p"),
    ),
    Op(
        "dropout_backward",
        "custom",
        ("grad_output", "mask"),
        "out = grad_output * mask * scale",
        {"native_dropout_backward": Overload()},
        attributes=("scale",),
    ),
    Op(
        "rrelu_with_noise",
        "custom",
        ("self",),
        "out, noise: leaky ReLU with a slope drawn from [lower, upper) for each element",
        {"rrelu_with_noise": Overload(), "rrelu_with_noise.out": Overload(), "rrelu_with_noise_": Overload()},
        attributes=(*STATE, "lower", "upper"),
    ),
    Op(
        "standard_gamma",
        "custom",
        ("shape",),
        "gamma numbers",
        {"_standard_gamma": Overload()},
        attributes=STATE,
    ),
    Op(
        "sample_dirichlet",
        "custom",
        ("concentration",),
        "Dirichlet numbers along the last dimension",
        {"_sample_dirichlet": Overload()},
        attributes=STATE,
    ),
    Op("poisson", "custom", ("rate",), "Poisson numbers", {"poisson": Overload()}, attributes=STATE),
    Op("binomial", "custom", ("count", "prob"), "binomial numbers", {"binomial": Overload()}, attributes=STATE),
    Op(
        "multinomial",
        "custom",
        ("weights",),
        "samples with replacement from each row of weights",
        {"multinomial": Overload(), "multinomial.out": Overload()},
        attributes=STATE,
    ),
    Op(
        "randperm",
        "custom",
        (),
        "a permutation; shuffled on the host, with the device's generator",
        {"randperm.generator_out": Overload()},
    ),
)
