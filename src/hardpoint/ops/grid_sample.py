"""Grid sampling."""

from hardpoint.ops import custom_op

ATTRIBUTES = "interpolation_mode, padding_mode, align_corners"

OPS = (
    custom_op(
        f"grid_sampler(input, grid; {ATTRIBUTES})",
        "out = input interpolated at the grid's coordinates in [-1, 1]",
        "grid_sampler_2d grid_sampler_3d",
    ),
    custom_op(
        f"grid_sampler_backward(grad_output, input, grid; {ATTRIBUTES})",
        "gradients of input, unless that is None, and of grid",
        "grid_sampler_2d_backward grid_sampler_3d_backward",
    ),
)
