"""The documentation agrees with the code."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from plugin_tools import ROOT, layout

from hardpoint._plugin_tables import EXTENSIONS, REQUIRED
from hardpoint._runtime import ABI
from hardpoint.codegen.operators_page import markdown
from hardpoint.ops import all_ops
from hardpoint.plugin import Status

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")])
QUOTE = re.compile(r"<!-- quote: (\S+) -->\n```\w*\n(.*?)```\n<!-- /quote -->", re.DOTALL)
ABI_PAGES = [ROOT / "docs" / "reference" / name for name in ("abi.md", "abi.zh-CN.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_quotes_equal_their_files(page: Path) -> None:
    text = page.read_text()
    quotes = QUOTE.findall(text)
    assert len(quotes) == text.count("<!-- quote:") == text.count("<!-- /quote -->")
    for file, quoted in quotes:
        assert quoted == (ROOT / file).read_text(), f"{page.name} quotes an old {file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
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
def test_abi_page_is_complete(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    structs = layout(ROOT / "include" / "hardpoint" / "plugin.h", tmp_path)
    named = {*structs, *structs["HpHost"], *REQUIRED, *(n for slots in EXTENSIONS.values() for n in slots)}
    named -= {"", "abi_major", "abi_minor"}
    assert {name for name in named if name not in text} == set()
    assert [s for s in Status if f"| `HP_{s.name}` |" not in text] == []
    # The operators of a typical first plug-in; the page of all operators is generated.
    for op in filter(lambda op: f"| `{op.name}` |" in text, all_ops()):
        arguments = ["out", *op.inputs, *op.attributes]
        assert f"| `{op.name}` | {', '.join(arguments)} |" in text
        assert [overload for overload in op.aten if f"`aten::{overload}`" not in text] == []
    assert "operators.md" in text
    assert f"**{ABI[0]}.{ABI[1]}**" in text


def test_operators_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "operators.md").read_text() == markdown(), (
        "python -m hardpoint.codegen.operators_page > docs/reference/operators.md"
    )


TRANSLATED = [p for p in PAGES if p.with_name(p.name.replace(".md", ".zh-CN.md")).exists() and "zh-CN" not in p.name]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda p: p.name)
def test_translations_have_the_same_structure(page: Path) -> None:
    english, chinese = (
        re.findall(r"^(?:#+|\||-|\d\. |```|<!--)", p.read_text(), flags=re.MULTILINE)
        for p in (page, page.with_name(page.name.replace(".md", ".zh-CN.md")))
    )
    assert len(english) > 5 or "<!-- generated: " in page.read_text()
    assert english == chinese


#: Top-level folders of the repository.
TOP = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", "dist", ".venv", ".git")}
#: Base folders of paths in the tutorials on generated projects.
TEMPLATES = [path for path in ROOT.glob("src/hardpoint/projects/templates/*/*") if path.is_dir()]
#: Pages on which every file name must exist, perhaps relative to the previous path: "`csrc/core/device.*`, `stream.*`".
PRECISE = ("architecture", "CONTRIBUTING")
FILE = re.compile(r"[\w<>{},*./-]+\.(?:\*|cpp|c|h|inc|py|txt|md|map|cmake|yml|toml)|[\w<>{},*./-]+/")


@cache
def repository_files() -> list[str]:
    """Tracked and untracked files that are not ignored, except project templates."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [file for file in files if (ROOT / file).exists() and "/templates/" not in file]


@cache
def file_names() -> set[str]:
    """Base names of all files."""
    return {Path(file).name for file in repository_files()}


def globs(path: str) -> list[str]:
    """Glob patterns for a path on a page: ``<family>`` and ``FAMILY`` match any name, ``{h,cpp}`` either one."""
    path = re.sub(r"<\w+>|FAMILY", "*", path.rstrip("/"))
    parts = [part.split(",") for part in re.split(r"[{}]", path)]
    return ["".join(choice) for choice in product(*parts)]


def missing_paths(page: Path) -> list[str]:
    """Paths in backticks that do not exist."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    bases = [ROOT, *(TEMPLATES if page.parent.name == "tutorials" else [])]
    missing = []
    for line in text.splitlines():
        folder = ROOT
        for word in (word for code in re.findall(r"`([^`]+)`", line) for word in code.split()):
            path = re.sub(r"^\w+=|[:,;]$", "", word)
            rooted = path.split("/")[0] in TOP and "/" in path
            if not rooted and not (page.name.startswith(PRECISE) and FILE.fullmatch(path)):
                continue
            if path.startswith("generated/"):  # written by the build
                continue
            starts = bases if rooted else [folder, folder.parent, ROOT]
            found = [match for start in starts for pattern in globs(path) for match in start.glob(pattern)]
            if found and rooted:
                folder = found[0] if found[0].is_dir() else found[0].parent
            if not found and (rooted or path not in file_names()):
                missing.append(word)
    return missing


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    missing = missing_paths(page)
    assert not missing, f"{page.relative_to(ROOT)} names files that do not exist: {', '.join(missing)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_exist(page: Path) -> None:
    for module in re.findall(r"python -m (hardpoint[\w.]*)", page.read_text()):
        path = ROOT.joinpath("src", *module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), f"{page.name}: python -m {module}"


def source_folders() -> list[str]:
    """Folders of src, csrc and plugins that contain files, except project templates."""
    return sorted(
        {Path(f).parent.as_posix() for f in repository_files() if f.startswith(("src/", "csrc/", "plugins/"))}
    )


def test_every_source_folder_is_on_the_architecture_page() -> None:
    text = (ROOT / "docs" / "design" / "architecture.md").read_text()
    unnamed = [
        f for f in source_folders() if not re.search(rf"`{re.escape(f)}(?:/|/[\w<>{{}},*-]*[.*][\w*{{}},]*)?`", text)
    ]
    assert not unnamed, f"docs/design/architecture.md says nothing about {', '.join(unnamed)}"


#: A quoted variable name, as passed to getenv or os.environ.
VARIABLE = re.compile(r"""["'`](HARDPOINT_[A-Z0-9_]*[A-Z0-9])\b""")


def test_environment_variables_are_listed() -> None:
    sources = [p for d in ("src", "csrc", "plugins", "tests/conftest.py") for p in (ROOT / d, *(ROOT / d).rglob("*"))]
    used = {v for p in sources if p.suffix in (".py", ".c", ".cpp", ".h") for v in VARIABLE.findall(p.read_text())}
    for name in ("environment.md", "environment.zh-CN.md"):
        listed = set(
            re.findall(r"^\| `(HARDPOINT_\w+)` \|", (ROOT / "docs/reference" / name).read_text(), re.MULTILINE)
        )
        assert used - listed == set(), f"docs/reference/{name} does not list them"
        assert listed - used == set(), f"docs/reference/{name} lists variables that nothing reads"
