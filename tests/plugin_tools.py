"""Compile plug-ins and use each in a separate process, since torch takes one device per process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from fork_server import run_python

ROOT = Path(__file__).resolve().parent.parent
CC = os.environ.get("CC") or shutil.which("cc") or "gcc"
CXX = os.environ.get("CXX") or shutil.which("c++") or "g++"


def environment(cache: Path, **variables: str) -> dict[str, str]:
    """This process's environment without Hardpoint's settings, with a separate cache, plus `variables`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    return {**inherited, "HARDPOINT_CACHE": str(cache), **variables}


def ask_python(code: str, cache: Path, *, timeout: float = 120, **variables: str) -> Any:
    """Run a program and return its variable `answer`."""
    program = f"{code}\nimport json\nprint('\\nanswer', json.dumps(answer))"
    done = run_python(["-c", program], env=environment(cache, **variables), timeout=timeout)
    assert done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return json.loads(next(line[7:] for line in done.stdout.splitlines() if line.startswith("answer ")))


def include_flags() -> list[str]:
    """Include flags for the installed headers, as a vendor would use."""
    from hardpoint._runtime import include_dir, tvm_ffi_library

    return [f"-I{include_dir()}", f"-I{Path(tvm_ffi_library()).parent.parent / 'include'}"]


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    """Compile one C11 file, or one of C++17, with strict warnings."""
    language = [CXX, "-std=c++17"] if source.suffix == ".cpp" else [CC, "-std=c11", "-pedantic"]
    command = [
        *language,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        *flags,
        *include_flags(),
        "-o",
        str(output),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


#: Struct -> field -> offset and size in bytes. The field "" is the whole struct.
Layout = dict[str, dict[str, tuple[int, int]]]


def layout(header: Path, folder: Path) -> Layout:
    """Layout of the structs in a C header, measured with the compiler."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    lines = [f'#include "{header}"', "#include <stdio.h>", "int main(void) {"]
    for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, flags=re.DOTALL):
        lines.append(f'  printf("{struct}. 0 %zu\\n", sizeof({struct}));')
        # A declaration's name: in a function pointer (*name)(...), else the last identifier before any [size].
        for field in re.findall(r"\(\*(\w+)\)[^;]*;|(\w+)(?:\[\w+\])?;", body):
            name = "".join(field)
            size = f"sizeof((({struct}*)0)->{name})"
            lines.append(f'  printf("{struct}.{name} %zu %zu\\n", offsetof({struct}, {name}), {size});')
    source = folder / f"{header.stem}.c"
    source.write_text("\n".join([*lines, "  return 0;", "}", ""]))
    printed = subprocess.run([compile_c(source, folder / header.stem)], check=True, capture_output=True, text=True)
    found: Layout = {}
    for line in printed.stdout.splitlines():
        name, offset, size = line.split()
        struct, _, field = name.partition(".")
        found.setdefault(struct, {})[field] = (int(offset), int(size))
    return found
