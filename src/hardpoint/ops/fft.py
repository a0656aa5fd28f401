"""Discrete Fourier transforms."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "fft_c2c",
        "custom",
        ("self",),
        "out = the transform of self along dimensions; normalization 0: none, 1: 1/sqrt(n), 2: 1/n of all elements",
        {"_fft_c2c": Overload(), "_fft_c2c.out": Overload()},
        attributes=("dim", "normalization", "forward"),
    ),
    Op(
        "fft_r2c",
        "custom",
        ("self",),
        "out = the transform of a real self; onesided: the first half along the last one of the dimensions",
        {"_fft_r2c": Overload(), "_fft_r2c.out": Overload()},
        attributes=("dim", "normalization", "onesided"),
    ),
    Op(
        "fft_c2r",
        "custom",
        ("self",),
        "out = the real inverse transform of the first half of a Hermitian self",
        {"_fft_c2r": Overload(), "_fft_c2r.out": Overload()},
        attributes=("dim", "normalization", "last_dim_size"),
    ),
)
