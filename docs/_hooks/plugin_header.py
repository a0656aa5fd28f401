"""Renders ``plugin.h`` as a reference page: its comments are the text, its declarations the headings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from textwrap import dedent

_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_TYPE = re.compile(r"\bHp[A-Z]\w*")
_DEFINE = re.compile(r"#define (HP_\w+)(.*)")
_SLOT = re.compile(r"\(\*(\w+)\)")
_FIELD = re.compile(r"(\w+)(?:\[\w+\])?;")
#: A comment for the slots below it, not for the next one alone.
_GROUP = re.compile(r"(Required|Optional|Each)\b")


@dataclass
class Entry:
    """A declaration with its comment. ``members`` are the slots of a table or the constants of an enumeration."""

    name: str
    code: str
    comment: str = ""
    note: str = ""  # introduces the group of slots that starts here
    members: list[Entry] = field(default_factory=list)


def _comment_text(comment: str) -> str:
    """The comment without its stars."""
    return "\n".join(re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip().splitlines()).strip()


def _statements(text: str) -> list[tuple[str, str]]:
    """Declarations with their comments."""
    found: list[tuple[str, str]] = []
    code: list[str] = []
    comment, depth = "", 0
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.strip()
        if not code and not stripped:
            comment = ""
            continue
        if not code and stripped.startswith("/*"):
            block = [stripped]
            while "*/" not in block[-1]:
                block.append(next(lines).strip())
            comment = _comment_text("\n".join(block).removeprefix("/*").removesuffix("*/"))
            continue
        code.append(line)
        bare = _COMMENT.sub("", line)
        depth += bare.count("{") - bare.count("}")
        if depth == 0 and (stripped.startswith("#") or bare.rstrip().endswith(";")):
            found.append((dedent("\n".join(code)), comment))
            code, comment = [], ""
    return found


def _members(body: str) -> list[Entry]:
    members = []
    for code, comment in _statements(body):
        trailing = _COMMENT.search(code)
        bare = "\n".join(line.rstrip() for line in _COMMENT.sub("", code).splitlines())
        name = _SLOT.search(bare) or _FIELD.search(bare)
        assert name, f"not a field: {code}"
        entry = Entry(name[1], bare, comment)
        if comment and _GROUP.match(comment):
            entry.comment, entry.note = "", comment
        if trailing:
            entry.comment = f"{entry.comment}\n{_comment_text(trailing[1])}".strip()
        members.append(entry)
    return members


def _constants(body: str) -> list[Entry]:
    return [
        Entry(name, value, _comment_text(comment))
        for name, value, comment in re.findall(r"(HP_\w+) = (\d+),?(?:\s*/\*(.*?)\*/)?", body)
    ]


def parse(header: str) -> tuple[str, list[Entry]]:
    """The comment at the top of the header, and its declarations."""
    opening = _COMMENT.search(header)
    assert opening
    entries = []
    waiting = ""  # the comment of a table that stands above a constant which the table needs
    body = re.sub(r"^#(?:ifdef __cplusplus\n.*?#endif|if .*?#else)\n", "", header[opening.end() :], flags=re.M | re.S)
    for code, comment in _statements(body):
        if define := _DEFINE.match(code):
            trailing = _COMMENT.search(define[2])
            text = comment or (_comment_text(trailing[1]) if trailing else "")
            if "(optional" in text:
                text, waiting = "", text
            entries.append(Entry(define[1], _COMMENT.sub("", code).rstrip(), text))
        elif code.startswith(("typedef struct", "typedef enum", "enum")):
            name = re.search(r"(\w+);$", code)
            body = code[code.find("{") + 1 : code.rfind("}")] if "{" in code else ""
            members = _constants(body) if "enum" in code.split("{")[0] else _members(body)
            if waiting and not comment and "enum" not in code.split("{")[0]:
                comment, waiting = waiting, ""
            entries.append(Entry(name[1] if name else members[0].name, code, comment, members=members))
        elif not code.startswith("#"):
            name = _SLOT.search(code) or re.search(r"(\w+)\(", code)
            assert name, f"not a declaration: {code}"
            entries.append(Entry(name[1], code, comment))
    return _comment_text(opening[1]), entries


def _markdown(text: str, types: set[str]) -> str:
    """Comment text as Markdown: names of types link to their sections."""

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}](#{match[0].lower()})" if match[0] in types else match[0]

    lines = []
    for line in text.splitlines():
        if line.startswith("  ") and line.endswith(";"):
            lines.append(f"\n```c\n{line.strip()}\n```\n")
            continue
        parts = re.split(r"(`[^`]*`)", line)
        lines.append(
            "".join(
                part if index % 2 else _TYPE.sub(link, re.sub(r"[*\[]", r"\\\g<0>", part).replace("<", "&lt;"))
                for index, part in enumerate(parts)
            )
        )
    return "\n".join(lines)


def _code(code: str) -> str:
    return f"```c\n{code}\n```\n\n"


def _section(entry: Entry, types: set[str]) -> str:
    text = f"## {entry.name}\n\n"
    if entry.comment:
        text += _markdown(entry.comment, types) + "\n\n"
    if not entry.members:
        return text + _code(entry.code)
    if "enum" in entry.code.split("{")[0]:
        text += "| constant | value | meaning |\n|---|---|---|\n"
        rows = (f"| `{m.name}` | {m.code} | {_markdown(m.comment, types)} |\n" for m in entry.members)
        return text + "".join(rows) + "\n"
    table = False
    for member in entry.members:
        if member.name == "struct_size" and not member.comment:
            continue
        if member.note:
            text += f"\n*{_markdown(member.note, types)}*\n\n"
            table = False
        comment = _markdown(member.comment, types)
        if "(*" in member.code:
            text += f"\n### {entry.name}.{member.name}\n\n{_code(member.code)}{comment}\n\n"
            table = False
            continue
        if "```" in comment:  # too much for a table
            text += f"\n{_code(member.code)}{comment}\n\n"
            table = False
            continue
        text += "" if table else "\n| field | meaning |\n|---|---|\n"
        table = True
        text += f"| `{member.code}` | {' '.join(comment.split())} |\n"
    return text


def markdown(header: str) -> str:
    """The whole page."""
    opening, entries = parse(header)
    types = {entry.name for entry in entries if entry.name.startswith("Hp") and (entry.members or "(" in entry.code)}
    rules = dedent(opening[opening.index("\n - ") + 1 :])
    text = (
        "## Rules\n\n"
        + _markdown(rules, types)
        + "\n\n## Constants\n\n| name | definition | meaning |\n|---|---|---|\n"
    )
    handles: list[Entry] = []
    sections = []
    for entry in entries:
        if entry.code.startswith("#define"):
            value = entry.code.removeprefix(f"#define {entry.name}").strip()
            text += f"| `{entry.name}` | `{value}` | {' '.join(_markdown(entry.comment, types).split())} |\n"
        elif re.match(r"typedef struct \w+_\* \w+;", entry.code):
            if not handles:
                sections.append(handles)
            handles.append(entry)
        else:
            sections.append([entry])
    for section in sections:
        if section is handles:
            text += f"\n## Handles\n\n{_markdown(handles[0].comment, types)}\n\n"
            text += _code("\n".join(handle.code for handle in handles))
        else:
            text += "\n" + _section(section[0], types)
    return text
