"""Sampling of images at the places that a grid names."""

from hardpoint.ops import Op, Overload

ATTRIBUTES = ("interpolation_mode", "padding_mode", "align_corners")

OPS = (
    Op(
        "grid_sampler",
        "custom",
        ("input", "grid"),
        "out = input, interpolated at the places that grid names, from -1 to 1",
        {"grid_sampler_2d": Overload(), "grid_sampler_3d": Overload()},
        attributes=ATTRIBUTES,
    ),
    Op(
        "grid_sampler_backward",
        "custom",
        ("grad_output", "input", "grid"),
        "the gradients of input (none where it is None) and of grid",
        {"grid_sampler_2d_backward": Overload(), "grid_sampler_3d_backward": Overload()},
        attributes=ATTRIBUTES,
    ),
)
