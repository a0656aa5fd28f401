"""Programs that use Hardpoint, each in a process of its own: torch has room for one device in a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CC = os.environ.get("CC") or shutil.which("cc") or "gcc"


def environment(cache: Path, **variables: str) -> dict[str, str]:
    """This process's environment without Hardpoint's settings, a cache of its own, and `variables`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    return {**inherited, "HARDPOINT_CACHE": str(cache), **variables}


def ask_python(code: str, cache: Path, **variables: str) -> Any:
    """Run a program that leaves its findings in a variable `answer`, and return them."""
    command = [sys.executable, "-c", f"{code}\nimport json\nprint('\\nanswer', json.dumps(answer))"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(cache, **variables), timeout=120)
    assert done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return json.loads(next(line[7:] for line in done.stdout.splitlines() if line.startswith("answer ")))


def include_flags() -> list[str]:
    """For compiling a plug-in as its vendor would: against the installed headers."""
    import tvm_ffi.libinfo

    from hardpoint._runtime import include_dir

    return [f"-I{include_dir()}", f"-I{tvm_ffi.libinfo.find_include_path()}"]


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    """Compile one C11 file, strictly."""
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
    command = [CC, *strict, *flags, *include_flags(), "-o", str(output), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output
