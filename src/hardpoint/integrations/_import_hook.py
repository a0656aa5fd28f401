"""Calls a function after the import of certain modules."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it extends what the other finders found for the modules of interest."""

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

        # On the instance: the module keeps a loader of its own kind, which resources and sources are read with.
        loader.exec_module = exec_and_report


def install(names: set[str], imported: Callable[[types.ModuleType], None]) -> None:
    """Call ``imported`` with each of the named modules after its import from now on."""
    sys.meta_path.insert(0, _Finder(names, imported))


def importing(module: types.ModuleType) -> bool:
    """Whether a module is still being imported."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
