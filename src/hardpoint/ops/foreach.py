"""Operators on lists of tensors: many small tensors in one launch. What they do not take, torch's own loop does."""

from hardpoint.ops import Op, Overload


def _on_lists(name: str, doc: str, *overloads: str, functional: bool = True) -> Op:
    names = [f"_foreach_{name}{form}{'.' if o else ''}{o}" for form in ("", "_")[not functional :] for o in overloads]
    return Op(f"foreach_{name}", "custom", (), doc, {n: Overload(composite=True) for n in names})


OPS = (
    _on_lists("add", "a + alpha * b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("sub", "a - alpha * b", "Scalar", "List", "ScalarList"),
    _on_lists("mul", "a * b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("div", "a / b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("maximum", "the greater one, or NaN", "List"),
    _on_lists("minimum", "the smaller one, or NaN", "List"),
    _on_lists("lerp", "a + weight * (b - a)", "Scalar", "List", "ScalarList"),
    _on_lists("addcmul", "a + value * b * c", "Scalar", "ScalarList"),
    _on_lists("addcdiv", "a + value * b / c", "Scalar", "ScalarList"),
    _on_lists("sqrt", "square root", ""),
    _on_lists("rsqrt", "1 / square root", ""),
    _on_lists("reciprocal", "1 / a", ""),
    _on_lists("neg", "-a", ""),
    _on_lists("abs", "magnitude", ""),
    _on_lists("exp", "e^a", ""),
    _on_lists("zero", "0 everywhere", "", functional=False),
    _on_lists("copy", "the other list", "", functional=False),
)
