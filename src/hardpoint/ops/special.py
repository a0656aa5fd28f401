"""Special functions."""

from dataclasses import replace

from hardpoint.ops import Op, pointwise_op
from hardpoint.ops.pointwise import binary, function


def special(name: str, x: str = "self") -> Op:
    """A unary function in torch's namespace ``special``."""
    return pointwise_op(f"{name}({x})", f"out = {name}({x})", f"special_{name}", {"float": f"M({name})({x})"})


#: Error of torch's own result in double precision.
WRONG_IN_TORCH = {"float64": (1e-5, 1e-5)}


def polynomial(name: str) -> Op:
    """An orthogonal polynomial of degree n at x."""
    return pointwise_op(f"{name}(x, n)", f"{name} of degree n at x", f"special_{name}", {"float": f"M({name})(x, n)"})


OPS = (
    *map(function, ("digamma", "lgamma", "erfinv", "i0")),
    *map(special, ("entr", "ndtri", "log_ndtr", "erfcx", "i0e", "i1", "i1e")),
    *(replace(special(n), tolerance=WRONG_IN_TORCH) for n in ("bessel_j0", "bessel_y1")),
    *map(special, ("bessel_j1", "bessel_y0")),
    *map(special, ("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1")),
    *(special(n, "x") for n in ("airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")),
    special("spherical_bessel_j0", "x"),
    binary("xlog1py", "self * log1p(other)", {"float": "M(xlog1py)(self, other)"}, "special_xlog1py"),
    binary("zeta", "the Hurwitz zeta function", {"float": "M(zeta)(self, other)"}, "special_zeta"),
    pointwise_op(
        "polygamma(self; n)", "the n-th derivative of digamma", "polygamma", {"float": "M(polygamma)((int)n, self)"}
    ),
    binary("igamma", "the lower incomplete gamma function", {"float": "M(igamma)(self, other)"}, "igamma"),
    binary("igammac", "the upper incomplete gamma function", {"float": "M(igammac)(self, other)"}, "igammac"),
    *(polynomial(f"chebyshev_polynomial_{kind}") for kind in "tuvw"),
    *(polynomial(f"shifted_chebyshev_polynomial_{kind}") for kind in "tuvw"),
    *map(
        polynomial, ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
    ),
)
