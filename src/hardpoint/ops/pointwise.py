"""Pointwise operators: arithmetic, comparison, logic, rounding, powers and the elementary functions."""

from dataclasses import replace

from hardpoint.ops import PLAIN, Expression, Iteration, Op, Overload, pointwise_op


def unary(name: str, doc: str, expression: Expression, aten: str = "", iteration: Iteration | None = None) -> Op:
    """A unary operator without attributes."""
    return pointwise_op(f"{name}(self)", doc, aten or name, expression, iteration=iteration)


def binary(name: str, doc: str, expression: Expression, aten: str = "") -> Op:
    """A binary operator without attributes."""
    return pointwise_op(f"{name}(self, other)", doc, aten or f"{name}.Tensor", expression)


def function(name: str, doc: str = "") -> Op:
    """An elementary floating-point function with its usual name."""
    return unary(name, doc or f"out = {name}(self)", f"M({name})(self)")


def analytic(name: str) -> Op:
    """An elementary function that is also defined for complex numbers."""
    return unary(name, f"out = {name}(self)", {"float": f"M({name})(self)", "complex": f"M({name})(self)"})


def real(expression: str) -> dict[str, str]:
    """One expression for floating-point and integer dtypes, but not for bool."""
    return {"float": expression, "int": expression}


def everywhere(expression: str, **others: str) -> dict[str, str]:
    """One expression for all real dtypes, plus those of other classes."""
    return {**dict.fromkeys(("float", "int", "bool"), expression), **others}


def comparison(name: str, sign: str) -> Op:
    """A comparison with a bool output."""
    expression: Expression = f"self {sign} other"
    if name in ("eq", "ne"):
        expression = everywhere(f"self {sign} other", complex=f"M({name})(self, other)")
    made = binary(name, f"out = self {sign} other", expression, f"{name}.Tensor {name}.Scalar")
    return replace(made, boolean=True)


def predicate(name: str, doc: str, expression: Expression) -> Op:
    """A test of one number, with a bool output."""
    return replace(unary(name, doc, expression), boolean=True)


def logical(name: str, doc: str, expression: str) -> Op:
    """A binary logical operator with a bool output."""
    expressions = everywhere(expression, complex=f"M({name})(self, other)")
    return pointwise_op(f"{name}(self, other)", doc, f"{name}.out", expressions, iteration="comparison")


def shift(side: str, python_name: str) -> Op:
    """A bit shift, as a function and as Python's operator."""
    name = f"bitwise_{side}_shift"
    overloads = {f"{name}.Tensor": PLAIN}
    for prefix in ("", "i"):
        overloads[f"__{prefix}{python_name}__.Tensor"] = Overload(iteration="binary")
        overloads[f"__{prefix}{python_name}__.Scalar"] = Overload(iteration="scalar_last")
    doc = f"self shifted {side} by other bits"
    return Op(name, "pointwise", ("self", "other"), doc, overloads, expression={"int": f"M({name})(self, other)"})


def rounding(name: str) -> Op:
    """A rounding function: the identity for integers."""
    return unary(name, f"out = {name}(self)", {"float": f"M({name})(self)", "int": "self"})


def _next16(dtype: str) -> str:
    """nextafter for a 16-bit dtype, in its own precision instead of a wider one."""
    step = f"hp_load_{dtype}(hp_next16(hp_store_{dtype}(self), hp_store_{dtype}(other)))"
    return f"self != self || other != other ? self + other : {step}"


#: Computed from the nearer end, so that both ends are exact.
LERP = {
    "float": "M(abs)(weight) < (T)0.5 ? self + weight * (end - self) : end - (end - self) * ((T)1 - weight)",
    "complex": "M(lerp)(self, end, weight)",
}

