"""Pointwise operators: arithmetic, comparison, logic, rounding, powers and the elementary functions."""

from hardpoint.ops import Expression, Op, Overload

PLAIN = Overload()


def unary(name: str, doc: str, expression: Expression, aten: str = "", iteration: str = "") -> Op:
    """An operator of one input, without attributes."""
    overload = Overload(iteration=iteration or None)  # type: ignore[arg-type]
    return Op(name, "pointwise", ("self",), doc, {aten or name: overload}, expression=expression)


def binary(name: str, doc: str, expression: Expression, *aten: str, inputs: tuple[str, str] = ("self", "other")) -> Op:
    """An operator of two inputs, without attributes."""
    return Op(name, "pointwise", inputs, doc, dict.fromkeys(aten or (f"{name}.Tensor",), PLAIN), expression=expression)


def function(name: str, doc: str = "") -> Op:
    """An elementary function of floating-point numbers, under its usual name."""
    return unary(name, doc or f"out = {name}(self)", f"M({name})(self)")


def analytic(name: str) -> Op:
    """One that complex numbers have, too."""
    return unary(name, f"out = {name}(self)", {"float": f"M({name})(self)", "complex": f"M({name})(self)"})


def real(expression: str) -> dict[str, str]:
    """The same expression for floating-point and whole numbers, but not for truth values."""
    return {"float": expression, "int": expression}


def everywhere(expression: str, **others: str) -> dict[str, str]:
    """The same expression for all real dtypes, with those of other classes beside it."""
    return {**dict.fromkeys(("float", "int", "bool"), expression), **others}


def comparison(name: str, sign: str) -> Op:
    """A comparison; the output is bool."""
    expression: Expression = f"self {sign} other"
    if name in ("eq", "ne"):
        expression = everywhere(f"self {sign} other", complex=f"M({name})(self, other)")
    return binary(name, f"out = self {sign} other", expression, f"{name}.Tensor", f"{name}.Scalar")


def logical(name: str, doc: str, expression: str) -> Op:
    """A truth function of two numbers; the output is bool."""
    overloads = {f"{name}.out": Overload(iteration="comparison")}
    expressions = everywhere(expression, complex=f"M({name})(self, other)")
    return Op(name, "pointwise", ("self", "other"), doc, overloads, expression=expressions)


def without_shape(*aten: str, iteration: str, attributes: tuple[str, ...] = ()) -> dict[str, Overload]:
    """Overloads for which torch has no structured kernel."""
    return dict.fromkeys(aten, Overload(attributes, iteration=iteration))  # type: ignore[arg-type]


def shift(side: str, python_name: str) -> Op:
    """A shift of bits, under its own name and as Python's operator."""
    name = f"bitwise_{side}_shift"
    overloads = {f"{name}.Tensor": PLAIN}
    for prefix in ("", "i"):
        overloads |= without_shape(f"__{prefix}{python_name}__.Tensor", iteration="binary")
        overloads |= without_shape(f"__{prefix}{python_name}__.Scalar", iteration="scalar_last")
    doc = f"self, its bits moved {side} by other"
    return Op(name, "pointwise", ("self", "other"), doc, overloads, expression={"int": f"M({name})(self, other)"})


def rounding(name: str) -> Op:
    """A function that leaves whole numbers alone."""
    return unary(name, f"out = {name}(self)", {"float": f"M({name})(self)", "int": "self"})


def _next16(dtype: str) -> str:
    """The next number of a dtype with 16 bits, which is computed in a wider one elsewhere."""
    step = f"hp_load_{dtype}(hp_next16(hp_store_{dtype}(self), hp_store_{dtype}(other)))"
    return f"self != self || other != other ? self + other : {step}"


#: From the nearer end, which is exact at both.
LERP = {
    "float": "M(abs)(weight) < (T)0.5 ? self + weight * (end - self) : end - (end - self) * ((T)1 - weight)",
    "complex": "M(lerp)(self, end, weight)",
}

