"""Calls a function after the import of certain modules."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps what other finders return for the modules of interest; finds nothing itself."""

    def __init__(self, names: set[str], imported: Callable[[types.ModuleType], None]) -> None:
        self.names = names
        self.imported = imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                self._extend(spec)
                return spec
        return None

    def _extend(self, spec: importlib.machinery.ModuleSpec) -> None:
        loader: Any = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return
        exec_module = loader.exec_module

        def exec_and_report(module: types.ModuleType) -> None:
            exec_module(module)
            self.imported(module)

        # Set on the instance: the module keeps its own kind of loader, which reads its resources and sources.
        loader.exec_module = exec_and_report


def install(names: set[str], imported: Callable[[types.ModuleType], None]) -> None:
    """From now on, call ``imported`` with each of the named modules after its import."""
    sys.meta_path.insert(0, _Finder(names, imported))


class _WatchedSpec(importlib.machinery.ModuleSpec):
    """Spec of a module that is being imported: reports the end of its import."""

    imported: Callable[[types.ModuleType], None]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "_initializing" and not value:  # set by importlib, also if the import failed
            imported = self.__dict__.pop("imported")
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            if (module := sys.modules.get(self.name)) is not None:
                imported(module)


def when_imported(module: types.ModuleType, imported: Callable[[types.ModuleType], None]) -> None:
    """Call a function with a module: now, or at the end of its import if that has begun.

    A module that imports torch, and so mounts the device, began its import before `install`.
    """
    spec = getattr(module, "__spec__", None)
    if not getattr(spec, "_initializing", False):
        imported(module)
    elif type(spec) is importlib.machinery.ModuleSpec:
        spec.__dict__["imported"] = imported
        spec.__class__ = _WatchedSpec


def after_import(name: str, action: Callable[[], None]) -> None:
    """Call a function once a module has been imported: now, or after its first import."""
    done = False

    def once(_: types.ModuleType) -> None:
        nonlocal done
        if not done:
            done = True
            action()

    if (module := sys.modules.get(name)) is not None:
        when_imported(module, once)
    else:
        install({name}, once)
