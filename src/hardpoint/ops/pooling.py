"""Max and average pooling in two and three dimensions. torch implements 1D pooling with the 2D operators."""

from hardpoint.ops import custom_op

MAX = "kernel_size, stride, padding, dilation"
AVERAGE = "kernel_size, stride, padding, count_include_pad, divisor_override"

OPS = (
    custom_op(
        f"max_pool2d(self; {MAX})",
        "out, indices = maximum of each window and its index in the plane",
        "max_pool2d_with_indices",
    ),
    custom_op(
        f"max_pool3d(self; {MAX})",
        "the same in three dimensions",
        "max_pool3d_with_indices max_pool3d_with_indices.out",
    ),
    custom_op(
        "max_pool2d_backward(grad_output, indices)",
        "gradient: grad_output accumulated at the indices",
        "max_pool2d_with_indices_backward adaptive_max_pool2d_backward fractional_max_pool2d_backward",
    ),
    custom_op(
        "max_pool3d_backward(grad_output, indices)",
        "the same in three dimensions",
        "max_pool3d_with_indices_backward max_pool3d_with_indices_backward.grad_input adaptive_max_pool3d_backward "
        "fractional_max_pool3d_backward fractional_max_pool3d_backward.grad_input",
    ),
    custom_op(
        f"avg_pool2d(self; {AVERAGE})", "out = mean of each window; a divisor of 0 means the window size", "avg_pool2d"
    ),
    custom_op(f"avg_pool3d(self; {AVERAGE})", "the same in three dimensions", "avg_pool3d"),
    custom_op(f"avg_pool2d_backward(grad_output; {AVERAGE})", "the gradient of avg_pool2d", "avg_pool2d_backward"),
    custom_op(f"avg_pool3d_backward(grad_output; {AVERAGE})", "the gradient of avg_pool3d", "avg_pool3d_backward"),
    custom_op(
        "adaptive_avg_pool2d(self)",
        "out = means of windows that evenly cover the input",
        "_adaptive_avg_pool2d adaptive_avg_pool2d.out",
    ),
    custom_op(
        "adaptive_avg_pool3d(self)", "the same in three dimensions", "_adaptive_avg_pool3d adaptive_avg_pool3d.out"
    ),
    custom_op(
        "adaptive_avg_pool2d_backward(grad_output)",
        "the gradient of adaptive_avg_pool2d",
        "_adaptive_avg_pool2d_backward",
    ),
    custom_op(
        "adaptive_avg_pool3d_backward(grad_output)",
        "the gradient of adaptive_avg_pool3d",
        "_adaptive_avg_pool3d_backward adaptive_avg_pool3d_backward.grad_input",
    ),
    custom_op(
        "adaptive_max_pool2d(self)",
        "out, indices = maximum of windows that evenly cover the input, and its index",
        "adaptive_max_pool2d",
    ),
    custom_op("adaptive_max_pool3d(self)", "the same in three dimensions", "adaptive_max_pool3d"),
    custom_op(
        "fractional_max_pool2d(self, random_samples; kernel_size)",
        "out, indices = maximum of windows at random positions, and its index",
        "fractional_max_pool2d",
    ),
    custom_op(
        "fractional_max_pool3d(self, random_samples; kernel_size)",
        "the same in three dimensions",
        "fractional_max_pool3d",
    ),
    custom_op(
        "max_unpool2d(self, indices)", "out = self at the indices, zero elsewhere", "max_unpool2d max_unpool2d.out"
    ),
    custom_op("max_unpool3d(self, indices)", "the same in three dimensions", "max_unpool3d max_unpool3d.out"),
)
