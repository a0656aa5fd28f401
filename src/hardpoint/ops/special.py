"""Special functions."""

from collections.abc import Mapping

from hardpoint.ops import Op, Overload
from hardpoint.ops.pointwise import binary, function, unary


def special(
    name: str, aten: str = "", inputs: str = "self", tolerance: Mapping[str, tuple[float, float]] | None = None
) -> Op:
    """A special function of one number, in torch's namespace ``special``."""
    return Op(
        name,
        "pointwise",
        (inputs,),
        f"out = {name}({inputs})",
        unary(name, "", "", aten or f"special_{name}").aten,
        expression={"float": f"M({name})({inputs})"},
        tolerance=tolerance or {},
    )


#: torch's own result in double precision is wrong by this much.
WRONG_IN_TORCH = {"float64": (1e-5, 1e-5)}


def polynomial(name: str) -> Op:
    """An orthogonal polynomial of degree n at x."""
    return binary(name, f"{name} of degree n at x", {"float": f"M({name})(x, n)"}, f"special_{name}", inputs=("x", "n"))


OPS = (
    *map(function, ("digamma", "lgamma", "erfinv", "i0")),
    *map(special, ("entr", "ndtri", "log_ndtr", "erfcx", "i0e", "i1", "i1e")),
    *(special(n, tolerance=WRONG_IN_TORCH) for n in ("bessel_j0", "bessel_y1")),
    *map(special, ("bessel_j1", "bessel_y0")),
    *map(special, ("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1")),
    *(special(n, inputs="x") for n in ("airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")),
    special("spherical_bessel_j0", inputs="x"),
    binary("xlog1py", "self * log1p(other)", {"float": "M(xlog1py)(self, other)"}, "special_xlog1py"),
    binary("zeta", "the Hurwitz zeta function", {"float": "M(zeta)(self, other)"}, "special_zeta"),
    Op(
        "polygamma",
        "pointwise",
        ("self",),
        "the n-th derivative of digamma",
        {"polygamma": Overload(("n",))},
        ("n",),
        {"float": "M(polygamma)((int)n, self)"},
    ),
    binary("igamma", "the lower incomplete gamma function", {"float": "M(igamma)(self, other)"}, "igamma"),
    binary("igammac", "the upper incomplete gamma function", {"float": "M(igammac)(self, other)"}, "igammac"),
    *(polynomial(f"chebyshev_polynomial_{kind}") for kind in "tuvw"),
    *(polynomial(f"shifted_chebyshev_polynomial_{kind}") for kind in "tuvw"),
    *map(
        polynomial, ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
    ),
)
