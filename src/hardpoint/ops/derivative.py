"""Functions and gradients that are kernels in other frameworks, but compositions or formulas in PyTorch."""

from hardpoint.ops import Op, pointwise_op
from hardpoint.ops.pointwise import everywhere, real


def _op(signature: str, doc: str, expression: str) -> Op:
    """A floating-point operator."""
    return pointwise_op(signature, doc, "", {"float": expression})


def _gradient(name: str, expression: str, arguments: str = "grad, self") -> Op:
    doc = f"the gradient of {name}" + (", from its result" if "result" in arguments else "")
    return _op(f"{name}_backward({arguments})", doc, expression)


def _holomorphic(name: str, real_expression: str, complex_expression: str, arguments: str = "grad, self") -> Op:
    """A gradient that also serves complex numbers: the derivative is conjugated."""
    doc = f"the gradient of {name}" + (", from its result" if "result" in arguments else "")
    expressions = {"float": real_expression, "complex": complex_expression}
    return pointwise_op(f"{name}_backward({arguments})", doc, "", expressions)


def _side(name: str, side: str, expression: str, arguments: str = "grad, self, other") -> Op:
    return _op(f"{name}_backward_{side}({arguments})", f"the gradient of {name} for {side}", expression)


FUNCTIONS = (
    pointwise_op("isinf(self)", "whether self is infinite", "", everywhere("0", float="M(isinf)(self)")),
    pointwise_op("isfinite(self)", "whether self is a finite number", "", everywhere("1", float="self - self == 0")),
    pointwise_op(
        "signum(self)",
        "-1, 0 or 1; NaN for NaN",
        "",
        {"float": "self != self ? self : M(sign)(self)", "int": "(self > 0) - (self < 0)"},
    ),
    _op(
        "celu(self; alpha)",
        "self where it is positive, alpha * expm1(self / alpha) elsewhere",
        "self > 0 ? self : alpha * M(expm1)(self / alpha)",
    ),
    _op(
        "hardsigmoid_linear(self; slope, offset)",
        "self * slope + offset clamped to [0, 1]",
        "M(minimum)(M(maximum)(self * slope + offset, (T)0), (T)1)",
    ),
    _op("log_sigmoid(self)", "log(sigmoid(self))", "M(minimum)(self, (T)0) - M(log1p)(M(exp)(-M(abs)(self)))"),
    _op("softsign(self)", "self / (1 + |self|)", "self / ((T)1 + M(abs)(self))"),
    _op("tanhshrink(self)", "self - tanh(self)", "self - M(tanh)(self)"),
    _op("scaled_tanh(self; a, b)", "b * tanh(a * self)", "b * M(tanh)(a * self)"),
    _op(
        "clip_to_norm(self, norm; max)",
        "self scaled down to norm max if its norm is larger",
        "norm > max ? self * (max / norm) : self",
    ),
    pointwise_op(
        "kl_div(self, target)",
        "the Kullback-Leibler divergence of target, probabilities or their logarithms, from log-probabilities",
        "",
        variants={
            "probabilities": {"float": "target <= 0 ? (T)0 : target * (M(log)(target) - self)"},
            "logarithms": {"float": "M(exp)(target) * (target - self)"},
        },
    ),
    _op(
        "log_loss(self, target; epsilon)",
        "the cross entropy of the probability self with the label target",
        "-target * M(log)(self + epsilon) - ((T)1 - target) * M(log)((T)1 - self + epsilon)",
    ),
)

