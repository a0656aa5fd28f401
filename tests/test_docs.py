"""The documentation agrees with what it describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plugin_tools import ROOT, layout

from hardpoint._runtime import ABI
from hardpoint.ops import all_ops
from hardpoint.plugin import _EXTENSIONS, _REQUIRED, Status
from hardpoint.tools.reference import markdown

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")])
QUOTE = re.compile(r"<!-- quote: (\S+) -->\n```\w*\n(.*?)```\n<!-- /quote -->", re.DOTALL)
ABI_PAGES = [ROOT / "docs" / "abi.md", ROOT / "docs" / "abi.zh-CN.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_quotes_equal_their_files(page: Path) -> None:
    text = page.read_text()
    quotes = QUOTE.findall(text)
    assert len(quotes) == text.count("<!-- quote:") == text.count("<!-- /quote -->")
    for file, quoted in quotes:
        assert quoted == (ROOT / file).read_text(), f"{page.name} quotes an old {file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = {
        re.sub(r"[^\w\- ]", "", h.replace("`", "")).strip().lower().replace(" ", "-")
        for h in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif "://" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("page", ABI_PAGES, ids=lambda p: p.name)
def test_the_contract_is_described_completely(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    structs = layout(ROOT / "include" / "hardpoint" / "plugin.h", tmp_path)
    named = {*structs, *structs["HpHost"], *_REQUIRED, *(n for slots in _EXTENSIONS.values() for n in slots)}
    named -= {"", "abi_major", "abi_minor"}
    assert {name for name in named if name not in text} == set()
    assert [s for s in Status if f"| `HP_{s.name}` |" not in text] == []
    # The operators that a first plug-in would have; the page of all of them is generated.
    for op in filter(lambda op: f"| `{op.name}` |" in text, all_ops()):
        arguments = ["out", *op.inputs, *op.attributes]
        assert f"| `{op.name}` | {', '.join(arguments)} |" in text
        assert [overload for overload in op.aten if f"`aten::{overload}`" not in text] == []
    assert "operators.md" in text
    assert f"**{ABI[0]}.{ABI[1]}**" in text


def test_the_page_of_operators_is_up_to_date() -> None:
    assert (ROOT / "docs" / "operators.md").read_text() == markdown(), (
        "python -m hardpoint.tools.reference > docs/operators.md"
    )


TRANSLATED = [p for p in PAGES if p.with_name(p.name.replace(".md", ".zh-CN.md")).exists() and "zh-CN" not in p.name]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda p: p.name)
def test_both_languages_have_one_structure(page: Path) -> None:
    english, chinese = (
        re.findall(r"^(?:#+|\||-|\d\. |```|<!--)", p.read_text(), flags=re.MULTILINE)
        for p in (page, page.with_name(page.name.replace(".md", ".zh-CN.md")))
    )
    assert len(english) > 20
    assert english == chinese