ARITHMETIC = (
    Op(
        "add",
        "pointwise",
        ("self", "other"),
        "out = self + alpha * other",
        {"add.Tensor": Overload(("alpha",))},
        ("alpha",),
        {
            "float": "self + alpha * other",
            "int": "self + alpha * other",
            "bool": "self | (alpha & other)",
            "complex": "M(add)(self, M(mul)(alpha, other))",
        },
    ),
    Op(
        "sub",
        "pointwise",
        ("self", "other"),
        "out = self - alpha * other",
        {"sub.Tensor": Overload(("alpha",))},
        ("alpha",),
        {
            "float": "self - alpha * other",
            "int": "self - alpha * other",
            "complex": "M(sub)(self, M(mul)(alpha, other))",
        },
    ),
    binary(
        "mul",
        "out = self * other",
        {
            "float": "self * other",
            "int": "self * other",
            "bool": "self & other",
            "complex": "M(mul)(self, other)",
        },
    ),
    Op(
        "div",
        "pointwise",
        ("self", "other"),
        "out = self / other, exact or rounded",
        {"div.Tensor": PLAIN, "div.Tensor_mode": Overload(chooser="rounding_mode")},
        variants={
            "": {"float": "self / other", "complex": "M(div)(self, other)"},
            "trunc": {"float": "M(trunc)(self / other)", "int": "M(trunc_divide)(self, other)"},
            "floor": {"float": "M(floor_divide)(self, other)", "int": "M(floor_divide)(self, other)"},
        },
    ),
    Op(
        "scale",
        "pointwise",
        ("self",),
        "out = (self + bias) * scale, or self * scale + bias, or self / scale",
        attributes=("scale", "bias"),
        variants={
            "before": real("(self + bias) * scale"),
            "after": real("self * scale + bias"),
            "divided": {"float": "self / scale"},
        },
    ),
    binary("remainder", "self modulo other, with other's sign", real("M(remainder)(self, other)")),
    binary("fmod", "self modulo other, with self's sign", real("M(fmod)(self, other)")),
    unary("neg", "out = -self", {"float": "-self", "int": "-self", "complex": "M(neg)(self)"}),
    unary("reciprocal", "out = 1 / self", {"float": "(T)1 / self", "complex": "M(reciprocal)(self)"}),
    unary(
        "abs",
        "out = |self|",
        {"float": "M(abs)(self)", "int": "self < 0 ? -self : self", "complex": "M(abs)(self)"},
        "abs.out",
        "real",
    ),
    Op(
        "angle",
        "pointwise",
        ("self",),
        "the angle in the complex plane",
        without_shape("angle", "angle.out", iteration="angle"),
        expression={
            "float": "self != self ? self : self < 0 ? (T)3.14159265358979323846 : (T)0",
            "complex": "M(angle)(self)",
        },
    ),
    Op(
        "conj_physical",
        "pointwise",
        ("self",),
        "the complex conjugate",
        # torch's own in-place form calls the CPU's kernel directly, whatever the device.
        dict.fromkeys(("conj_physical.out", "conj_physical_"), Overload(iteration="unary")),
        expression=everywhere("self", complex="M(conj)(self)"),
    ),
    Op(
        "polar",
        "pointwise",
        ("abs", "angle"),
        "the complex number of that modulus and angle",
        without_shape("polar.out", iteration="complex"),
        expression={"complex": "M(polar)(abs, angle)"},
    ),
    unary("sign", "-1, 0 or 1", {"float": "M(sign)(self)", "int": "(self > 0) - (self < 0)", "bool": "self"}),
    unary(
        "sgn",
        "-1, 0 or 1; of a complex number, the one of modulus 1 with its angle",
        {
            "float": "M(sign)(self)",
            "int": "(self > 0) - (self < 0)",
            "bool": "self",
            "complex": "M(sgn)(self)",
        },
    ),
    Op(
        "addcmul",
        "pointwise",
        ("self", "tensor1", "tensor2"),
        "out = self + value * tensor1 * tensor2",
        {"addcmul": Overload(("value",))},
        ("value",),
        {
            "float": "self + value * tensor1 * tensor2",
            "int": "self + value * tensor1 * tensor2",
            "complex": "M(add)(self, M(mul)(M(mul)(value, tensor1), tensor2))",
        },
    ),
    Op(
        "addcdiv",
        "pointwise",
        ("self", "tensor1", "tensor2"),
        "out = self + value * tensor1 / tensor2",
        {"addcdiv": Overload(("value",))},
        ("value",),
        {
            "float": "self + value * tensor1 / tensor2",
            "complex": "M(add)(self, M(div)(M(mul)(value, tensor1), tensor2))",
        },
    ),
    Op(
        "lerp",
        "pointwise",
        ("self", "end", "weight"),
        "out = self + weight * (end - self)",
        {"lerp.Tensor": PLAIN},
        expression=LERP,
    ),
    Op(
        "lerp_scalar",
        "pointwise",
        ("self", "end"),
        "out = self + weight * (end - self), for a number",
        {"lerp.Scalar": Overload(("weight",))},
        ("weight",),
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
    Op(
        "clamp_min",
        "pointwise",
        ("self", "min"),
        "the larger of self and min",
        {"clamp_min.Tensor": PLAIN},
        expression={"float": "M(maximum)(self, min)", "int": "self > min ? self : min"},
    ),
    Op(
        "clamp_max",
        "pointwise",
        ("self", "max"),
        "the smaller of self and max",
        {"clamp_max.Tensor": PLAIN},
        expression={"float": "M(minimum)(self, max)", "int": "self < max ? self : max"},
    ),
    Op(
        "clamp_min_scalar",
        "pointwise",
        ("self",),
        "the larger of self and a number",
        {"clamp_min": Overload(("min",))},
        ("min",),
        {"float": "M(maximum)(self, min)", "int": "self > min ? self : min"},
    ),
    Op(
        "clamp_max_scalar",
        "pointwise",
        ("self",),
        "the smaller of self and a number",
        {"clamp_max": Overload(("max",))},
        ("max",),
        {"float": "M(minimum)(self, max)", "int": "self < max ? self : max"},
    ),
    Op(
        "clamp",
        "pointwise",
        ("self",),
        "self brought between two numbers",
        {"clamp": Overload(("min=lowest(self)", "max=highest(self)"))},
        ("min", "max"),
        {
            "float": "M(minimum)(M(maximum)(self, min), max)",
            "int": "(self > min ? self : min) < max ? (self > min ? self : min) : max",
        },
    ),
    Op(
        "nan_to_num",
        "pointwise",
        ("self",),
        "what is no number or infinite, as given numbers",
        without_shape(
            "nan_to_num.out",
            iteration="unary",
            attributes=("nan=0.0", "posinf=highest_finite(self)", "neginf=lowest_finite(self)"),
        ),
        ("nan", "posinf", "neginf"),
        everywhere(
            "self",
            float="M(finite)(self, nan, posinf, neginf)",
            complex="M(finite)(self, nan, posinf, neginf)",
        ),
    ),
    unary("isposinf", "whether self is +inf", {"float": "M(isinf)(self) && self > 0", "int": "0", "bool": "0"}),
    unary("isneginf", "whether self is -inf", {"float": "M(isinf)(self) && self < 0", "int": "0", "bool": "0"}),
    unary("signbit", "whether self is negative", {"float": "M(signbit)(self)", "int": "self < 0", "bool": "0"}),
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
    Op(
        "logical_not",
        "pointwise",
        ("self",),
        "whether self is zero",
        {"logical_not.out": Overload(iteration="force_bool")},
        expression=everywhere("self == 0", complex="M(logical_not)(self)"),
    ),
    Op(
        "isnan",
        "pointwise",
        ("self",),
        "whether self is no number",
        {"isnan": Overload(iteration="force_bool")},
        expression=everywhere("self != self", complex="M(isnan)(self)"),
    ),
    Op(
        "where",
        "pointwise",
        ("condition", "self", "other"),
        "self where the condition holds, other elsewhere",
        {"where.self": Overload(iteration="where"), "where.self_out": Overload(iteration="where")},
        expression=everywhere("condition != 0 ? self : other", complex="condition.re != 0 ? self : other"),
    ),
    logical("logical_and", "both are not zero", "self != 0 && other != 0"),
    logical("logical_or", "one is not zero", "self != 0 || other != 0"),
    logical("logical_xor", "exactly one is not zero", "(self != 0) != (other != 0)"),
)

ROUNDING = (
    *map(rounding, ("ceil", "floor", "trunc", "round")),
    unary("frac", "self - trunc(self)", {"float": "M(frac)(self)"}),
    Op(
        "round_decimals",
        "pointwise",
        ("self",),
        "self rounded to a number of decimals",
        {"round.decimals": Overload(("decimals",))},
        ("decimals",),
        {"float": "M(round_decimals)(self, decimals)"},
    ),
)

ELEMENTARY = (
    *map(analytic, ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "sinc")),
    *map(analytic, ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
    *map(function, ("erf", "erfc")),
    binary("atan2", "the angle of (other, self)", {"float": "M(atan2)(self, other)"}, "atan2"),
    binary("hypot", "sqrt(self² + other²)", {"float": "M(hypot)(self, other)"}, "hypot"),
    binary("copysign", "|self| with other's sign", {"float": "M(copysign)(self, other)"}),
    binary(
        "nextafter",
        "the next number towards other",
        {
            "float": "M(nextafter)(self, other)",
            "f16": _next16("f16"),
            "bf16": _next16("bf16"),
        },
        "nextafter",
    ),
    binary("logaddexp", "log(exp(self) + exp(other))", {"float": "M(logaddexp)(self, other)"}, "logaddexp"),
    binary("logaddexp2", "log2(2^self + 2^other)", {"float": "M(logaddexp2)(self, other)"}, "logaddexp2"),
    binary("xlogy", "self * log(other), 0 where self is 0", {"float": "M(xlogy)(self, other)"}),
    binary(
        "heaviside",
        "0 below zero, 1 above, values at zero",
        {
            "float": "self == 0 ? values : (T)(self > 0)",
            "int": "self == 0 ? values : (T)(self > 0)",
            "bool": "self == 0 ? values : self",
        },
        "heaviside",
        inputs=("self", "values"),
    ),
    Op(
        "pow",
        "pointwise",
        ("self", "exponent"),
        "out = self ** exponent",
        {
            "pow.Tensor_Tensor": PLAIN,
            "pow.Scalar": Overload(iteration="scalar_first", own_shape=True),
            "pow.Scalar_out": Overload(iteration="scalar_first", own_shape=True),
        },
        expression={**real("M(pow)(self, exponent)"), "complex": "M(pow)(self, exponent)"},
    ),
    Op(
        "pow_scalar",
        "pointwise",
        ("self",),
        "out = self ** exponent, for a number",
        {"pow.Tensor_Scalar": Overload(("exponent",))},
        ("exponent",),
        {
            "float": "exponent == (T)2 ? self * self : exponent == (T)3 ? self * self * self : M(pow)(self, exponent)",
            "int": "M(pow)(self, exponent)",
            "complex": "M(pow_scalar)(self, exponent)",
        },
    ),
)

OPS = ARITHMETIC + COMPARISON + LOGIC + ROUNDING + ELEMENTARY
