"""Source locations in the text of TTIR."""

from __future__ import annotations

import re

FILE = re.compile(r'"([^"]+)":(\d+):\d+')
NAME = re.compile(r"#loc\d*")
#: Frames in Triton's own library are useless to the author of a kernel.
LIBRARY = re.compile(r"/triton/(language|tools)/")


def cut_locations(line: str) -> tuple[str, str]:
    """A line without its locations, and the text of the last one."""
    kept, last, start = [], "", 0
    at = depth = 0
    quoted = False
    while at < len(line):
        if line[at] == '"' and line[at - 1] != "\\":
            quoted = not quoted
        elif not quoted and line.startswith(" loc(", at):
            kept.append(line[start:at])
            begin = at + len(" loc(")
            depth, at = 1, begin
            while depth:
                depth += {"(": 1, ")": -1}.get(line[at], 0)
                at += 1
            last, start = line[begin : at - 1], at
            continue
        at += 1
    return "".join([*kept, line[start:]]).strip(), last


class Locations:
    """The table of locations of a module."""

    def __init__(self) -> None:
        self.table: dict[str, str] = {}

    def define(self, line: str) -> None:
        """Add a line ``#loc3 = loc(...)``."""
        name, _, text = line.partition(" = loc(")
        self.table[name] = text.removesuffix(")")

    def resolve(self, text: str) -> str:
        """The innermost line of the user's program: ``file.py:12``."""
        frames = self.frames(text, 0)
        own = [frame for frame in frames if not LIBRARY.search(frame)]
        return (own or frames or [""])[0]

    def frames(self, text: str, depth: int) -> list[str]:
        """The lines of a location, from the innermost call to the kernel."""
        if found := FILE.search(text):
            return [f"{found[1]}:{found[2]}"]
        frames: list[str] = []
        if depth < 50:
            for name in NAME.findall(text):
                frames += self.frames(self.table.get(name, ""), depth + 1)
        return frames
