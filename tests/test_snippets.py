"""Run the documentation's Python blocks marked with ``<!-- run -->``, each in a separate process.

A block that a translation repeats runs once.
"""

from __future__ import annotations

import ast
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from fork_server import run_python

from hardpoint._runtime import package_file

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.S)
SNIPPETS = {
    ast.dump(ast.parse(code)): pytest.param(code, id=f"{page.name}-{number}")
    for page in reversed(PAGES)
    for number, code in enumerate(BLOCK.findall(page.read_text()), 1)
}


@pytest.mark.parametrize("code", SNIPPETS.values())
def test_snippet(code: str, tmp_path: Path) -> None:
    environment = dict(os.environ)
    if "import paddle" in code:
        if find_spec("paddle") is None:
            pytest.skip("Paddle is not installed")
        # Where Paddle would search if it were installed in the same folder.
        library = package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve()
        environment.setdefault("CUSTOM_DEVICE_ROOT", str(library.parent))
    strict = "import warnings\nwarnings.simplefilter('error', RuntimeWarning)\n"
    done = run_python(["-c", strict + code], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


def test_every_page_was_found() -> None:
    assert len(SNIPPETS) >= 10
    for page in PAGES:
        translated = page.with_name(page.name.replace(".md", ".zh-CN.md"))
        if page.name != translated.name and translated.exists():
            assert len(BLOCK.findall(page.read_text())) == len(BLOCK.findall(translated.read_text())), page
