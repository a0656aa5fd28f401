"""``hardpoint new``: rejected names, generated files, and messages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardpoint.cli import app
from hardpoint.projects import render


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["new", *arguments])
    return done.exit_code, " ".join(done.output.split())


REFUSED = {
    ("device", "My-Chip"): "starting with a letter",
    ("device", "2chips"): "starting with a letter",
    ("device", "a" * 33): "at most 32",
    ("device", "class"): "Python keyword",
    ("device", "json"): "Python package",
    ("device", "cuda"): "built-in device type of torch",
    ("device", "gpu"): "built-in device type of Paddle",
    ("device", "sim"): "simulated device",
    ("device", "nn"): "would hide torch.nn",
    ("device", "backward"): "would hide Tensor.backward",
    ("ops", "aten"): "is a namespace of torch",
    ("ops", "onednn"): "already has operators in this torch",
    ("ops", "torch"): "Python package",
}


@pytest.mark.parametrize(("kind", "name"), REFUSED)
def test_bad_names(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, said = run(kind, name)
    assert status == 2
    assert "error" in said
    assert REFUSED[kind, name] in said
    assert list(tmp_path.iterdir()) == []


def test_existing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    status, said = run("device", "mine")
    assert status == 2
    assert "mine already exists" in said
    assert run("device", "mine", "--to", "other")[0] == 0
    assert (tmp_path / "other" / "pyproject.toml").exists()


PROJECTS = [
    *((kind, ["--lang", lang], "acme_one") for kind in ("device",) for lang in render.LANGUAGES),
    *(("ops", flags, "acme_ops") for flags in ([], ["--cpp"])),
]


@pytest.mark.parametrize(("kind", "flags", "name"), PROJECTS, ids=lambda v: "-".join(v) if isinstance(v, list) else v)
def test_generated_files(kind: str, flags: list[str], name: str, tmp_path: Path) -> None:
    """The template's name is replaced everywhere, the code is short, and ruff accepts it."""
    folder = tmp_path / name
    status, said = run(kind, name, *flags, "--to", str(folder))
    assert status == 0, said
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        text = str(path.relative_to(folder)) + path.read_text()
        assert not re.search("mychip|myops|MyChip|dot_", text), path
    names = {str(path.relative_to(folder)) for path in files}
    assert {"pyproject.toml", "README.md", ".github/workflows/ci.yml", ".gitignore", "tests/test_torch.py"} <= names
    code = sum(render.code_lines(p) for p in files if "tests" not in p.parts)
    assert f"{code} lines of code" in said
    assert code <= {"device": 210, "ops": 350}[kind]
    subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", str(folder)], check=True)


def test_folder_without_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["build"], ["test"], ["wheel"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert "[tool.hardpoint]" in " ".join(done.output.split())
