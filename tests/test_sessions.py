"""Run the documentation's console sessions marked with ``<!-- session -->``, in order, and check their output.

Every output line on a page must appear in the session's output, in that order; ``...`` matches anything.
``<!-- session: fails -->`` marks a session whose last command fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SESSION = re.compile(r"<!-- session(: fails)? -->\n```console\n(.*?)```", re.DOTALL)
#: Pages with sessions -> the example in whose copy they run.
PAGES = {"tutorials/diverging_loss.md": "diverging_loss", "tutorials/diverging_loss.zh-CN.md": "diverging_loss"}


def sessions(page: str) -> list[tuple[str, str]]:
    return SESSION.findall((ROOT / "docs" / page).read_text())


def test_all_pages_are_listed() -> None:
    pages = [page for page in ROOT.glob("docs/**/*.md") if SESSION.search(page.read_text())]
    assert {page.relative_to(ROOT / "docs").as_posix() for page in pages} == set(PAGES)


def test_translations_have_the_same_sessions() -> None:
    for page in PAGES:
        assert sessions(page) == sessions(page.replace(".zh-CN", ""))


@pytest.mark.parametrize("page", [page for page in PAGES if ".zh-CN" not in page])
def test_sessions(page: str, tmp_path: Path) -> None:
    folder = tmp_path / PAGES[page]
    shutil.copytree(ROOT / "examples" / PAGES[page], folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARDPOINT_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "HARDPOINT_DEVICE": "sim",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "400",
    }
    for fails, text in sessions(page):
        lines = text.splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        script = "\n".join([*(f"{command} || exit 99" for command in commands[:-1]), commands[-1]])
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script}"], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode != 99, f"{script}\n{done.stdout}"
        assert (done.returncode != 0) == bool(fails), f"{script}\n{done.stdout}"
        rest = done.stdout
        for shown in (line for line in lines if not line.startswith("$ ")):
            found = re.search(".*".join(map(re.escape, shown.split("..."))), rest)
            assert found, f"{page} shows a line that `{commands[-1]}` does not print:\n{shown}\nIt prints:\n{rest}"
            rest = rest[found.end() :]
