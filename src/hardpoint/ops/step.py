"""One step of an optimiser on one tensor, for frameworks whose optimisers are kernels.

A vendor's kernel gets as outputs what it renews in place: the parameter, its copy of higher precision (or None), the
tensors of state; then what it reads; then numbers.
"""

from hardpoint.ops import Op


def _step(name: str, renewed: str, read: str, numbers: str, doc: str) -> Op:
    """A step: what it renews besides the parameter and its copy, what it reads, its numbers."""
    outputs = ", ".join(("param", "master", *renewed.split()))
    return Op(
        f"{name}_step", "custom", tuple(read.split()), f"{outputs}: {doc}, in place", attributes=tuple(numbers.split())
    )


OPS = (
    _step("sgd", "", "grad lr", "", "a step of SGD"),
    _step("momentum", "velocity", "grad lr", "nesterov mu decay rescale", "a step of SGD with momentum"),
    _step(
        "adam",
        "average square highest",
        "grad lr power1 power2",
        "beta1 beta2 eps rate_ratio decay",
        "a step of Adam or AdamW (highest is None but for AMSGrad)",
    ),
    _step("adamax", "average largest", "grad lr power1", "beta1 beta2 eps", "a step of Adamax"),
    _step("adagrad", "sum", "grad lr", "eps", "a step of Adagrad"),
    _step("adadelta", "square change", "grad lr", "rho eps", "a step of Adadelta"),
    _step(
        "rmsprop",
        "square moment mean",
        "grad lr",
        "rho eps momentum",
        "a step of RMSProp (mean is None but for the centred form)",
    ),
    _step(
        "lamb",
        "",
        "direction param_norm norm lr",
        "adapt",
        "a step of LAMB, along a direction whose norm is known",
    ),
    _step(
        "nadam",
        "average square decay_power power2 mu_product",
        "grad lr",
        "beta1 beta2 eps decay base",
        "a step of NAdam",
    ),
    _step("radam", "average square power1 power2 rho", "grad lr", "beta1 beta2 eps", "a step of RAdam"),
    _step("asgd", "sum last", "grad lr count", "", "a step of averaged SGD"),
    _step("rprop", "last rates", "grad range etas", "", "a step of Rprop"),
    Op(
        "loss_scale_step",
        "custom",
        ("found",),
        "factor, good, bad: the next factor of a loss in low precision, in place",
        attributes=("growth", "backoff", "growth_after", "backoff_after"),
    ),
)
