"""Operators that save and restore a generator's state, with which torch.compile recomputes dropout in checkpoints.

torch implements them for its own devices only. Traced graphs describe the state as one of the CPU's generator, so the
device's, which is shorter, is padded to that size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def register(name: str, module: Any) -> None:
    """Register them; call once per process. ``module`` is ``torch.<device>``."""
    from torch._prims import rng_prims
    from torch._subclasses.fake_tensor import FakeTensorMode

    save, replay = rng_prims.run_and_save_rng_state, rng_prims.run_with_rng_state

    def saved(op: Any, *args: Any, **kwargs: Any) -> Any:
        state = module.get_rng_state(_device(name, args, kwargs))
        return torch.nn.functional.pad(state, (0, _state_size() - state.numel())), op(*args, **kwargs)

    def replayed(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
        device = _device(name, args, kwargs)
        current = module.get_rng_state(device)
        module.set_rng_state(state[: current.numel()], device)
        try:
            return op(*args, **kwargs)
        finally:
            module.set_rng_state(current, device)

    def traced(op: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.empty(_state_size(), dtype=torch.uint8, device="cpu"), op(*args, **kwargs)

    def traced_in_mode(mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return traced(op, *args, **kwargs)

    key = torch._C.DispatchKey.BackendSelect
    _extend(save.py_kernels, key, name, saved, first=1)
    _extend(replay.py_kernels, key, name, replayed, first=2)
    fake_functions = getattr(torch._higher_order_ops.utils, "registered_hop_fake_fns", {})
    if save in fake_functions:
        _extend(fake_functions, save, name, traced, first=1)
    else:  # before torch 2.13
        _extend(save.python_key_table, FakeTensorMode, name, traced_in_mode, first=2)
    for operator in (save, replay):
        operator._dispatch_cache.clear()


def _extend(table: dict[Any, Any], key: Any, name: str, kernel: Callable[..., Any], first: int) -> None:
    """Call ``kernel`` if the operator's arguments, from number ``first``, are on the device."""
    original = table[key]

    def choose(*args: Any, **kwargs: Any) -> Any:
        chosen = original if _device(name, args[first:], kwargs) is None else kernel
        return chosen(*args, **kwargs)

    table[key] = choose


def _device(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device | None:
    """The device that the operator runs on, if it is one of this name."""
    given = kwargs.get("device")
    tensors = (x.device for x in args if isinstance(x, torch.Tensor))
    device = torch.device(given) if given is not None else next(tensors, None)
    return device if device is not None and device.type == name else None


def _state_size() -> int:
    return int(torch.default_generator.get_state().numel())
