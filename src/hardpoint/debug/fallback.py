"""Fallback rules: which tiers may serve which operators.

A rule is ``PATTERN`` or ``PATTERN=VALUE``. The pattern is a regular expression for the whole operator name; the
namespace and the overload are optional. ``VALUE`` is one of

- the first tier that may serve the operator: ``vendor``, ``portable``, ``decomposition`` or ``cpu`` (the default);
- tiers to exclude: ``-vendor-portable``;
- ``error``: raise instead of running on the CPU.

``!PATTERN`` cancels earlier rules, ``@FILE`` reads rules from a file. The last matching rule wins.
"""

from __future__ import annotations

import difflib
import re
import sys
import threading
import warnings
from pathlib import Path

from hardpoint._runtime import PluginError, core
from hardpoint.ops.torch_overloads import DEVICE_OVERLOADS

TIERS = ("vendor", "portable", "decomposition", "cpu")
#: How deep rule files may include each other.
MAX_DEPTH = 8

#: A pattern and the tiers that it excludes.
Rule = tuple[str, list[str]]


def parse(text: str, depth: int = 0) -> list[Rule]:
    """Parse rules. Raises ``ValueError`` that names the invalid rule."""
    rules: list[Rule] = []
    for item in split(text):
        if item.startswith("@"):
            rules += _read(Path(item[1:].strip()).expanduser(), depth)
        elif item == "error":
            rules.append((".*", _excluded_tiers("error", item)))
        elif item.startswith("!"):
            rules.append((_pattern(item[1:], item), []))
        else:
            pattern, _, value = item.partition("=")
            rules.append((_pattern(pattern, item), _excluded_tiers(value.strip() or "cpu", item)))
    return rules


def split(text: str) -> list[str]:
    """Split at newlines and at commas outside brackets; ``#`` starts a comment."""
    items, item, open_brackets = [], "", 0
    for line in text.splitlines():
        for character in line.partition("#")[0]:
            open_brackets += (character in "([{") - (character in ")]}")
            if character == "," and open_brackets <= 0:
                items.append(item)
                item = ""
            else:
                item += character
        items.append(item)
        item, open_brackets = "", 0
    return [item.strip() for item in items if item.strip()]


def _read(file: Path, depth: int) -> list[Rule]:
    if depth >= MAX_DEPTH:
        raise ValueError(f"fallback rules: {file} includes itself, or files are nested deeper than {MAX_DEPTH}")
    try:
        text = file.read_text()
    except OSError as error:
        raise ValueError(f"fallback rules: cannot read {file}: {error.strerror}") from None
    return parse(text, depth + 1)


def _pattern(text: str, item: str) -> str:
    text = text.strip()
    if not text:
        raise ValueError(f"fallback rule '{item}' names no operator")
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"fallback rule '{item}': '{text}' is not a valid regular expression: {error}") from None
    parts = DEVICE_OVERLOADS.get(text.removeprefix("aten::"), ())
    return "|".join([text, *parts]) if parts else text


def _excluded_tiers(value: str, item: str) -> list[str]:
    if value == "error":
        return ["cpu"]
    if value in TIERS:
        return list(TIERS[: TIERS.index(value)])
    names = value.split("-")[1:]
    if value.startswith("-") and names and all(name in TIERS for name in names):
        return names
    raise ValueError(
        f"fallback rule '{item}': expected {', '.join(TIERS)}, error, or tiers to exclude such as '-vendor', "
        f"not '{value}'"
    )


class _ActiveRules:
    """The rules in effect: those of the environment, then those of the program in order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environment: list[Rule] = []
        self.program: list[Fallback] = []

    def apply(self, environment: list[Rule], program: list[Fallback]) -> None:
        """Pass the rules to the core. If it rejects a pattern, the old rules remain. Call with the lock held."""
        try:
            core.set_rules([*environment, *(rule for fallback in program for rule in fallback.rules)])
        except PluginError as error:
            raise ValueError(f"fallback rule: {error}") from None
        self.environment, self.program = environment, program


_active = _ActiveRules()


class Fallback:
    """Applies rules such as ``"conv2d,.*\\.Scalar"`` or ``"mm=portable"`` in every thread, from the next operator on.

    They apply until :meth:`remove` or the end of a ``with`` block.
    """

    def __init__(self, rules: str) -> None:
        self.rules = parse(rules)
        _warn_if_unmatched(self.rules)
        with _active.lock:
            _active.apply(_active.environment, [*_active.program, self])

    def remove(self) -> None:
        """Remove the rules. Removing twice is harmless."""
        with _active.lock:
            _active.apply(_active.environment, [f for f in _active.program if f is not self])

    def __enter__(self) -> Fallback:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


fallback = Fallback
"""Apply rules; creates :class:`Fallback`."""


def set_environment(text: str | None) -> None:
    """Replace the rules of ``HARDPOINT_FALLBACK``."""
    rules = parse(text or "")
    _warn_if_unmatched(rules)
    with _active.lock:
        _active.apply(rules, _active.program)


def spellings(name: str) -> set[str]:
    """An operator's name with and without its namespace and overload."""
    bare = name.partition("::")[2] or name
    return {name, bare, name.split(".")[0], bare.split(".")[0]}


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches an operator, given by its full name."""
    return any(re.fullmatch(pattern, spelling) for spelling in spellings(name))


#: Rules set before any framework was loaded. They are checked when one is mounted.
_unchecked: list[Rule] = []


def _warn_if_unmatched(rules: list[Rule]) -> None:
    torch = sys.modules.get("torch")
    names = getattr(getattr(torch, "_C", None), "_dispatch_get_all_op_names", None)
    if names is None:
        _unchecked[:] = rules
        return
    # Paddle's operators and Triton's kernels cannot be listed: with both frameworks, only patterns for aten:: can be
    # checked.
    both = "paddle" in sys.modules
    known: set[str] = set().union(*map(spellings, names())) if rules else set()
    for pattern, _ in rules:
        if pattern == ".*" or pattern.startswith("triton::") or (both and not pattern.startswith("aten::")):
            continue
        if not any(re.fullmatch(pattern, name) for name in known):
            similar = difflib.get_close_matches(pattern, (name for name in known if ":" not in name), 1, 0.7)
            hint = f"; did you mean '{similar[0]}'?" if similar else ""
            warnings.warn(f"fallback rule '{pattern}' matches no torch operator{hint}", UserWarning, stacklevel=3)


def check_early_rules() -> None:
    """Warn about rules without an operator that were set before torch was loaded, as ``hardpoint run`` does."""
    rules, _unchecked[:] = list(_unchecked), []
    _warn_if_unmatched(rules)
