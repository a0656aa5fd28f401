"""Steps of training, counted where optimizers make them."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any


class Steps:
    """Calls a function after each step of an optimizer of either framework."""

    def __init__(self, stepped: Callable[[], None]) -> None:
        self._stepped = stepped
        self._lock = threading.Lock()
        self._undo: dict[str, Callable[[], None]] = {}

    def follow(self) -> None:
        """From now on, for the frameworks that are imported."""
        for module, hook in (("torch.optim.optimizer", self._torch), ("paddle.optimizer.optimizer", self._paddle)):
            if module in sys.modules and module not in self._undo:
                with self._lock:
                    if module not in self._undo:
                        self._undo[module] = hook(sys.modules[module])

    def stop(self) -> None:
        """No longer."""
        with self._lock:
            for undo in self._undo.values():
                undo()
            self._undo.clear()

    def _torch(self, module: Any) -> Callable[[], None]:
        handle = module.register_optimizer_step_post_hook(lambda *_: self._stepped())
        return lambda: handle.remove()

    def _paddle(self, module: Any) -> Callable[[], None]:
        # Paddle has no such hook. Each optimizer's step() ends in this method of their base class.
        original = module.Optimizer._apply_optimize

        @functools.wraps(original)
        def counted(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            self._stepped()
            return result

        module.Optimizer._apply_optimize = counted

        def undo() -> None:
            if module.Optimizer._apply_optimize is counted:
                module.Optimizer._apply_optimize = original

        return undo
