"""Image resampling."""

from hardpoint.ops.phi import PLAIN, Kernels

LINEAR = ("linear_interp", "bilinear_interp", "trilinear_interp")

KERNELS: Kernels = {
    "upsample_nearest": {"nearest_interp": PLAIN},
    "upsample_nearest_backward": {"nearest_interp_grad": PLAIN},
    "upsample_linear": dict.fromkeys(LINEAR, PLAIN),
    "upsample_linear_backward": {f"{name}_grad": PLAIN for name in LINEAR},
    "upsample_cubic": {"bicubic_interp": PLAIN},
    "upsample_cubic_backward": {"bicubic_interp_grad": PLAIN},
}
