"""Random numbers, from the seed and offset of Paddle's generator."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "normal": {"gaussian": PLAIN, "gaussian_inplace": PLAIN},
    "uniform": {"uniform": PLAIN, "uniform_inplace": PLAIN},
    "random": {"randint": PLAIN},
    "exponential": {"exponential": PLAIN},
    "bernoulli_tensor": {"bernoulli": PLAIN},
    "poisson": {"poisson": PLAIN},
    "standard_gamma": {"standard_gamma": PLAIN},
    "binomial": {"binomial": PLAIN},
    "randperm": {"randperm": PLAIN},
    "multinomial": {"multinomial": PLAIN},
}

COMPOSED = ("truncated_gaussian_random", "gaussian_inplace_grad", "uniform_inplace_grad")