OF_ONE = (
    _gradient(
        "pow",
        "exponent == (T)2 ? grad * (T)2 * self : exponent == (T)0 ? (T)0"
        " : grad * exponent * M(pow)(self, exponent - (T)1)",
        "grad, self; exponent",
    ),
    _holomorphic("exp", "grad * result", "M(mul)(grad, M(conj)(result))", "grad, result"),
    _holomorphic("log", "grad / self", "M(div)(grad, M(conj)(self))"),
    _gradient("reciprocal", "-grad * result * result", "grad, result"),
    _gradient("sqrt", "(T)0.5 * grad / result", "grad, result"),
    _gradient("rsqrt", "(T)-0.5 * grad * result * result * result", "grad, result"),
    _gradient("expm1", "grad * result + grad", "grad, result"),
    _gradient("log2", "grad / (self * (T)0.693147180559945309417)"),
    _gradient("log10", "grad / (self * (T)2.30258509299404568402)"),
    _gradient("log1p", "grad / ((T)1 + self)"),
    _gradient("abs", "grad * M(sign)(self)"),
    _gradient("sin", "grad * M(cos)(self)"),
    _gradient("cos", "-grad * M(sin)(self)"),
    _gradient("tan", "grad * ((T)1 + M(tan)(self) * M(tan)(self))"),
    _gradient("asin", "grad * M(rsqrt)((T)1 - self * self)"),
    _gradient("acos", "-grad * M(rsqrt)((T)1 - self * self)"),
    _gradient("atan", "grad / ((T)1 + self * self)"),
    _gradient("sinh", "grad * M(cosh)(self)"),
    _gradient("cosh", "grad * M(sinh)(self)"),
    _gradient("asinh", "grad * M(rsqrt)(self * self + (T)1)"),
    _gradient("acosh", "grad * M(rsqrt)(self * self - (T)1)"),
    _gradient("atanh", "grad / ((T)1 - self * self)"),
    _gradient("erf", "grad * (T)1.12837916709551257390 * M(exp)(-self * self)"),
    _gradient("erfinv", "grad * (T)0.88622692545275801365 * M(exp)(result * result)", "grad, result"),
    _gradient("lgamma", "grad * M(digamma)(self)"),
    pointwise_op(
        "clamp_backward(grad, self; min, max)",
        "the gradient of clamp",
        "",
        real("self >= min && self <= max ? grad : (T)0"),
    ),
    _gradient("celu", "self > 0 ? grad : grad * M(exp)(self / alpha)", "grad, self; alpha"),
    _gradient("hardsigmoid_linear", "result > 0 && result < (T)1 ? grad * slope : (T)0", "grad, result; slope, offset"),
    _gradient("softsign", "grad / (((T)1 + M(abs)(self)) * ((T)1 + M(abs)(self)))"),
    _gradient("tanhshrink", "grad * M(tanh)(self) * M(tanh)(self)"),
    _gradient("scaled_tanh", "grad * a * b * ((T)1 - M(tanh)(a * self) * M(tanh)(a * self))", "grad, self; a, b"),
)

OF_TWO = (
    pointwise_op(
        "kl_div_backward(grad, target)",
        "the gradient of kl_div for the log-probabilities",
        "",
        variants={
            "probabilities": {"float": "target <= 0 ? (T)0 : -target * grad"},
            "logarithms": {"float": "-M(exp)(target) * grad"},
        },
    ),
    _gradient(
        "log_loss",
        "grad * (((T)1 - target) / ((T)1 - self + epsilon) - target / (self + epsilon))",
        "grad, self, target; epsilon",
    ),
    _side("maximum", "self", "self > other ? grad : self == other ? grad / (T)2 : (T)0"),
    _side("maximum", "other", "self < other ? grad : self == other ? grad / (T)2 : (T)0"),
    _side("minimum", "self", "self < other ? grad : self == other ? grad / (T)2 : (T)0"),
    _side("minimum", "other", "self > other ? grad : self == other ? grad / (T)2 : (T)0"),
    _side("fmax", "self", "self >= other || other != other ? grad : (T)0"),
    _side("fmax", "other", "self >= other || other != other ? (T)0 : grad"),
    _side("fmin", "self", "self <= other || other != other ? grad : (T)0"),
    _side("fmin", "other", "self <= other || other != other ? (T)0 : grad"),
    _side("pow", "self", "other == 0 ? (T)0 : grad * other * M(pow)(self, other - (T)1)"),
    _side("pow", "other", "grad * M(log)(self) * M(pow)(self, other)"),
    _side("atan2", "self", "grad * other / (self * self + other * other)"),
    _side("atan2", "other", "-grad * self / (self * self + other * other)"),
    _side("remainder", "other", "-grad * M(floor)(self / other)"),
    _side("lerp", "self", "grad * ((T)1 - weight)", "grad, weight"),
    _side("logsumexp", "self", "grad * M(exp)(self - result)", "grad, self, result"),
    _side("prod", "self", "grad * result / self", "grad, self, result"),
    _side("amax", "self", "self == result ? grad : (T)0", "grad, self, result"),
    pointwise_op(
        "vector_norm_backward(grad, self, result; ord, eps)",
        "the gradient of vector_norm",
        "",
        variants={
            "2": {"float": "grad * self / (result + eps)"},
            "1": {"float": "grad * M(sign)(self)"},
            "inf": {"float": "M(abs)(self) == result ? grad * M(sign)(self) : (T)0"},
            "p": {
                "float": "grad * M(sign)(self) * M(pow)(M(abs)(self), ord - (T)1) / (M(pow)(result, ord - (T)1) + eps)"
            },
        },
    ),
)

OPS = FUNCTIONS + OF_ONE + OF_TWO
