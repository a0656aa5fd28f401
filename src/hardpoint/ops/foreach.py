"""Operators on lists of tensors, with many small tensors per launch. torch loops over the tensors of other calls."""

from hardpoint.ops import Op, Overload, custom_op


def _on_lists(name: str, doc: str, *overloads: str, functional: bool = True) -> Op:
    names = [f"_foreach_{name}{form}{'.' if o else ''}{o}" for form in ("", "_")[not functional :] for o in overloads]
    return custom_op(f"foreach_{name}()", doc, " ".join(names), Overload(composite=True))


OPS = (
    _on_lists("add", "a + alpha * b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("sub", "a - alpha * b", "Scalar", "List", "ScalarList"),
    _on_lists("mul", "a * b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("div", "a / b", "Scalar", "List", "ScalarList", "Tensor"),
    _on_lists("maximum", "maximum, propagating NaN", "List"),
    _on_lists("minimum", "minimum, propagating NaN", "List"),
    _on_lists("lerp", "a + weight * (b - a)", "Scalar", "List", "ScalarList"),
    _on_lists("addcmul", "a + value * b * c", "Scalar", "ScalarList"),
    _on_lists("addcdiv", "a + value * b / c", "Scalar", "ScalarList"),
    _on_lists("sqrt", "square root", ""),
    _on_lists("rsqrt", "1 / square root", ""),
    _on_lists("reciprocal", "1 / a", ""),
    _on_lists("neg", "-a", ""),
    _on_lists("abs", "magnitude", ""),
    _on_lists("exp", "e^a", ""),
    _on_lists("zero", "0", "", functional=False),
    _on_lists("copy", "copy of the other list", "", functional=False),
)
