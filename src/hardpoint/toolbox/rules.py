"""Rules for fallback: which tiers may serve which operators.

A rule is ``PATTERN`` or ``PATTERN=WHAT``. The pattern is a regular expression for an operator's whole name; the
namespace and the overload may be left out. ``WHAT`` is the first tier that may serve it (``vendor``, ``portable``,
``decomposition``, or ``cpu``, which is meant when nothing is said), tiers that may not (``-vendor-portable``), or
``error``: the tiers as usual, but what would run on the CPU raises. ``!PATTERN`` takes an operator out again, ``@FILE``
reads rules from a file. The last rule that matches an operator counts.
"""

from __future__ import annotations

import re
import sys
import threading
import warnings
from pathlib import Path
from types import TracebackType

from hardpoint._runtime import PluginError, core
from hardpoint.ops.torch_overloads import PARTS

TIERS = ("vendor", "portable", "decomposition", "cpu")
#: Files of rules may read others, but not for ever.
MAX_DEPTH = 8

Rule = tuple[str, list[str]]


def parse(text: str, depth: int = 0) -> list[Rule]:
    """Rules as pairs of a pattern and the tiers that it denies. Raises ``ValueError``, naming the rule."""
    rules: list[Rule] = []
    for item in split(text):
        if item.startswith("@"):
            rules += _read(Path(item[1:].strip()).expanduser(), depth)
        elif item == "error":
            rules.append((".*", _denied("error", item)))
        elif item.startswith("!"):
            rules.append((_pattern(item[1:], item), []))
        else:
            pattern, _, what = item.partition("=")
            rules.append((_pattern(pattern, item), _denied(what.strip() or "cpu", item)))
    return rules


def split(text: str) -> list[str]:
    """Items between commas and line ends, but for commas inside brackets; ``#`` starts a comment."""
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
        raise ValueError(f"files of fallback rules read each other: {file}")
    try:
        text = file.read_text()
    except OSError as error:
        raise ValueError(f"fallback rules cannot be read from {file}: {error.strerror}") from None
    return parse(text, depth + 1)


def _pattern(text: str, item: str) -> str:
    text = text.strip()
    if not text:
        raise ValueError(f"fallback rule '{item}' names no operator")
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"fallback rule '{item}': '{text}' is no regular expression: {error}") from None
    parts = PARTS.get(text.removeprefix("aten::"), ())
    return "|".join([text, *parts]) if parts else text


def _denied(what: str, item: str) -> list[str]:
    if what == "error":
        return ["cpu"]
    if what in TIERS:
        return list(TIERS[: TIERS.index(what)])
    names = what.split("-")[1:]
    if what.startswith("-") and names and all(name in TIERS for name in names):
        return names
    raise ValueError(
        f"fallback rule '{item}': '{what}' is none of {', '.join(TIERS)}, error, or tiers to leave out, as in '-vendor'"
    )


class _InForce:
    """What is in force: the environment's rules first, then the program's, in order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environment: list[Rule] = []
        self.program: list[Fallback] = []

    def apply(self, environment: list[Rule], program: list[Fallback]) -> None:
        """Tell the core. Changes nothing if it refuses a pattern."""
        try:
            core.set_rules([*environment, *(rule for fallback in program for rule in fallback.rules)])
        except PluginError as error:
            raise ValueError(f"fallback rule: {error}") from None
        self.environment, self.program = environment, program


_in_force = _InForce()


class Fallback:
    """Rules in force, until :meth:`remove` or the end of a ``with`` block. For every thread."""

    def __init__(self, rules: str) -> None:
        self.rules = parse(rules)
        _warn_of_strangers(self.rules)
        with _in_force.lock:
            _in_force.apply(_in_force.environment, [*_in_force.program, self])

    def remove(self) -> None:
        """Take the rules away again. Doing it twice is harmless."""
        with _in_force.lock:
            _in_force.apply(_in_force.environment, [f for f in _in_force.program if f is not self])

    def __enter__(self) -> Fallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def fallback(rules: str) -> Fallback:
    """Put rules in force, such as ``"conv2d,.*\\.Scalar"`` or ``"mm=portable"``: from the next operator on."""
    return Fallback(rules)


def set_environment(text: str | None) -> None:
    """What HARDPOINT_FALLBACK says, in place of what it said before."""
    rules = parse(text or "")
    _warn_of_strangers(rules)
    with _in_force.lock:
        _in_force.apply(rules, _in_force.program)


def spellings(name: str) -> set[str]:
    """The ways to write an operator's name: with its namespace or without, with its overload or without."""
    bare = name.partition("::")[2] or name
    return {name, bare, name.split(".")[0], bare.split(".")[0]}


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern means the operator of that full name."""
    return any(re.fullmatch(pattern, spelling) for spelling in spellings(name))


def _warn_of_strangers(rules: list[Rule]) -> None:
    torch = sys.modules.get("torch")
    names = getattr(getattr(torch, "_C", None), "_dispatch_get_all_op_names", None)
    if names is None or not rules:
        return
    both = "paddle" in sys.modules  # whose operators are not known by name: only torch's full names can be judged
    known: set[str] = set().union(*map(spellings, names()))
    for pattern, _ in rules:
        if pattern == ".*" or (both and not pattern.startswith("aten::")):
            continue
        if not any(re.fullmatch(pattern, name) for name in known):
            warnings.warn(f"fallback rule '{pattern}' matches no operator of torch", UserWarning, stacklevel=4)
