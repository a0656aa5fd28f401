"""Look up decompositions; the adapter calls this for operators without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint.ops.torch_overloads import NOT_DECOMPOSED
from hardpoint.torch.extra_decompositions import EXTRA
from hardpoint.torch.overloads import aten_overload, functional_overload


def find(name: str) -> Callable[..., Any] | None:
    """Decomposition of an overload such as ``aten::add.Tensor``, or None."""
    import torch
    from torch._decomp import decomposition_table

    namespace, _, bare = name.partition("::")
    if name in EXTRA:
        return EXTRA[name]
    if namespace != "aten" or bare in NOT_DECOMPOSED:
        return None
    operator = aten_overload(bare)
    # Random numbers must not depend on the tier: a seed always gives the same ones.
    if operator is None or torch.Tag.nondeterministic_seeded in operator.tags:
        return None
    if operator in decomposition_table:
        found: Callable[..., Any] = decomposition_table[operator]
        return found
    functional = functional_overload(operator)
    if functional is None or functional not in decomposition_table:
        return None
    return _with_outputs(decomposition_table[functional], operator)


def _with_outputs(function: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """Wrap a functional decomposition to write its results to the outputs of an overload."""
    names = [a.name for a in operator._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    in_place = not any(a.is_out for a in operator._schema.arguments)

    def write(*args: Any, **kwargs: Any) -> Any:
        from torch._prims_common.wrappers import _maybe_resize_out

        targets = [args[0]] if in_place else [kwargs.pop(name) for name in names]
        results = function(*args, **kwargs)
        results = results if isinstance(results, (list, tuple)) else [results]
        for target, result in zip(targets, results, strict=True):
            if in_place and (target.shape != result.shape or target.dtype != result.dtype):
                raise RuntimeError("an in-place operator cannot change shape or dtype")
            _maybe_resize_out(target, result.shape)
            target.copy_(result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return write
