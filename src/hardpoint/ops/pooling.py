"""Pooling: the largest or the mean of windows, in two and three dimensions. In one dimension torch makes it of two."""

from hardpoint.ops import Op, Overload

MAX = ("kernel_size", "stride", "padding", "dilation")
AVERAGE = ("kernel_size", "stride", "padding", "count_include_pad", "divisor_override")


def _op(
    name: str, inputs: tuple[str, ...], doc: str, overloads: tuple[str, ...], attributes: tuple[str, ...] = ()
) -> Op:
    return Op(name, "custom", inputs, doc, {overload: Overload() for overload in overloads}, attributes=attributes)


OPS = (
    _op(
        "max_pool2d",
        ("self",),
        "out = the largest element of each window, and where it is in its plane",
        ("max_pool2d_with_indices",),
        MAX,
    ),
    _op(
        "max_pool3d",
        ("self",),
        "the same in three dimensions",
        ("max_pool3d_with_indices", "max_pool3d_with_indices.out"),
        MAX,
    ),
    _op(
        "max_pool2d_backward",
        ("grad_output", "indices"),
        "the gradient: grad_output added up at the indices",
        ("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward", "fractional_max_pool2d_backward"),
    ),
    _op(
        "max_pool3d_backward",
        ("grad_output", "indices"),
        "the same in three dimensions",
        (
            "max_pool3d_with_indices_backward",
            "max_pool3d_with_indices_backward.grad_input",
            "adaptive_max_pool3d_backward",
            "fractional_max_pool3d_backward",
            "fractional_max_pool3d_backward.grad_input",
        ),
    ),
    _op(
        "avg_pool2d",
        ("self",),
        "out = the mean of each window; a divisor of 0 stands for their number",
        ("avg_pool2d",),
        AVERAGE,
    ),
    _op("avg_pool3d", ("self",), "the same in three dimensions", ("avg_pool3d",), AVERAGE),
    _op("avg_pool2d_backward", ("grad_output",), "the gradient of avg_pool2d", ("avg_pool2d_backward",), AVERAGE),
    _op("avg_pool3d_backward", ("grad_output",), "the gradient of avg_pool3d", ("avg_pool3d_backward",), AVERAGE),
    _op(
        "adaptive_avg_pool2d",
        ("self",),
        "out = the means of windows that share the input out evenly",
        ("_adaptive_avg_pool2d", "adaptive_avg_pool2d.out"),
    ),
    _op(
        "adaptive_avg_pool3d",
        ("self",),
        "the same in three dimensions",
        ("_adaptive_avg_pool3d", "adaptive_avg_pool3d.out"),
    ),
    _op(
        "adaptive_avg_pool2d_backward",
        ("grad_output",),
        "the gradient of adaptive_avg_pool2d",
        ("_adaptive_avg_pool2d_backward",),
    ),
    _op(
        "adaptive_avg_pool3d_backward",
        ("grad_output",),
        "the gradient of adaptive_avg_pool3d",
        ("_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward.grad_input"),
    ),
    _op(
        "adaptive_max_pool2d",
        ("self",),
        "out = the largest element of windows that share the input out evenly, and where it is",
        ("adaptive_max_pool2d",),
    ),
    _op("adaptive_max_pool3d", ("self",), "the same in three dimensions", ("adaptive_max_pool3d",)),
    _op(
        "fractional_max_pool2d",
        ("self", "random_samples"),
        "out = the largest element of windows at random places, and where it is",
        ("fractional_max_pool2d",),
        ("kernel_size",),
    ),
    _op(
        "fractional_max_pool3d",
        ("self", "random_samples"),
        "the same in three dimensions",
        ("fractional_max_pool3d",),
        ("kernel_size",),
    ),
    _op(
        "max_unpool2d",
        ("self", "indices"),
        "out = self at the indices, zero elsewhere",
        ("max_unpool2d", "max_unpool2d.out"),
    ),
    _op(
        "max_unpool3d",
        ("self", "indices"),
        "the same in three dimensions",
        ("max_unpool3d", "max_unpool3d.out"),
    ),
)
