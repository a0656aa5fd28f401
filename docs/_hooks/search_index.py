"""Gives each language its own search index: readers find pages in the language that they read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

CHINESE = "zh-CN"
_BASE = re.compile(r'(<script id="__config" type="application/json">.*?"base": ")([^"]*)"')


def split(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The entries for English and for Chinese readers. Pages without a translation are in both."""
    prefix = f"{CHINESE}/"
    english = [entry for entry in entries if not entry["location"].startswith(prefix)]
    chinese = [
        {**entry, "location": entry["location"].removeprefix(prefix)}
        for entry in entries
        if entry["location"].startswith(prefix)
    ]
    translated = {entry["location"].partition("#")[0] for entry in chinese}
    return english, chinese + [e for e in english if e["location"].partition("#")[0] not in translated]


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let Chinese pages load the index in their folder: Material looks for it below ``base``."""
    if not page.file.dest_uri.startswith(f"{CHINESE}/"):
        return output
    inside = page.file.dest_uri.count("/") - 1
    return _BASE.sub(rf'\g<1>{"/".join([".."] * inside) or "."}"', output, count=1)


@event_priority(-200)
def on_post_build(config: Any, **_: Any) -> None:
    """Split the index. Runs after each language's build, and last after the one that has both languages."""
    site = Path(config.site_dir)
    file = site / "search" / "search_index.json"
    if not file.is_file():
        return
    index = json.loads(file.read_text())
    if not any(entry["location"].startswith(f"{CHINESE}/") for entry in index["docs"]):
        return
    for folder, entries in zip((site, site / CHINESE), split(index["docs"]), strict=True):
        text = json.dumps({**index, "docs": entries}, ensure_ascii=False)
        (folder / "search").mkdir(parents=True, exist_ok=True)
        (folder / "search" / "search_index.json").write_text(text)
        # Pages that are opened without a web server load the script.
        (folder / "search" / "search_index.js").write_text(f"var __index = {text}")
