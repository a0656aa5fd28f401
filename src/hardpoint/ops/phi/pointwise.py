"""Arithmetic, comparison, logic, rounding and the elementary functions."""

from hardpoint.ops.phi import PLAIN, Kernels, Phi, same

KERNELS: Kernels = {
    "add": {"add": Phi(attributes=(1,)), "grad_add": Phi(attributes=(1,))},
    "sub": {"subtract": Phi(attributes=(1,))},
    "mul": {"multiply": PLAIN},
    "div": {
        "divide": PLAIN,
        "floor_divide": Phi(variant="floor"),
        "trunc_divide": Phi(variant="trunc"),
    },
    "scale": {
        "scale": Phi(attributes=("$0", "$1"), variant="$2"),
        "div_scale": Phi(attributes=("$0", 0), variant="divided"),
        "increment": Phi(attributes=(1, "$0"), variant="after"),
    },
    "neg": {"negative": PLAIN},
    "eq": {"equal": PLAIN},
    "ne": {"not_equal": PLAIN},
    "lt": {"less_than": PLAIN},
    "le": {"less_equal": PLAIN},
    "gt": {"greater_than": PLAIN},
    "ge": {"greater_equal": PLAIN},
    "clamp": {"clip": Phi(attributes=("$0", "$1"), ascending=True)},
    "round_decimals": {"round": Phi(attributes=("$0",))},
    "pow": {"elementwise_pow": PLAIN},
    "pow_scalar": {"pow": Phi(attributes=("$0",)), "square": Phi(attributes=(2,))},
    "where": {"where": PLAIN, "masked_fill": Phi(inputs=(1, 2, 0))},
    **same("maximum", "minimum", "fmax", "fmin", "remainder", "lerp", "atan2", "copysign", "nextafter"),
    **same("abs", "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sigmoid"),
    **same("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    **same("floor", "ceil", "trunc", "erf", "heaviside", "isnan"),
    **same("logical_and", "logical_or", "logical_xor", "logical_not"),
    **same("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift"),
}
