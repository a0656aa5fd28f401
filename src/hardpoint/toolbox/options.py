"""Options of a tool in one string, as environment variables have them: ``2; ops=mm,bmm; file=calls.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str, tool: str, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """What comes first, and the options after it. Raises ``ValueError`` for one that the tool does not have."""
    first, options = "", {}
    for number, item in enumerate(part.strip() for part in text.split(";")):
        name, equals, value = (word.strip() for word in item.partition("="))
        if number == 0 and not equals:
            first = item
        elif not item:
            continue
        elif not equals or name not in names:
            raise ValueError(f"{tool} has no option '{item}': it has {', '.join(f'{n}=' for n in names)}")
        else:
            options[name] = value
    return first, options


def patterns(text: str) -> tuple[str, ...]:
    """Operators to look at, as in rules for fallback."""
    from hardpoint.toolbox.rules import parse as parse_rules

    return tuple(pattern for pattern, _ in parse_rules(text))


def number(options: dict[str, str], name: str, default: int, tool: str) -> int:
    """An option that is a whole number."""
    text = options.get(name)
    if text is None:
        return default
    if not text.isdigit():
        raise ValueError(f"{tool}: {name} is a whole number, not '{text}'")
    return int(text)
