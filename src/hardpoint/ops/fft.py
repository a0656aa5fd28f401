"""Discrete Fourier transforms."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "fft_c2c(self; dim, normalization, forward)",
        "out = transform of self along dimensions; normalization 0: none, 1: 1/sqrt(n), 2: 1/n, n elements",
        "_fft_c2c _fft_c2c.out",
    ),
    custom_op(
        "fft_r2c(self; dim, normalization, onesided)",
        "out = transform of a real self; onesided: only the first half of the last dimension",
        "_fft_r2c _fft_r2c.out",
    ),
    custom_op(
        "fft_c2r(self; dim, normalization, last_dim_size)",
        "out = real inverse transform of the first half of a Hermitian signal",
        "_fft_c2r _fft_c2r.out",
    ),
)
