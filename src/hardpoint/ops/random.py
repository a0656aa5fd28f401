"""Random numbers. kernels/sources/random.c defines how seed and offset determine each element."""

from hardpoint.ops import custom_op

STATE = "seed, offset"

OPS = (
    custom_op(f"uniform(; {STATE}, from, to)", "uniform in [from, to)", "uniform_"),
    custom_op(
        f"normal(; {STATE}, mean, std)",
        "normal random numbers",
        "normal_ normal.Tensor_float normal.Tensor_float_out normal.float_Tensor normal.float_Tensor_out "
        "normal.Tensor_Tensor normal.Tensor_Tensor_out",
    ),
    custom_op(f"log_normal(; {STATE}, mean, std)", "exp of normal random numbers", "log_normal_"),
    custom_op(f"exponential(; {STATE}, lambd)", "exponential random numbers", "exponential_"),
    custom_op(f"geometric(; {STATE}, p)", "number of trials until the first success", "geometric_"),
    custom_op(f"cauchy(; {STATE}, median, sigma)", "Cauchy random numbers", "cauchy_"),
    custom_op(f"bernoulli(; {STATE}, p)", "1 with probability p, else 0", "bernoulli_.float"),
    custom_op(
        f"random(; {STATE}, range, low)",
        "integers in [low, low + range); any 64 bits if range is 0",
        "random_.from random_.to random_",
    ),
    custom_op(
        f"bernoulli_tensor(p; {STATE})",
        "1 with the probability of each element, else 0",
        "bernoulli_.Tensor bernoulli.out",
    ),
    custom_op(
        f"dropout(input; {STATE}, p)", "out, mask: elements kept with probability 1 - p, and scaled", "native_dropout"
    ),
    custom_op(
        "dropout_backward(grad_output, mask; scale)", "out = grad_output * mask * scale", "native_dropout_backward"
    ),
    custom_op(
        f"rrelu_with_noise(self; {STATE}, lower, upper)",
        "out, noise: leaky ReLU with a slope drawn from [lower, upper) for each element",
        "rrelu_with_noise rrelu_with_noise.out rrelu_with_noise_",
    ),
    custom_op(f"standard_gamma(shape; {STATE})", "gamma random numbers", "_standard_gamma"),
    custom_op(
        f"sample_dirichlet(concentration; {STATE})",
        "Dirichlet random numbers along the last dimension",
        "_sample_dirichlet",
    ),
    custom_op(f"poisson(rate; {STATE})", "Poisson random numbers", "poisson"),
    custom_op(f"binomial(count, prob; {STATE})", "binomial random numbers", "binomial"),
    custom_op(
        f"multinomial(weights; {STATE})",
        "samples with replacement from each row of weights",
        "multinomial multinomial.out",
    ),
    custom_op(
        "randperm()", "a permutation; shuffled on the host, with the device's generator", "randperm.generator_out"
    ),
)
