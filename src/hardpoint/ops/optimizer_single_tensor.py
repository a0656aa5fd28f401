"""Optimizer steps on one tensor, for frameworks whose optimizers are kernels.

A vendor kernel takes the tensors that it updates in place as outputs: the parameter, its master copy (or None) and the
state; then inputs; then scalars.
"""

from hardpoint.ops import Op, custom_op


def _step(signature: str, state: str, doc: str) -> Op:
    """A step: inputs and scalars, and the state updated besides the parameter and its master copy."""
    outputs = ", ".join(("param", "master", *state.split()))
    return custom_op(signature, f"{outputs}: {doc}, in place")


OPS = (
    _step("sgd_step(grad, lr)", "", "a step of SGD"),
    _step("momentum_step(grad, lr; nesterov, mu, decay, rescale)", "velocity", "a step of SGD with momentum"),
    _step(
        "adam_step(grad, lr, power1, power2; beta1, beta2, eps, rate_ratio, decay)",
        "average square highest",
        "a step of Adam or AdamW (highest is None except for AMSGrad)",
    ),
    _step("adamax_step(grad, lr, power1; beta1, beta2, eps)", "average largest", "a step of Adamax"),
    _step("adagrad_step(grad, lr; eps)", "sum", "a step of Adagrad"),
    _step("adadelta_step(grad, lr; rho, eps)", "square change", "a step of Adadelta"),
    _step(
        "rmsprop_step(grad, lr; rho, eps, momentum)",
        "square moment mean",
        "a step of RMSProp (mean is None except for the centered form)",
    ),
    _step("lamb_step(direction, param_norm, norm, lr; adapt)", "", "a step of LAMB, along a direction of known norm"),
    _step(
        "nadam_step(grad, lr; beta1, beta2, eps, decay, base)",
        "average square decay_power power2 mu_product",
        "a step of NAdam",
    ),
    _step("radam_step(grad, lr; beta1, beta2, eps)", "average square power1 power2 rho", "a step of RAdam"),
    _step("asgd_step(grad, lr, count)", "sum last", "a step of averaged SGD"),
    _step("rprop_step(grad, range, etas)", "last rates", "a step of Rprop"),
    custom_op(
        "loss_scale_step(found; growth, backoff, growth_after, backoff_after)",
        "factor, good, bad: next loss scale, in place",
    ),
)
