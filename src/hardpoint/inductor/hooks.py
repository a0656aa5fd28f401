"""Runs the registrations when ``torch._inductor`` is imported, which most programs never do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

#: torch.compile imports this module before it compiles anything with Inductor.
COMPILER = "torch._inductor.compile_fx"
FLEX_ATTENTION = "torch.nn.attention.flex_attention"


def install(name: str) -> None:
    """Register the device with Inductor: now, or when Inductor is imported."""
    _after_import(COMPILER, lambda: _register(name))
    _after_import(FLEX_ATTENTION, lambda: _accept_flex_attention(name))


def _after_import(module: str, action: Callable[[], None]) -> None:
    if module in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(module, action))


def _accept_flex_attention(name: str) -> None:
    """FlexAttention has a list of devices; on others than those of the list, it would compile as on a GPU."""
    module = sys.modules[FLEX_ATTENTION]
    original = getattr(module, "_validate_device", None)
    if original is None:
        return

    def validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != name:
            original(query, key, value)

    vars(module)["_validate_device"] = validate_device


def _register(name: str) -> None:
    from hardpoint.inductor import device_graphs, registration

    registration.register(name)
    device_graphs.install(name)


class _Finder(MetaPathFinder):
    """Finds one module as Python does, and calls a function after its import."""

    def __init__(self, module: str, action: Callable[[], None]) -> None:
        self.module, self.action = module, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.action)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader, action: Callable[[], None]) -> None:
        self.loader, self.action = loader, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.action()
