"""A machine as a newcomer has it: a virtual environment of its own, in which projects are made, built and installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from hardpoint._runtime import package_file

#: Makes torch and Paddle look as if they were not installed.
WITHOUT_FRAMEWORKS = {"NEWCOMER_WITHOUT_FRAMEWORKS": "1"}
_HIDE = "import os, sys; os.environ.get('NEWCOMER_WITHOUT_FRAMEWORKS') and sys.modules.update(torch=None, paddle=None)"


class Machine:
    """A virtual environment that sees the packages of this one, and installs into itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        self.python = folder / "venv" / "bin" / "python"
        self.packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        outer = sysconfig.get_path("purelib")
        (self.packages / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
        (self.packages / "aa_hide.pth").write_text(_HIDE + "\n")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "PYTEST_"))}
        # Where Paddle would look by itself if it were installed in the same folder.
        library = package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve()
        self.environment = {
            **inherited,
            "HARDPOINT_CACHE": str(folder / "cache"),
            "CUSTOM_DEVICE_ROOT": str(library.parent),
            "GLOG_minloglevel": "2",
            "COLUMNS": "200",
            "TERM": "dumb",
        }

    def run(
        self, *arguments: str | Path, cwd: Path | None = None, check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments."""
        done = subprocess.run(
            [str(self.python), *map(str, arguments)],
            cwd=cwd or self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=280,
        )
        if check:
            assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def hardpoint(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run("-m", "hardpoint.cli", *arguments, **options)

    def pip(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        """Run pip, offline."""
        return self.run("-m", "pip", "--disable-pip-version-check", *arguments, "--no-index", "--no-deps", **options)
