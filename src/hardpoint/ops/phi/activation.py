"""Activations and their gradients."""

from hardpoint.ops.phi import PLAIN, Kernels, Phi, same

KERNELS: Kernels = {
    **same("relu", "hardswish", "mish"),
    "silu": {"silu": PLAIN, "swish": PLAIN},
    "silu_backward": {"silu_grad": Phi(inputs=(2, 0)), "swish_grad": Phi(inputs=(1, 0))},
    # Computed from the output, which is positive where the input is.
    "threshold_backward": {
        "relu_grad": Phi(inputs=(1, 0), attributes=(0,)),
        "thresholded_relu_grad": Phi(inputs=(1, 0), attributes=("$0",)),
    },
    "threshold": {"thresholded_relu": Phi(attributes=("$0", "$1"))},
    "sigmoid_backward": {"sigmoid_grad": Phi(inputs=(1, 0))},
    "tanh_backward": {"tanh_grad": Phi(inputs=(1, 0))},
    "gelu": {"gelu": Phi(variant="$0")},
    "gelu_backward": {"gelu_grad": Phi(inputs=(1, 0), variant="$0")},
    "hardswish_backward": {"hardswish_grad": Phi(inputs=(1, 0))},
    "mish_backward": {"mish_grad": Phi(inputs=(1, 0))},
    "hardtanh": {"relu6": Phi(attributes=(0, 6)), "hardtanh": Phi(attributes=("$0", "$1"))},
    "hardtanh_backward": {
        "relu6_grad": Phi(inputs=(1, 0), attributes=(0, 6)),
        "hardtanh_grad": Phi(inputs=(1, 0), attributes=("$0", "$1")),
    },
    "leaky_relu": {"leaky_relu": Phi(attributes=("$0",))},
    "leaky_relu_backward": {"leaky_relu_grad": Phi(inputs=(1, 0), attributes=("$0",))},
    "elu": {"elu": Phi(attributes=("$0", 1, 1)), "selu": Phi(attributes=("$1", "$0", 1))},
    # The first is computed from the input, the second from the output.
    "elu_backward": {
        "elu_grad": Phi(inputs=(2, 0), attributes=("$0", 1, 1, 0)),
        "selu_grad": Phi(inputs=(1, 0), attributes=("$1", "$0", 1, 1)),
    },
    "softplus": {"softplus": Phi(attributes=("$0", "$1"))},
    "softplus_backward": {"softplus_grad": Phi(inputs=(1, 0), attributes=("$0", "$1"))},
    "log_sigmoid_backward": {"logsigmoid_grad": Phi(inputs=(1, 0))},
    "hardshrink": {"hard_shrink": Phi(attributes=("$0",))},
    "hardshrink_backward": {"hard_shrink_grad": Phi(inputs=(1, 0), attributes=("$0",))},
    # Paddle clamps unless eps is 0, the standard operators unless it is negative.
    "logit": {"logit": Phi(attributes=("$0 or -1",))},
    "logit_backward": {"logit_grad": Phi(inputs=(1, 0), attributes=("$0 or -1",))},
    "softshrink": {"softshrink": Phi(attributes=("$0",))},
    "softshrink_backward": {"softshrink_grad": Phi(inputs=(1, 0), attributes=("$0",))},
}

#: Gated and parametric activations, with two operands.
COMPOSED = ("swiglu", "swiglu_grad", "prelu", "prelu_grad")