ARITHMETIC = (
    pointwise_op(
        "add(self, other; alpha)",
        "out = self + alpha * other",
        "add.Tensor",
        {
            "float": "self + alpha * other",
            "int": "self + alpha * other",
            "bool": "self | (alpha & other)",
            "complex": "M(add)(self, M(mul)(alpha, other))",
        },
    ),
    pointwise_op(
        "sub(self, other; alpha)",
        "out = self - alpha * other",
        "sub.Tensor",
        {
            "float": "self - alpha * other",
            "int": "self - alpha * other",
            "complex": "M(sub)(self, M(mul)(alpha, other))",
        },
    ),
    binary(
        "mul",
        "out = self * other",
        {"float": "self * other", "int": "self * other", "bool": "self & other", "complex": "M(mul)(self, other)"},
    ),
    Op(
        "div",
        "pointwise",
        ("self", "other"),
        "out = self / other, exact or rounded",
        {"div.Tensor": PLAIN, "div.Tensor_mode": Overload(variant_argument="rounding_mode")},
        variants={
            "": {"float": "self / other", "complex": "M(div)(self, other)"},
            "trunc": {"float": "M(trunc)(self / other)", "int": "M(trunc_divide)(self, other)"},
            "floor": {"float": "M(floor_divide)(self, other)", "int": "M(floor_divide)(self, other)"},
        },
    ),
    pointwise_op(
        "scale(self; scale, bias)",
        "out = (self + bias) * scale, or self * scale + bias, or self / scale",
        "",
        variants={
            "before": real("(self + bias) * scale"),
            "after": real("self * scale + bias"),
            "divided": {"float": "self / scale"},
        },
    ),
    Op(
        "remainder",
        "pointwise",
        ("self", "other"),
        "self modulo other, with the sign of other",
        {"remainder.Tensor": PLAIN, "remainder.Scalar_Tensor": Overload(iteration="scalar_first")},
        expression=real("M(remainder)(self, other)"),
    ),
    binary("fmod", "self modulo other, with the sign of self", real("M(fmod)(self, other)")),
    unary("neg", "out = -self", {"float": "-self", "int": "-self", "complex": "M(neg)(self)"}),
    unary("reciprocal", "out = 1 / self", {"float": "(T)1 / self", "complex": "M(reciprocal)(self)"}),
    unary(
        "abs",
        "out = |self|",
        {"float": "M(abs)(self)", "int": "self < 0 ? -self : self", "complex": "M(abs)(self)"},
        "abs.out",
        "real",
    ),
    pointwise_op(
        "angle(self)",
        "the angle in the complex plane",
        "angle angle.out",
        {"float": "self != self ? self : self < 0 ? (T)3.14159265358979323846 : (T)0", "complex": "M(angle)(self)"},
        iteration="angle",
    ),
    # conj_physical_: torch's function calls the CPU kernel directly on any device.
    unary(
        "conj_physical",
        "the complex conjugate",
        everywhere("self", complex="M(conj)(self)"),
        "conj_physical.out conj_physical_",
        "unary",
    ),
    pointwise_op(
        "polar(abs, angle)",
        "complex number with modulus abs and angle",
        "polar.out",
        {"complex": "M(polar)(abs, angle)"},
        iteration="complex",
    ),
    unary("sign", "-1, 0 or 1", {"float": "M(sign)(self)", "int": "(self > 0) - (self < 0)", "bool": "self"}),
    unary(
        "sgn",
        "-1, 0 or 1; self / |self| for complex numbers",
        {"float": "M(sign)(self)", "int": "(self > 0) - (self < 0)", "bool": "self", "complex": "M(sgn)(self)"},
    ),
    pointwise_op(
        "addcmul(self, tensor1, tensor2; value)",
        "out = self + value * tensor1 * tensor2",
        "addcmul",
        {
            "float": "self + value * tensor1 * tensor2",
            "int": "self + value * tensor1 * tensor2",
            "complex": "M(add)(self, M(mul)(M(mul)(value, tensor1), tensor2))",
        },
    ),
    pointwise_op(
        "addcdiv(self, tensor1, tensor2; value)",
        "out = self + value * tensor1 / tensor2",
        "addcdiv",
        {
            "float": "self + value * tensor1 / tensor2",
            "complex": "M(add)(self, M(div)(M(mul)(value, tensor1), tensor2))",
        },
    ),
    pointwise_op("lerp(self, end, weight)", "out = self + weight * (end - self)", "lerp.Tensor", LERP),
    pointwise_op(
        "lerp_scalar(self, end; weight)",
        "out = self + weight * (end - self), with a scalar weight",
        "lerp.Scalar",
        LERP,
    ),
)

