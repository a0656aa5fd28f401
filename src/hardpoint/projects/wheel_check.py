"""Check a wheel: exports and dependencies of its libraries, platform compatibility, entry point, and that it loads."""

from __future__ import annotations

import configparser
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from hardpoint._discovery import GROUP, load_in_child
from hardpoint._runtime import PluginError
from hardpoint.projects import elf

#: Newest symbol versions of each manylinux policy, oldest policy first (PEP 600; auditwheel's tables).
POLICIES = {
    "manylinux_2_17": {"GLIBC": "2.17", "GLIBCXX": "3.4.19", "CXXABI": "1.3.7", "GCC": "4.8.0"},
    "manylinux_2_24": {"GLIBC": "2.24", "GLIBCXX": "3.4.22", "CXXABI": "1.3.10", "GCC": "4.8.0"},
    "manylinux_2_28": {"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"},
    "manylinux_2_31": {"GLIBC": "2.31", "GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "7.0.0"},
    "manylinux_2_34": {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"},
    "manylinux_2_35": {"GLIBC": "2.35", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"},
}
#: Libraries that the policies allow.
EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libmvec|ld-linux[\w-]*)\.so\.\d+")
FRAMEWORK_LIBRARY = re.compile(r"lib(torch|c10|paddle|phi|common)(_\w+)?\.so.*|libphi\w*\.so.*")
#: Mangled names in framework namespaces, and C functions of the frameworks.
FRAMEWORK_SYMBOL = re.compile(r"_Z\w*?(2at|3c10|5torch|6paddle|3phi)\w*|THP\w+|aoti_torch_\w+|PD_\w+")
PYTHON_SYMBOL = re.compile(r"_?Py[A-Z_]\w*")
PLUGIN_EXPORT = re.compile(r"hp_plugin_init|__tvm_ffi_\w+")
#: Refusals that may be due to this machine: it lacks the driver or the device.
MACHINE = re.compile(
    r"hp_plugin_init failed|device_count failed|found no device|cannot open shared object|version `\w+\S+' not found"
)


@dataclass(frozen=True)
class Finding:
    """Result of one check; ``ok`` is None for a note."""

    subject: str
    ok: bool | None
    detail: str


def check(wheel: Path) -> list[Finding]:
    """Check a wheel. Raises RuntimeError if the file is not a wheel or a tool is missing."""
    try:
        with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
            archive.extractall(folder)
            return list(_findings(Path(folder)))
    except (OSError, zipfile.BadZipFile) as error:
        raise RuntimeError(f"{wheel}: {error}") from None


def _findings(folder: Path) -> Iterator[Finding]:
    plugins = _entry_points(folder)
    libraries = {path: elf.read(path) for path in sorted(folder.rglob("*.so"))}
    own = [library for library in libraries.values() if "hp_plugin_init" in library.exports]
    if plugins:
        yield Finding("entry point", True, f"{GROUP}: {', '.join(f'{k} = {v}' for k, v in plugins.items())}")
        yield from _targets(folder, plugins)
    elif own:
        yield Finding("entry point", False, f'none: add [project.entry-points."{GROUP}"] so that the plug-in is found')
    required = _requirements(folder)
    yield _judge_requirements(required, bool(plugins))
    for path, library in libraries.items():
        name = path.relative_to(folder).as_posix()
        if any(symbol.startswith("PyInit_") for symbol in library.exports):
            yield _module(name, library, required)
        else:
            judged = [*_plain(name, library)]
            yield from judged
            if library in own and all(finding.ok for finding in judged if finding.subject != f"{name} exports"):
                yield _load(path, folder)
        yield from _machine(name, library)
    if not libraries:
        yield Finding("libraries", True, "none: pure Python, platform-independent")


def _entry_points(folder: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    for file in folder.glob("*.dist-info/entry_points.txt"):
        parser.read(file)
    return dict(parser[GROUP]) if parser.has_section(GROUP) else {}


def _targets(folder: Path, plugins: dict[str, str]) -> Iterator[Finding]:
    for name, target in plugins.items():
        module = target.partition(":")[0].strip().replace(".", "/")
        if not (folder / f"{module}.py").exists() and not (folder / module / "__init__.py").exists():
            yield Finding("entry point", False, f"{name} = {target}: the wheel has no module {module}")


def _requirements(folder: Path) -> list[str]:
    lines = [Parser().parsestr(f.read_text()).get_all("Requires-Dist", []) for f in folder.glob("*.dist-info/METADATA")]
    return [line for each in lines for line in each if "extra ==" not in line]


def _judge_requirements(required: list[str], is_plugin: bool) -> Finding:
    frameworks = [r for r in required if re.match(r"(torch|paddlepaddle[\w-]*)\b", r)]
    if is_plugin and frameworks:
        return Finding("requirements", False, f"a plug-in must not depend on a framework, got {frameworks}")
    if not any(re.match(r"hardpoint\b", r) for r in required):
        return Finding("requirements", False, 'hardpoint is missing: add dependencies = ["hardpoint"]')
    return Finding("requirements", True, ", ".join(required))


def _plain(name: str, library: elf.Library) -> Iterator[Finding]:
    """Check a plug-in or a kernel library."""
    others = [symbol for symbol in library.exports if not PLUGIN_EXPORT.fullmatch(symbol)]
    shown = [symbol for symbol in library.exports if symbol not in others]
    if others:
        yield Finding(f"{name} exports", False, f"unexpected {_some(others)}; link with hardpoint's plugin.map")
    elif not shown:
        yield Finding(f"{name} exports", False, "no hp_plugin_init and no kernel (__tvm_ffi_NAME)")
    else:
        yield Finding(f"{name} exports", True, _some(shown))
    linked = [file for file in library.needed if FRAMEWORK_LIBRARY.fullmatch(file)]
    used = [symbol for symbol in library.imports if FRAMEWORK_SYMBOL.fullmatch(symbol)]
    if linked or used:
        yield Finding(f"{name} frameworks", False, f"depends on a framework: {_some([*linked, *used])}")
    else:
        yield Finding(f"{name} frameworks", True, "no dependency on torch or Paddle")
    if python := [symbol for symbol in library.imports if PYTHON_SYMBOL.fullmatch(symbol)]:
        yield Finding(f"{name} Python", False, f"depends on one Python version: {_some(python)}")


def _load(path: Path, folder: Path) -> Finding:
    """Load a plug-in in a child process."""
    subject = f"{path.relative_to(folder).as_posix()} loads"
    try:
        load_in_child(path)
    except PluginError as error:
        reason = str(error).removeprefix(f"{path}: ").replace(f"{folder}/", "")
        if MACHINE.search(reason):
            return Finding(subject, None, f"refused on this machine: {reason}")
        return Finding(subject, False, f"refused: {reason}")
    return Finding(subject, True, "accepted by this Hardpoint")


def _module(name: str, library: elf.Library, required: list[str]) -> Finding:
    """Check a Python extension module, such as operators registered with torch in C++."""
    linked = [file for file in library.needed if FRAMEWORK_LIBRARY.fullmatch(file)]
    bound = f"an extension module that depends on {_some(linked)}"
    if any("torch" in file for file in linked) and not any(re.match(r"torch\s*\(?==", r) for r in required):
        return Finding(f"{name} frameworks", False, f"{bound}; require that version with torch_requirement()")
    return Finding(f"{name} frameworks", None if linked else True, bound if linked else "an extension module")


def _machine(name: str, library: elf.Library) -> Iterator[Finding]:
    foreign = [
        file
        for file in library.needed
        if not EVERYWHERE.fullmatch(file) and not FRAMEWORK_LIBRARY.fullmatch(file) and file != "libtvm_ffi.so"
    ]
    if foreign:
        yield Finding(f"{name} libraries", None, f"must be installed on the user's machine: {_some(foreign)}")
    newest = {family: numbers[-1] for family, numbers in library.versions.items() if numbers}
    asked = ", ".join(f"{family} {number}" for family, number in newest.items()) or "no versioned symbol"
    fits = next((policy for policy, limits in POLICIES.items() if _fits(newest, limits)), None)
    detail = f"{fits} ({asked})" if fits else f"newer than {list(POLICIES)[-1]} ({asked}): build on an older system"
    yield Finding(f"{name} runs on", True if fits else None, detail)


def _fits(newest: dict[str, str], limits: dict[str, str]) -> bool:
    return all(
        family not in limits or elf.number_of(number) <= elf.number_of(limits[family])
        for family, number in newest.items()
    )


def _some(names: list[str] | tuple[str, ...], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
