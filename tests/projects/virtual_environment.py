"""A fresh virtual environment in which projects are generated, built and installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from hardpoint._runtime import package_file

#: Hides torch and Paddle.
WITHOUT_FRAMEWORKS = {"TEST_WITHOUT_FRAMEWORKS": "1"}
_HIDE = "import os, sys; os.environ.get('TEST_WITHOUT_FRAMEWORKS') and sys.modules.update(torch=None, paddle=None)"


class Machine:
    """A virtual environment that inherits the packages of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        self.python = folder / "venv" / "bin" / "python"
        self.packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        outer = sysconfig.get_path("purelib")
        (self.packages / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
        (self.packages / "aa_hide.pth").write_text(_HIDE + "\n")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "PYTEST_"))}
        # Where Paddle would search if it were installed in the same folder.
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
        return self.run("-m", "hardpoint.cli", *arguments, **options)

    def pip(self, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pip", "--disable-pip-version-check", *arguments, "--no-index", "--no-deps", **options)
