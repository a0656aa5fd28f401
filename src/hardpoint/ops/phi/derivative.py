"""Functions and gradients with kernels in Paddle but not in PyTorch."""

from hardpoint.ops.phi import PLAIN, Kernels, Phi, same

#: Paddle passes the gradient last.
SELF = Phi(inputs=(1, 0))

KERNELS: Kernels = {
    **same("isinf", "isfinite", "softsign"),
    "signum": {"sign": PLAIN},
    "celu": {"celu": Phi(attributes=("$0",))},
    "celu_backward": {"celu_grad": Phi(inputs=(1, 0), attributes=("$0",))},
    "hardsigmoid_linear": {"hardsigmoid": Phi(attributes=("$0", "$1"))},
    "hardsigmoid_linear_backward": {"hardsigmoid_grad": Phi(inputs=(1, 0), attributes=("$0", "$1"))},
    "log_sigmoid": {"logsigmoid": PLAIN},
    "softsign_backward": {"softsign_grad": SELF},
    "tanhshrink": {"tanh_shrink": PLAIN},
    "tanhshrink_backward": {"tanh_shrink_grad": SELF},
    "scaled_tanh": {"stanh": Phi(attributes=("$0", "$1"))},
    "scaled_tanh_backward": {"stanh_grad": Phi(inputs=(1, 0), attributes=("$0", "$1"))},
    "pow_backward": {
        "pow_grad": Phi(inputs=(1, 0), attributes=("$0",)),
        "square_grad": Phi(inputs=(1, 0), attributes=(2,)),
    },
    **{
        f"{name}_backward": {f"{name}_grad": SELF}
        for name in (
            *("exp", "log"),
            *("reciprocal", "sqrt", "rsqrt", "expm1", "log2", "log10", "log1p", "abs", "erf", "erfinv", "lgamma"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        )
    },
    "log_loss": {"log_loss": Phi(attributes=("$0",))},
    "log_loss_backward": {"log_loss_grad": Phi(inputs=(2, 0, 1), attributes=("$0",))},
    "clamp_backward": {"clip_grad": Phi(inputs=(1, 0), attributes=("$0", "$1"))},
}
