"""One step of an optimiser on one tensor, for frameworks whose optimisers are kernels.

No vendor's kernel is asked, as for the steps on lists of tensors: the contract is still to come.
"""

from hardpoint.ops import Op


def _step(name: str, doc: str) -> Op:
    return Op(f"{name}_step", "custom", (), doc)


OPS = (
    _step("sgd", "a step of SGD"),
    _step("momentum", "a step of SGD with momentum"),
    _step("adam", "a step of Adam or AdamW, the powers of its betas given as tensors"),
    _step("adamax", "a step of Adamax"),
    _step("adagrad", "a step of Adagrad"),
    _step("adadelta", "a step of Adadelta"),
    _step("rmsprop", "a step of RMSProp"),
    _step("lamb", "a step of LAMB, along a direction whose norm is known"),
    _step("nadam", "a step of NAdam"),
    _step("radam", "a step of RAdam"),
    _step("asgd", "a step of averaged SGD"),
    _step("rprop", "a step of Rprop"),
    _step("loss_scale", "the next factor of a loss in low precision"),
)
