"""Replaces functions of a library, after checking that they are those that the integration was written for."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any


class LibraryChanged(Exception):
    """A function that an integration replaces is missing or has other parameters."""


class Patches:
    """Replacements for one module, applied together or not at all.

    Attributes:
        device: Name of the mounted device.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._changes: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, parameters: str, make: Callable[[Any], Any]) -> None:
        """Replace a function, method, property or cached property by ``make(original)``.

        Args:
            owner: Module or class.
            name: Attribute of the owner.
            parameters: Names of the leading parameters, which the replacement relies on.
            make: Takes the original function and returns its replacement.
        """
        found = inspect.getattr_static(owner, name, None)
        if found is None:
            raise LibraryChanged(f"{_label(owner)} has no {name}")
        function = found
        for attribute in ("fget", "func", "__func__"):  # property, cached_property, staticmethod
            function = getattr(function, attribute, function)
        wanted = parameters.split()
        try:
            given = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            raise LibraryChanged(f"{_label(owner)}.{name} is not a function") from None
        if given[: len(wanted)] != wanted:
            raise LibraryChanged(f"{_label(owner)}.{name} takes ({', '.join(given)}), not ({', '.join(wanted)}, ...)")
        replacement: Any = functools.wraps(function)(make(function))
        if isinstance(found, property):
            replacement = type(found)(replacement, found.fset, found.fdel, found.__doc__)
        elif isinstance(found, functools.cached_property):
            replacement = functools.cached_property(replacement)
            replacement.__set_name__(owner, name)
        elif isinstance(found, (staticmethod, classmethod)):
            replacement = type(found)(replacement)
        self._changes.append((owner, name, found, replacement))

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute that is not a plain function, such as a class."""
        found = inspect.getattr_static(owner, name, None)
        if found is None:
            raise LibraryChanged(f"{_label(owner)} has no {name}")
        self._changes.append((owner, name, found, replacement))

    def add_to_device_names(self, owner: Any, name: str, known: str) -> None:
        """Add the device to the tuple of device names in a function, which contains the names in ``known``.

        For a function that is too long to be replaced as a whole.
        """
        function = inspect.getattr_static(owner, name, None)
        if not isinstance(function, types.FunctionType):
            raise LibraryChanged(f"{_label(owner)}.{name} is not a function")
        code = function.__code__
        wanted = set(known.split())

        def extended(constant: Any) -> Any:
            lists_devices = isinstance(constant, tuple) and wanted.issubset(x for x in constant if isinstance(x, str))
            return (*constant, self.device) if lists_devices else constant

        constants = tuple(map(extended, code.co_consts))
        if constants == code.co_consts:
            raise LibraryChanged(f"{_label(owner)}.{name} has no list of devices with {known}")
        self._changes.append((function, "__code__", code, code.replace(co_consts=constants)))

    def replace_device_name(self, owner: Any, name: str, known: str) -> None:
        """Replace the constant ``known``, a device's name, by this device's in a function for accelerators alone."""
        function = inspect.getattr_static(owner, name, None)
        if not isinstance(function, types.FunctionType):
            raise LibraryChanged(f"{_label(owner)}.{name} is not a function")
        code = function.__code__
        if known not in code.co_consts:
            raise LibraryChanged(f"{_label(owner)}.{name} does not name the device {known}")
        constants = tuple(self.device if constant == known else constant for constant in code.co_consts)
        self._changes.append((function, "__code__", code, code.replace(co_consts=constants)))

    def apply(self) -> None:
        """Make the replacements, also in other modules of the library that imported a function by name."""
        for owner, name, found, replacement in self._changes:
            setattr(owner, name, replacement)
            if isinstance(owner, types.ModuleType):
                _replace_copies(owner.__name__.partition(".")[0], name, found, replacement)


def _replace_copies(package: str, name: str, found: Any, replacement: Any) -> None:
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == package and getattr(module, "__dict__", {}).get(name) is found:
            setattr(module, name, replacement)


def _label(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, types.ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
