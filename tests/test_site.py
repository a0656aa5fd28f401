"""The documentation site: it builds without a warning, is complete in both languages, and works offline."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from plugin_tools import ROOT

pytestmark = pytest.mark.slow

HOOKS = ROOT / "docs" / "_hooks"
HEADER = ROOT / "include" / "hardpoint" / "plugin.h"


def hook(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HOOKS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def mkdocs(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", *options],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = mkdocs(ROOT, "--site-dir", str(folder))
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
    assert done.returncode == 0, "\n".join(["make docs fails:", *complaints])
    return folder


def test_every_page_is_there_in_both_languages(site: Path) -> None:
    pages = {p.relative_to(ROOT / "docs").with_suffix("") for p in ROOT.glob("docs/**/*.md") if "zh-CN" not in p.name}
    for page in pages:
        for folder in (site, site / "zh-CN"):
            assert (folder / page).with_suffix(".html").exists(), f"{folder.name}/{page}"
    assert '<html lang="zh"' in (site / "zh-CN" / "index.html").read_text()
    assert "四个层级" in (site / "zh-CN" / "index.html").read_text()


def test_no_external_resources(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]+)"', text)
        loaded += re.findall(r'<link rel="(?:stylesheet|preconnect|icon)"[^>]* href="(https?:[^"]+)"', text)
        assert loaded == [], page
        assert 'data-md-component="source"' not in text, f"{page}: the theme would ask GitHub for the number of stars"


def test_repository_links_have_targets(site: Path) -> None:
    url = re.escape(hook("repository").URL)
    targets = {
        t for p in site.rglob("*.html") for t in re.findall(rf'href="{url}/(?:blob|tree)/main/([^"#]+)', p.read_text())
    }
    assert {"examples/hello_c", "include/hardpoint/plugin.h"} <= targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def search_entries(folder: Path) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads((folder / "search" / "search_index.json").read_text())["docs"]
    # Search without a web server.
    assert (folder / "search" / "search_index.js").read_text().startswith("var __index = {")
    assert [e["location"] for e in entries if not (folder / e["location"].partition("#")[0]).exists()] == []
    return entries


def test_search_finds_pages_in_the_reader_s_language(site: Path) -> None:
    english, chinese = search_entries(site), search_entries(site / "zh-CN")
    titles = [{entry["title"].replace("\u200b", "") for entry in entries} for entries in (english, chinese)]
    assert "Environment variables" in titles[0] - titles[1]
    assert "环境变量" in titles[1] - titles[0]
    assert "Standard operators" in titles[0] & titles[1]  # not translated
    assert any("\u200b核函数\u200b" in entry["text"] for entry in chinese), (
        "Chinese words are not separated: is jieba installed?"
    )
    # Pages load the index below this address.
    for page, base in (("index", "."), ("howto/check", "..")):
        for folder in (site, site / "zh-CN"):
            assert f'"base": "{base}"' in (folder / f"{page}.html").read_text()


def test_header_page_is_complete(site: Path) -> None:
    header = HEADER.read_text()
    text = (site / "reference" / "plugin_h.html").read_text().replace("<wbr>", "")  # where a name may break
    names = {
        *re.findall(r"\} (Hp\w+);", header),
        *re.findall(r"\(\*(\w+)\)", header),
        *re.findall(r"\bHP_[A-Z0-9_]+", header),
    }
    assert {"HpPlugin", "copy_to_device", "HP_OUT_OF_MEMORY"} <= names
    assert sorted(name for name in names if name not in text) == []
    _, entries = hook("plugin_header").parse(header)
    described = {e.name: e for e in entries}
    assert "(optional" in described["HpCollectives"].comment  # the comment precedes HP_GROUP_ID_BYTES
    assert [m.name for m in described["HpPeer"].members] == ["struct_size", "copy", "can_access"]


def test_command_page_is_complete(site: Path) -> None:
    text = (site / "reference" / "cli.html").read_text()
    for name in ("hardpoint run", "hardpoint new device", "hardpoint build", "hardpoint build torch", "--compare"):
        assert name in text


def test_python_reference_is_complete(site: Path) -> None:
    import hardpoint

    text = (site / "reference" / "python.html").read_text()
    undocumented = {"PluginError", "Tier", "__version__"}
    # `hardpoint.devices` is a package as well, which the generator would show instead of the function.
    homes = {"devices": "hardpoint._runtime.devices"}
    names = {n: homes.get(n, f"hardpoint.{n}") for n in hardpoint.__all__ if n not in undocumented}
    assert [n for n, home in names.items() if f'id="{home}"' not in text] == []


def test_markdown_conversion() -> None:
    repository = hook("repository")
    convert = repository.site_markdown
    assert convert("[c](../../CONTRIBUTING.md)", "docs/howto/sim.md") == "[c](../project/contributing.md)"
    assert convert("[m](../../Makefile#a)", "docs/howto/sim.md") == f"[m]({repository.URL}/blob/main/Makefile#a)"
    assert convert("[s](../../src/)", "docs/howto/sim.md") == f"[s]({repository.URL}/tree/main/src)"
    assert convert("[o](docs/howto/sim.md)", "CHANGELOG.md") == "[o](../howto/sim.md)"
    assert convert("[x](https://a.b) `](../../src)`", "docs/howto/sim.md") == "[x](https://a.b) `](../../src)`"
    assert convert("第一行，\n第二行 `a`\n第三行\n\n第四行", "docs/index.md") == "第一行，第二行 `a`\n第三行\n\n第四行"


@pytest.mark.parametrize("mistake", ["[x](nowhere.md)", "[x](index.md#nowhere)"])
def test_a_broken_link_fails_the_build(mistake: str, tmp_path: Path) -> None:
    """In the second language, which is built after the first."""
    (tmp_path / "docs").mkdir()
    for name, text in {"index.md": "# A\n", "index.zh-CN.md": f"# B\n\n{mistake}\n"}.items():
        (tmp_path / "docs" / name).write_text(text)
    settings = (ROOT / "mkdocs.yml").read_text()
    kept = re.sub(r"^(?:hooks|nav|extra_css):.*?(?=^\S|\Z)", "", settings, flags=re.MULTILINE | re.DOTALL)
    kept = kept.replace("docs/_hooks", str(HOOKS)).replace("  favicon: assets/favicon.svg\n", "")
    (tmp_path / "mkdocs.yml").write_text(kept.replace("site_dir: build/site", f"site_dir: {tmp_path / 'site'}"))
    done = mkdocs(tmp_path)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
