"""A project on disk: what ``hardpoint build``, ``hardpoint test`` and ``hardpoint wheel`` do inside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class NoProject(RuntimeError):
    """The folder holds no project of Hardpoint's kind; the message says what was looked for."""


@dataclass(frozen=True)
class Project:
    """A folder whose ``pyproject.toml`` has a table ``[tool.hardpoint]``."""

    folder: Path
    #: ``device``: the one that its tests run on. ``plugin``: the file of the plug-in, in a project that makes one.
    settings: dict[str, Any]

    @staticmethod
    def find(folder: Path) -> Project:
        """The project that the folder is in."""
        for place in (folder, *folder.parents):
            file = place / "pyproject.toml"
            if file.exists():
                settings = tomllib.loads(file.read_text()).get("tool", {}).get("hardpoint")
                if settings is not None:
                    return Project(place, settings)
        raise NoProject(
            f"there is no pyproject.toml with a table [tool.hardpoint] in {folder} or above it; "
            "`hardpoint new` makes such a project"
        )

    @property
    def compiles(self) -> bool:
        """Whether there is something to compile."""
        return (self.folder / "setup.py").exists()

    def build(self) -> None:
        """Compile into the source tree, where ``test`` finds it."""
        if self.compiles:
            self._run("setup.py", "--quiet", "build_ext", "--inplace")

    def environment(self) -> dict[str, str]:
        """Variables with which a program runs on the project as it lies there, installed or not."""
        variables = dict(os.environ)
        paths = [str(self.folder / "src"), *filter(None, [variables.get("PYTHONPATH")])]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        if plugin := self.settings.get("plugin"):
            variables["HARDPOINT_PLUGIN_PATH"] = str(self.folder / plugin)
            variables["HARDPOINT_DEVICE"] = str(self.settings["device"])
        elif device := self.settings.get("device"):
            variables.setdefault("HARDPOINT_DEVICE", str(device))
        return variables

    def test(self, arguments: Sequence[str] = ()) -> int:
        """Build, and run the project's tests; pytest's exit status."""
        self.build()
        command = [sys.executable, "-m", "pytest", *(arguments or ["tests"])]
        return subprocess.run(command, cwd=self.folder, env=self.environment()).returncode

    def wheel(self, to: Path) -> Path:
        """Make the wheel with what is installed here: nothing is downloaded."""
        before = set(to.glob("*.whl"))
        options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--no-build-isolation"]
        self._run("-m", "pip", "wheel", *options, "--wheel-dir", str(to), ".")
        made = sorted(to.glob("*.whl"), key=lambda p: (p not in before, p.stat().st_mtime_ns))
        return made[-1]

    def _run(self, *arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=self.folder, check=True)
