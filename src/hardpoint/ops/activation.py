"""Activation functions and their backward."""

from hardpoint.ops import Expression, Op, Overload, parse_signature, pointwise_op
from hardpoint.ops.pointwise import analytic, function, real


def activation(signature: str, expression: Expression) -> Op:
    """A pointwise operator with the name of its ATen overload."""
    name, inputs, _ = parse_signature(signature)
    return pointwise_op(signature, f"out = {name}({', '.join(inputs)})", name, expression)


OPS = (
    pointwise_op(
        "relu(self)",
        "out = max(self, 0), propagating NaN",
        "relu relu_",
        real("self <= 0 ? (T)0 : self"),
        iteration="unary",
    ),
    # The casts wrap small integers before the comparison. torch's CPU kernel drops NaN in part of a tensor and turns
    # infinity into the largest number.
    pointwise_op(
        "add_relu(self, other; alpha)",
        "out = max(self + alpha * other, 0), propagating NaN",
        "_add_relu.Tensor _add_relu.out _add_relu_.Tensor",
        real("(T)(self + alpha * other) <= 0 ? (T)0 : (T)(self + alpha * other)"),
        iteration="binary",
    ),
    activation("threshold(self; threshold, value)", "self <= threshold ? value : self"),
    activation("threshold_backward(grad_output, self; threshold)", "self <= threshold ? (T)0 : grad_output"),
    analytic("silu"),
    function("mish"),
    activation(
        "silu_backward(grad_output, self)",
        {"float": "grad_output * M(sigmoid)(self) * ((T)1 + self * ((T)1 - M(sigmoid)(self)))"},
    ),
    activation(
        "sigmoid_backward(grad_output, output)",
        {
            "float": "grad_output * ((T)1 - output) * output",
            "complex": "M(mul)(grad_output, M(conj)(M(mul)(M(complement)(output), output)))",
        },
    ),
    activation(
        "tanh_backward(grad_output, output)",
        {
            "float": "grad_output * ((T)1 - output * output)",
            "complex": "M(mul)(grad_output, M(conj)(M(complement)(M(mul)(output, output))))",
        },
    ),
    pointwise_op(
        "mish_backward(grad_output, self)",
        "the gradient of mish",
        "mish_backward",
        {"float": "grad_output * M(d_mish)(self)"},
        iteration="binary",
    ),
    pointwise_op(
        "hardswish(self)",
        "out = self * hardsigmoid(self)",
        "hardswish hardswish.out hardswish_",
        {"float": "M(hardswish)(self)"},
        iteration="unary",
    ),
    pointwise_op(
        "hardswish_backward(grad_output, self)",
        "the gradient of hardswish",
        "hardswish_backward",
        {"float": "grad_output * M(d_hardswish)(self)"},
        iteration="binary",
    ),
    pointwise_op(
        "hardtanh(self; min_val, max_val)",
        "self clamped to [min, max]",
        "hardtanh hardtanh.out hardtanh_",
        {"float": "M(minimum)(M(maximum)(self, min_val), max_val)"},
        iteration="unary",
    ),
    pointwise_op(
        "hardtanh_backward(grad_output, self; min_val, max_val)",
        "the gradient of hardtanh",
        "hardtanh_backward hardtanh_backward.grad_input",
        {"float": "self <= min_val || self >= max_val ? (T)0 : grad_output"},
        iteration="binary",
    ),
    pointwise_op(
        "log_sigmoid_backward(grad_output, self)",
        "the gradient of log_sigmoid",
        "log_sigmoid_backward log_sigmoid_backward.grad_input",
        {"float": "grad_output * M(d_log_sigmoid)(self)"},
        iteration="binary",
    ),
    pointwise_op(
        "prelu(self, weight)",
        "self where it is positive, weight * self elsewhere",
        "_prelu_kernel",
        {"float": "self > 0 ? self : weight * self"},
        iteration="binary",
    ),
    Op(
        "glu",
        "pointwise",
        ("half", "gate"),
        "first half of self times the sigmoid of the second half",
        {"glu": Overload(sources={"half": "half_of(self, dim, 0)", "gate": "half_of(self, dim, 1)"})},
        expression={"float": "half * M(sigmoid)(gate)"},
    ),
    pointwise_op(
        "logit(self; eps=-1.0)",
        "log(self / (1 - self)), with self clamped to [eps, 1 - eps] if eps >= 0",
        "logit logit.out logit_",
        {"float": "M(logit)(self, eps)"},
        iteration="unary_float",
    ),
    activation("logit_backward(grad_output, self; eps=-1.0)", {"float": "M(logit_backward)(grad_output, self, eps)"}),
    Op(
        "gelu",
        "pointwise",
        ("self",),
        "out = self * Phi(self), exact or by tanh",
        {"gelu": Overload(variant_argument="approximate")},
        variants={"none": {"float": "M(gelu_erf)(self)"}, "tanh": {"float": "M(gelu_tanh)(self)"}},
    ),
    Op(
        "gelu_backward",
        "pointwise",
        ("grad_output", "self"),
        "the gradient of gelu",
        {"gelu_backward": Overload(variant_argument="approximate")},
        variants={
            "none": {"float": "grad_output * M(d_gelu_erf)(self)"},
            "tanh": {"float": "grad_output * M(d_gelu_tanh)(self)"},
        },
    ),
    activation("leaky_relu(self; negative_slope)", {"float": "self > 0 ? self : self * negative_slope"}),
    activation(
        "leaky_relu_backward(grad_output, self; negative_slope)",
        {"float": "self > 0 ? grad_output : grad_output * negative_slope"},
    ),
    activation("hardshrink(self; lambd)", {"float": "self >= -lambd && self <= lambd ? (T)0 : self"}),
    activation(
        "hardshrink_backward(grad_out, self; lambd)", {"float": "self >= -lambd && self <= lambd ? (T)0 : grad_out"}
    ),
    activation(
        "softshrink(self; lambd)",
        {"float": "self > lambd ? self - lambd : self < -lambd ? self + lambd : self != self ? self : (T)0"},
    ),
    activation(
        "softshrink_backward(grad_output, self; lambd)",
        {"float": "self >= -lambd && self <= lambd ? (T)0 : grad_output"},
    ),
    activation("hardsigmoid(self)", {"float": "M(hardsigmoid)(self)"}),
    activation(
        "hardsigmoid_backward(grad_output, self)", {"float": "self > (T)-3 && self < (T)3 ? grad_output / (T)6 : (T)0"}
    ),
    activation("softplus(self; beta, threshold)", {"float": "M(softplus)(self, beta, threshold)"}),
    activation(
        "softplus_backward(grad_output, self; beta, threshold)",
        {"float": "self * beta > threshold ? grad_output : grad_output * M(sigmoid)(self * beta)"},
    ),
    activation(
        "elu(self; alpha, scale, input_scale)",
        {"float": "self > 0 ? self * scale : M(expm1)(self * input_scale) * alpha * scale"},
    ),
    activation(
        "elu_backward(grad_output, self_or_result; alpha, scale, input_scale, is_result)",
        {
            "float": "self_or_result > 0 ? grad_output * scale : is_result != 0"
            " ? grad_output * input_scale * (self_or_result + alpha * scale)"
            " : grad_output * input_scale * alpha * scale * M(exp)(self_or_result * input_scale)"
        },
    ),
)
