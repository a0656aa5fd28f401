"""Activation functions and their backward."""

from hardpoint.ops import Expression, Op, Overload
from hardpoint.ops.pointwise import analytic, function, without_shape


def activation(
    name: str, expression: Expression, *attributes: str, inputs: tuple[str, ...] = ("self",), doc: str = ""
) -> Op:
    """A pointwise operator whose attributes are plain arguments of the overload."""
    return Op(
        name,
        "pointwise",
        inputs,
        doc or f"out = {name}({', '.join(inputs)})",
        {name: Overload(attributes)},
        tuple(a.split("=")[0] for a in attributes),
        expression,
    )


GRAD_SELF = ("grad_output", "self")
GRAD_OUTPUT = ("grad_output", "output")

OPS = (
    Op(
        "relu",
        "pointwise",
        ("self",),
        "out = max(self, 0), NaN kept",
        {"relu": Overload(iteration="unary"), "relu_": Overload(iteration="unary")},
        expression={"float": "self <= 0 ? (T)0 : self", "int": "self <= 0 ? (T)0 : self"},
    ),
    activation("threshold", "self <= threshold ? value : self", "threshold", "value"),
    activation("threshold_backward", "self <= threshold ? (T)0 : grad_output", "threshold", inputs=GRAD_SELF),
    analytic("silu"),
    function("mish"),
    activation(
        "silu_backward",
        {
            "float": "grad_output * M(sigmoid)(self) * ((T)1 + self * ((T)1 - M(sigmoid)(self)))",
        },
        inputs=GRAD_SELF,
    ),
    activation(
        "sigmoid_backward",
        {
            "float": "grad_output * ((T)1 - output) * output",
            "complex": "M(mul)(grad_output, M(conj)(M(mul)(M(complement)(output), output)))",
        },
        inputs=GRAD_OUTPUT,
    ),
    activation(
        "tanh_backward",
        {
            "float": "grad_output * ((T)1 - output * output)",
            "complex": "M(mul)(grad_output, M(conj)(M(complement)(M(mul)(output, output))))",
        },
        inputs=GRAD_OUTPUT,
    ),
    Op(
        "mish_backward",
        "pointwise",
        GRAD_SELF,
        "the gradient of mish",
        without_shape("mish_backward", iteration="binary"),
        expression={"float": "grad_output * M(d_mish)(self)"},
    ),
    Op(
        "hardswish",
        "pointwise",
        ("self",),
        "out = self * hardsigmoid(self)",
        without_shape("hardswish", "hardswish.out", "hardswish_", iteration="unary"),
        expression={"float": "M(hardswish)(self)"},
    ),
    Op(
        "hardswish_backward",
        "pointwise",
        GRAD_SELF,
        "the gradient of hardswish",
        without_shape("hardswish_backward", iteration="binary"),
        expression={"float": "grad_output * M(d_hardswish)(self)"},
    ),
    Op(
        "hardtanh",
        "pointwise",
        ("self",),
        "self brought between two numbers",
        without_shape("hardtanh", "hardtanh.out", "hardtanh_", iteration="unary", attributes=("min_val", "max_val")),
        ("min_val", "max_val"),
        {"float": "M(minimum)(M(maximum)(self, min_val), max_val)"},
    ),
    Op(
        "hardtanh_backward",
        "pointwise",
        GRAD_SELF,
        "the gradient of hardtanh",
        without_shape(
            "hardtanh_backward", "hardtanh_backward.grad_input", iteration="binary", attributes=("min_val", "max_val")
        ),
        ("min_val", "max_val"),
        {"float": "self <= min_val || self >= max_val ? (T)0 : grad_output"},
    ),
    Op(
        "log_sigmoid_backward",
        "pointwise",
        GRAD_SELF,
        "the gradient of log_sigmoid",
        without_shape("log_sigmoid_backward", "log_sigmoid_backward.grad_input", iteration="binary"),
        expression={"float": "grad_output * M(d_log_sigmoid)(self)"},
    ),
    Op(
        "prelu",
        "pointwise",
        ("self", "weight"),
        "self where it is positive, weight * self elsewhere",
        without_shape("_prelu_kernel", iteration="binary"),
        expression={"float": "self > 0 ? self : weight * self"},
    ),
    Op(
        "glu",
        "pointwise",
        ("half", "gate"),
        "half of a tensor, gated by the sigmoid of the other half",
        {"glu": Overload(sources={"half": "half_of(self, dim, 0)", "gate": "half_of(self, dim, 1)"})},
        expression={"float": "half * M(sigmoid)(gate)"},
    ),
    Op(
        "logit",
        "pointwise",
        ("self",),
        "log(self / (1 - self)), self first brought into [eps, 1 - eps] unless eps < 0",
        without_shape("logit", "logit.out", "logit_", iteration="unary_float", attributes=("eps=-1.0",)),
        ("eps",),
        {"float": "M(logit)(self, eps)"},
    ),
    activation("logit_backward", {"float": "M(logit_backward)(grad_output, self, eps)"}, "eps=-1.0", inputs=GRAD_SELF),
    Op(
        "gelu",
        "pointwise",
        ("self",),
        "out = self * Phi(self), exact or by tanh",
        {"gelu": Overload(chooser="approximate")},
        variants={"none": {"float": "M(gelu_erf)(self)"}, "tanh": {"float": "M(gelu_tanh)(self)"}},
    ),
    Op(
        "gelu_backward",
        "pointwise",
        GRAD_SELF,
        "the gradient of gelu",
        {"gelu_backward": Overload(chooser="approximate")},
        variants={
            "none": {"float": "grad_output * M(d_gelu_erf)(self)"},
            "tanh": {"float": "grad_output * M(d_gelu_tanh)(self)"},
        },
    ),
    activation("leaky_relu", {"float": "self > 0 ? self : self * negative_slope"}, "negative_slope"),
    activation(
        "leaky_relu_backward",
        {"float": "self > 0 ? grad_output : grad_output * negative_slope"},
        "negative_slope",
        inputs=GRAD_SELF,
    ),
    activation("hardshrink", {"float": "self >= -lambd && self <= lambd ? (T)0 : self"}, "lambd"),
    activation(
        "hardshrink_backward",
        {"float": "self >= -lambd && self <= lambd ? (T)0 : grad_out"},
        "lambd",
        inputs=("grad_out", "self"),
    ),
    activation(
        "softshrink",
        {"float": "self > lambd ? self - lambd : self < -lambd ? self + lambd : self != self ? self : (T)0"},
        "lambd",
    ),
    activation(
        "softshrink_backward",
        {"float": "self >= -lambd && self <= lambd ? (T)0 : grad_output"},
        "lambd",
        inputs=GRAD_SELF,
    ),
    activation("hardsigmoid", {"float": "M(hardsigmoid)(self)"}),
    activation(
        "hardsigmoid_backward",
        {"float": "self > (T)-3 && self < (T)3 ? grad_output / (T)6 : (T)0"},
        inputs=GRAD_SELF,
    ),
    activation("softplus", {"float": "M(softplus)(self, beta, threshold)"}, "beta", "threshold"),
    activation(
        "softplus_backward",
        {"float": "self * beta > threshold ? grad_output : grad_output * M(sigmoid)(self * beta)"},
        "beta",
        "threshold",
        inputs=GRAD_SELF,
    ),
    activation(
        "elu",
        {"float": "self > 0 ? self * scale : M(expm1)(self * input_scale) * alpha * scale"},
        "alpha",
        "scale",
        "input_scale",
    ),
    activation(
        "elu_backward",
        {
            "float": "self_or_result > 0 ? grad_output * scale : is_result != 0"
            " ? grad_output * input_scale * (self_or_result + alpha * scale)"
            " : grad_output * input_scale * alpha * scale * M(exp)(self_or_result * input_scale)"
        },
        "alpha",
        "scale",
        "input_scale",
        "is_result",
        inputs=("grad_output", "self_or_result"),
    ),
)
