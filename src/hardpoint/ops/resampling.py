"""Image resampling by nearest, linear and cubic interpolation."""

from hardpoint.ops import Op, custom_op

SCALES_2D = "align_corners, scale_0, scale_1"
SCALES = f"{SCALES_2D}, scale_2"


def _pair(name: str, aten: str, doc: str, attributes: str = SCALES) -> tuple[Op, Op]:
    """The operator and its gradient."""
    backward = " ".join(f"{overload}_backward" for overload in aten.split())
    meaning = f"out = self, {doc}; a scale of 0 means the ratio of the sizes"
    return (
        custom_op(f"{name}(self; {attributes})", meaning, aten),
        custom_op(f"{name}_backward(grad_output; {attributes})", f"the gradient of {name}", backward),
    )


OPS = (
    *_pair(
        "upsample_nearest",
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
        "each element from the one at or before its position",
    ),
    *_pair(
        "upsample_nearest_exact",
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
        "each element from the one whose center is nearest",
    ),
    *_pair("upsample_linear", "upsample_linear1d upsample_bilinear2d upsample_trilinear3d", "linear between neighbors"),
    *_pair("upsample_cubic", "upsample_bicubic2d", "cubic between neighbors"),
    *_pair("upsample_linear_aa", "_upsample_bilinear2d_aa", "smoothed by a linear filter", SCALES_2D),
    *_pair("upsample_cubic_aa", "_upsample_bicubic2d_aa", "smoothed by a cubic filter", SCALES_2D),
)