COMPARISON = (
    comparison("eq", "=="),
    comparison("ne", "!="),
    comparison("lt", "<"),
    comparison("le", "<="),
    comparison("gt", ">"),
    comparison("ge", ">="),
    binary(
        "maximum",
        "the larger, NaN if one is NaN",
        {"float": "M(maximum)(self, other)", "int": "self > other ? self : other", "bool": "self | other"},
        "maximum",
    ),
    binary(
        "minimum",
        "the smaller, NaN if one is NaN",
        {"float": "M(minimum)(self, other)", "int": "self < other ? self : other", "bool": "self & other"},
        "minimum",
    ),
    binary(
        "fmax",
        "the larger, ignoring NaN",
        {"float": "M(fmax)(self, other)", "int": "self > other ? self : other", "bool": "self | other"},
        "fmax",
    ),
    binary(
        "fmin",
        "the smaller, ignoring NaN",
        {"float": "M(fmin)(self, other)", "int": "self < other ? self : other", "bool": "self & other"},
        "fmin",
    ),
    pointwise_op(
        "clamp_min(self, min)",
        "the larger of self and min",
        "clamp_min.Tensor",
        {"float": "M(maximum)(self, min)", "int": "self > min ? self : min"},
    ),
    pointwise_op(
        "clamp_max(self, max)",
        "the smaller of self and max",
        "clamp_max.Tensor",
        {"float": "M(minimum)(self, max)", "int": "self < max ? self : max"},
    ),
    pointwise_op(
        "clamp_min_scalar(self; min)",
        "the larger of self and a scalar",
        "clamp_min",
        {"float": "M(maximum)(self, min)", "int": "self > min ? self : min"},
    ),
    pointwise_op(
        "clamp_max_scalar(self; max)",
        "the smaller of self and a scalar",
        "clamp_max",
        {"float": "M(minimum)(self, max)", "int": "self < max ? self : max"},
    ),
    pointwise_op(
        "clamp(self; min=lowest(self), max=highest(self))",
        "self clamped to [min, max]",
        "clamp",
        {
            "float": "M(minimum)(M(maximum)(self, min), max)",
            "int": "(self > min ? self : min) < max ? (self > min ? self : min) : max",
        },
    ),
    pointwise_op(
        "nan_to_num(self; nan=0.0, posinf=highest_finite(self), neginf=lowest_finite(self))",
        "replaces NaN and infinities by given numbers",
        "nan_to_num.out",
        everywhere(
            "self", float="M(finite)(self, nan, posinf, neginf)", complex="M(finite)(self, nan, posinf, neginf)"
        ),
        iteration="unary",
    ),
    predicate("isposinf", "whether self is +inf", {"float": "M(isinf)(self) && self > 0", "int": "0", "bool": "0"}),
    predicate("isneginf", "whether self is -inf", {"float": "M(isinf)(self) && self < 0", "int": "0", "bool": "0"}),
    predicate("signbit", "whether self is negative", {"float": "M(signbit)(self)", "int": "self < 0", "bool": "0"}),
)

