"""Create a project from its template.

A template is a working project named ``mychip`` (device) or ``myops`` (operators). Rendering replaces that name in file
contents and file names. A template consists of layers; files of later layers override those of earlier ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hardpoint.projects import names

#: Layers of a device template by language, and of an operator template by the language of its torch registration.
LANGUAGES = {"c": ("common", "native", "c"), "cpp": ("common", "native", "cpp"), "python": ("common", "python")}
OPERATORS = {"python": ("common", "python"), "cpp": ("common", "cpp")}
TEMPLATES = Path(__file__).parent / "templates"
#: Project name in the template.
PLACEHOLDER = {"device": "mychip", "ops": "myops"}
#: Comments by suffix, docstrings included, for counting lines of code.
_COMMENTS = {
    **dict.fromkeys((".c", ".cpp", ".h"), r"/\*.*?\*/|//[^\n]*"),
    ".py": r'""".*?"""|^\s*#[^\n]*',
    **dict.fromkeys((".toml", ".txt", ".yml"), r"^\s*#[^\n]*"),
}


@dataclass(frozen=True)
class Written:
    """A file of a new project."""

    path: Path
    #: Lines of code; 0 for text files.
    code: int


def new(kind: str, name: str, layers: tuple[str, ...], target: Path) -> list[Written]:
    """Create a project in a folder that must not exist."""
    names.check(name, kind)
    if target.exists():
        raise FileExistsError(f"{target} already exists; choose another name or remove it")
    files: dict[str, str] = {}
    for folder in (TEMPLATES / "shared", *(TEMPLATES / kind / layer for layer in layers)):
        for path, text in _files(folder):
            files[_renamed(path, kind, name)] = _renamed(text, kind, name)
    for path, text in files.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [Written(Path(path), code_lines(target / path)) for path in sorted(files)]


def code_lines(path: Path) -> int:
    """Lines of a file that are neither blank nor comment."""
    pattern = _COMMENTS.get(path.suffix)
    if pattern is None:
        return 0
    code = re.sub(pattern, "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return sum(1 for line in code.splitlines() if line.strip())


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            # Renamed in the package: builds drop hidden files, and tools would use the template's pyproject.toml.
            name = re.sub(r"(^|/)dot_", r"\1.", path.relative_to(folder).as_posix()).removesuffix(".in")
            yield name, path.read_text()


def _renamed(text: str, kind: str, name: str) -> str:
    placeholder = PLACEHOLDER[kind]
    camel = "".join(part.capitalize() for part in name.split("_"))
    return text.replace(placeholder, name).replace("MyChip" if kind == "device" else "MyOps", camel)
