"""Counts training steps through the optimizers of both frameworks."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from hardpoint.debug._calls.location import outside_graphs


class OptimizerSteps:
    """Calls a function after each optimizer step."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step
        self._lock = threading.Lock()
        self._unhook: dict[str, Callable[[], None]] = {}

    def install(self) -> None:
        """Hook into the frameworks that are imported and not hooked yet."""
        for name, hook in (
            ("torch.optim.optimizer", self._hook_torch),
            ("paddle.optimizer.optimizer", self._hook_paddle),
        ):
            if name in sys.modules and name not in self._unhook:
                with self._lock:
                    if name not in self._unhook:
                        self._unhook[name] = hook(sys.modules[name])

    def remove(self) -> None:
        """Remove the hooks."""
        with self._lock:
            for unhook in self._unhook.values():
                unhook()
            self._unhook.clear()

    def _hook_torch(self, module: Any) -> Callable[[], None]:
        handle = module.register_optimizer_step_post_hook(outside_graphs(lambda *_: self._on_step()))
        return lambda: handle.remove()

    def _hook_paddle(self, module: Any) -> Callable[[], None]:
        # Paddle has no step hook, but every optimizer's step() ends in this method of the base class.
        original = module.Optimizer._apply_optimize

        @functools.wraps(original)
        def counted(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            self._on_step()
            return result

        module.Optimizer._apply_optimize = counted

        def unhook() -> None:
            if module.Optimizer._apply_optimize is counted:
                module.Optimizer._apply_optimize = original

        return unhook
