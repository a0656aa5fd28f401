"""Resampling of images: upsampling and downsampling by nearest, linear and cubic interpolation."""

from hardpoint.ops import Op, Overload

SCALES = ("align_corners", "scale_0", "scale_1", "scale_2")


def _pair(name: str, overloads: tuple[str, ...], doc: str, attributes: tuple[str, ...] = SCALES) -> tuple[Op, Op]:
    """The operator and its gradient."""
    forward = {overload: Overload() for overload in overloads}
    backward = {f"{overload}_backward": Overload() for overload in overloads}
    meaning = f"out = self, {doc}; a scale of 0 takes the ratio of the sizes"
    return (
        Op(name, "custom", ("self",), meaning, forward, attributes=attributes),
        Op(f"{name}_backward", "custom", ("grad_output",), f"the gradient of {name}", backward, attributes=attributes),
    )


OPS = (
    *_pair(
        "upsample_nearest",
        ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
        "each element from the one at or before its place",
    ),
    *_pair(
        "upsample_nearest_exact",
        ("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
        "each element from the one whose centre is nearest",
    ),
    *_pair(
        "upsample_linear",
        ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"),
        "linear between neighbours",
    ),
    *_pair("upsample_cubic", ("upsample_bicubic2d",), "cubic between neighbours"),
    *_pair("upsample_linear_aa", ("_upsample_bilinear2d_aa",), "smoothed by a linear filter", SCALES[:3]),
    *_pair("upsample_cubic_aa", ("_upsample_bicubic2d_aa",), "smoothed by a cubic filter", SCALES[:3]),
)