LOGIC = (
    binary("bitwise_and", "out = self & other", {"int": "self & other", "bool": "self & other"}),
    binary("bitwise_or", "out = self | other", {"int": "self | other", "bool": "self | other"}),
    binary("bitwise_xor", "out = self ^ other", {"int": "self ^ other", "bool": "self ^ other"}),
    unary("bitwise_not", "out = ~self", {"int": "~self", "bool": "!self"}),
    shift("left", "lshift"),
    shift("right", "rshift"),
    binary("gcd", "the greatest common divisor", {"int": "M(gcd)(self, other)"}, "gcd"),
    binary("lcm", "the least common multiple", {"int": "M(lcm)(self, other)"}, "lcm"),
    pointwise_op(
        "logical_not(self)",
        "whether self is zero",
        "logical_not.out",
        everywhere("self == 0", complex="M(logical_not)(self)"),
        iteration="force_bool",
    ),
    pointwise_op(
        "isnan(self)",
        "whether self is NaN",
        "isnan",
        everywhere("self != self", complex="M(isnan)(self)"),
        iteration="force_bool",
    ),
    pointwise_op(
        "where(condition, self, other)",
        "self where the condition is true, other elsewhere",
        "where.self where.self_out",
        everywhere("condition != 0 ? self : other", complex="condition.re != 0 ? self : other"),
        iteration="where",
    ),
    logical("logical_and", "whether both are nonzero", "self != 0 && other != 0"),
    logical("logical_or", "whether at least one is nonzero", "self != 0 || other != 0"),
    logical("logical_xor", "whether exactly one is nonzero", "(self != 0) != (other != 0)"),
)

ROUNDING = (
    *map(rounding, ("ceil", "floor", "trunc", "round")),
    unary("frac", "self - trunc(self)", {"float": "M(frac)(self)"}),
    pointwise_op(
        "round_decimals(self; decimals)",
        "self rounded to the given number of decimals",
        "round.decimals",
        {"float": "M(round_decimals)(self, decimals)"},
    ),
)

ELEMENTARY = (
    *map(analytic, ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "sinc")),
    *map(analytic, ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
    *map(function, ("erf", "erfc")),
    binary("atan2", "the angle of (other, self)", {"float": "M(atan2)(self, other)"}, "atan2"),
    binary("hypot", "sqrt(self² + other²)", {"float": "M(hypot)(self, other)"}, "hypot"),
    binary("copysign", "|self| with the sign of other", {"float": "M(copysign)(self, other)"}),
    binary(
        "nextafter",
        "next representable number towards other",
        {"float": "M(nextafter)(self, other)", "f16": _next16("f16"), "bf16": _next16("bf16")},
        "nextafter",
    ),
    binary("logaddexp", "log(exp(self) + exp(other))", {"float": "M(logaddexp)(self, other)"}, "logaddexp"),
    binary("logaddexp2", "log2(2^self + 2^other)", {"float": "M(logaddexp2)(self, other)"}, "logaddexp2"),
    binary("xlogy", "self * log(other), 0 where self is 0", {"float": "M(xlogy)(self, other)"}),
    pointwise_op(
        "heaviside(self, values)",
        "0 below zero, 1 above, values at zero",
        "heaviside",
        everywhere("self == 0 ? values : (T)(self > 0)", bool="self == 0 ? values : self"),
    ),
    Op(
        "pow",
        "pointwise",
        ("self", "exponent"),
        "out = self ** exponent",
        {
            "pow.Tensor_Tensor": PLAIN,
            "pow.Scalar": Overload(iteration="scalar_first", custom_shape=True),
            "pow.Scalar_out": Overload(iteration="scalar_first", custom_shape=True),
        },
        expression={**real("M(pow)(self, exponent)"), "complex": "M(pow)(self, exponent)"},
    ),
    pointwise_op(
        "pow_scalar(self; exponent)",
        "out = self ** exponent, with a scalar exponent",
        "pow.Tensor_Scalar",
        {
            "float": "exponent == (T)2 ? self * self : exponent == (T)3 ? self * self * self : M(pow)(self, exponent)",
            "int": "M(pow)(self, exponent)",
            "complex": "M(pow_scalar)(self, exponent)",
        },
    ),
)

OPS = ARITHMETIC + COMPARISON + LOGIC + ROUNDING + ELEMENTARY
