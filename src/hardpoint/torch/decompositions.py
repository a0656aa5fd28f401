"""Look up decompositions; the adapter calls this for operators without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint.ops.torch_overloads import NOT_DECOMPOSED
from hardpoint.torch.extra_decompositions import EXTRA
from hardpoint.torch.outputs import write_results
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
    functional = functional_overload(operator)
    if functional is not None and functional.name() in EXTRA:
        return _with_outputs(EXTRA[functional.name()], operator)
    if functional is not None and functional in decomposition_table:
        return _with_outputs(decomposition_table[functional], operator)
    found: Callable[..., Any] | None = decomposition_table.get(operator)
    return found


def _with_outputs(function: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """Wrap a functional decomposition to write its results to the outputs of an overload."""
    names = [a.name for a in operator._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    in_place = not any(a.is_out for a in operator._schema.arguments)

    def write(*args: Any, **kwargs: Any) -> Any:
        targets = [args[0]] if in_place else [kwargs.pop(name) for name in names]
        results = function(*args, **kwargs)
        if results is NotImplemented:
            return results
        results = results if isinstance(results, (list, tuple)) else [results]
        write_results(targets, results, resize=not in_place)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return write
