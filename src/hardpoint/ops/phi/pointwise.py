"""Arithmetic, comparison, logic, rounding and the elementary functions."""

from hardpoint.ops.phi import PLAIN, Kernels, Phi, same

KERNELS: Kernels = {
    "add": {"add": Phi(attributes=(1,))},
    "sub": {"subtract": Phi(attributes=(1,))},
    "mul": {"multiply": PLAIN},
    "div": {"divide": PLAIN},
    "scale": {
        "scale": Phi(attributes=("$0", "$1"), variant="$2"),
        "div_scale": Phi(attributes=("$0", 0), variant="divided"),
    },
    "eq": {"equal": PLAIN},
    "ne": {"not_equal": PLAIN},
    "lt": {"less_than": PLAIN},
    "le": {"less_equal": PLAIN},
    "gt": {"greater_than": PLAIN},
    "ge": {"greater_equal": PLAIN},
    **same("where", "maximum", "minimum", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid"),
}

#: Gradients, summed over what was broadcast.
COMPOSED = ("add_grad", "subtract_grad", "multiply_grad", "divide_grad")
