"""Grid sampling."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "grid_sampler": {"grid_sample": PLAIN},
    "grid_sampler_backward": {"grid_sample_grad": PLAIN},
}

COMPOSED = ("affine_grid", "affine_grid_grad")
