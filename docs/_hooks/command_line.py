"""Renders the ``hardpoint`` command line as a reference page, from the typer application itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

HEAD = """\
| command | what it does |
|---|---|
"""


def application() -> typer.Typer:
    """The application, loaded from the sources without the compiled core, which no command needs to describe itself."""
    package = ModuleType("hardpoint")
    package.__path__ = [str(Path(__file__).parents[2] / "src" / "hardpoint")]
    sys.modules["hardpoint"] = package
    from hardpoint.cli import app

    return app


def commands(command: Any, name: str) -> list[tuple[str, Any]]:
    """Every command below ``command``, with its full name; a group that runs by itself counts, too."""
    found = []
    if getattr(command, "commands", None):
        if command.invoke_without_command:
            found.append((name, command))
        for child, below in command.commands.items():
            found += commands(below, f"{name} {child}")
        return found
    return [(name, command)]


def _text(help_text: str | None) -> str:
    flat = " ".join((help_text or "").split())
    return re.sub(r"\[/?[a-z ]*\]", "", flat).replace("|", "\\|").replace("<", "&lt;")


def _default(parameter: Any) -> str:
    value = parameter.default
    if value in (None, "", False, ()) or callable(value) or "Sentinel" in type(value).__name__:
        return ""
    return f"`{value}`"


def _section(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    text = f"\n## {name}\n\n{_text(command.help)}\n\n```console\n$ {usage}\n```\n"
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    if arguments:
        text += "\n| argument | meaning |\n|---|---|\n"
        text += "".join(f"| `{p.name.upper()}` | {_text(getattr(p, 'help', ''))} |\n" for p in arguments)
    if options:
        text += "\n| option | meaning | default |\n|---|---|---|\n"
        for option in options:
            names = ", ".join(f"`{n}`" for n in [*option.opts, *option.secondary_opts])
            text += f"| {names} | {_text(option.help)} | {_default(option)} |\n"
    return text


def markdown() -> str:
    """The whole page."""
    found = commands(typer.main.get_command(application()), "hardpoint")
    table = ""
    for name, command in found:
        table += f"| [`{name}`](#{name.replace(' ', '-')}) | {_text(command.help).split('. ')[0].rstrip('.')} |\n"
    return HEAD + table + "".join(_section(name, command) for name, command in found)


if __name__ == "__main__":
    print(markdown(), end="")
