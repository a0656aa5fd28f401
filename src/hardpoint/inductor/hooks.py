"""Runs the registrations when ``torch._inductor`` is imported, which most programs never do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

#: torch.compile imports this module before it compiles anything with Inductor.
COMPILER = "torch._inductor.compile_fx"


def install(name: str) -> None:
    """Register the device with Inductor: now, or when Inductor is imported."""
    if COMPILER in sys.modules:
        _register(name)
    else:
        sys.meta_path.insert(0, _Finder(COMPILER, lambda: _register(name)))


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
