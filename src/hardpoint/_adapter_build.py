"""Compiles an adapter on the user's machine, and remembers a failure."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import sys
from pathlib import Path

from hardpoint import _adapter_checks as checks
from hardpoint import _build_process as process
from hardpoint._adapters import Adapter, Library, package_id, version_numbers
from hardpoint._runtime import PluginError, package_file

#: Lines of the log that are shown when a build fails.
LOG_LINES = 20
#: Errors of writing that free space would cure.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def build(adapter: Adapter, jobs: int = 2, broken: set[Library] | None = None) -> Path:
    """Compile an adapter and return the path of its library. Only one process at a time does so; others wait for it.

    Args:
        adapter: The adapter to build.
        jobs: Number of parallel compiler processes.
        broken: Libraries that do not load. If there is another one by now, it is returned, and a failure is not
            repeated. With None the adapter is built in any case.

    Raises:
        PluginError: Something that the build needs is missing, or it fails.
    """
    with process.unwind_on_signals(), contextlib.ExitStack() as stack:
        if problems := list(checks.problems(adapter)):
            raise _refusal(adapter, problems)
        folder = _lock_first_writable(adapter, stack)
        if broken is not None:
            if found := next((library for library in adapter.libraries() if library not in broken), None):
                return found[0]
            if message := _remembered_failure(adapter, folder):
                raise PluginError(message)
        _remove_stale_files(adapter, folder)
        path = _compile(adapter, folder, jobs)
        # Again: a killed builder releases its lock a little before it has ended.
        _remove_stale_files(adapter, folder)
        return path


def remember_failure(adapter: Adapter, folder: Path, message: str) -> None:
    """Save the reason of a failed build. Until the situation changes, ``build`` raises it instead of trying again."""
    saved = json.dumps({**_situation(adapter), "message": message}, indent=1)
    process.write_or_remove(_failure_file(adapter, folder), saved.encode())


def failure(adapter: Adapter) -> str | None:
    """Return the reason of the last build's failure, if another one would fail the same way."""
    found = (_remembered_failure(adapter, folder) for folder in adapter.folders_for_builds())
    return next(filter(None, found), None)


def _refusal(adapter: Adapter, problems: list[checks.Problem]) -> PluginError:
    items = [f"{problem.text}: {problem.advice}" for problem in problems]
    text = f" {items[0]}" if len(items) == 1 else "".join(f"\n- {item}" for item in items)
    return PluginError(f"Hardpoint's adapter for {adapter.label()} cannot be built:{text}")


def _lock_first_writable(adapter: Adapter, stack: contextlib.ExitStack) -> Path:
    folders = adapter.folders_for_builds()
    full = []
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free < checks.RESULT_SPACE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            purpose = f"builds the adapter for {adapter.label()}"
            stack.enter_context(process.lock(folder / f"{adapter.file_name()}.lock", purpose))
        except OSError as error:
            if error.errno in FULL_DISK:
                full.append(folder)
            continue
        return folder
    raise _refusal(adapter, [checks.full(full) if full else checks.not_writable(folders)])


def _remove_stale_files(adapter: Adapter, folder: Path) -> None:
    for root in {*checks.work_root_candidates(folder), *adapter.folders_for_builds()}:
        process.remove_stale_files(root)


def _compile(adapter: Adapter, folder: Path, jobs: int) -> Path:
    root = checks.work_root(folder)
    if isinstance(root, checks.Problem):
        raise _refusal(adapter, [root])
    newest = adapter.supported[1]
    if version_numbers(adapter.version()) > version_numbers(newest):
        process.print_message(f"{adapter.label()} is untested; the newest tested version is {newest}")
    duration = f"about {adapter.minutes} minute{'s' if adapter.minutes > 1 else ''}"
    text = f"building the adapter for {adapter.label()}, once ({duration})..."
    try:
        with process.work_folder(root) as work, process.Progress(text) as progress:
            library = _run_cmake(adapter, folder, work, jobs, progress)
            path = _store(adapter, library, folder)
    except OSError as error:
        message = f"{_subject(adapter)}: {error}; to try again, run: {_command(adapter)}"
        if error.errno in FULL_DISK:
            message = _no_space_message(adapter, str(error))
        raise _failed(adapter, folder, message) from error
    process.print_message(f"... done in {progress.seconds()} s, kept in {path.parent}")
    _failure_file(adapter, folder).unlink(missing_ok=True)
    _log_file(adapter, folder).unlink(missing_ok=True)
    if adapter.build_folders is None:
        _remove_outdated(path.parent)
    return path


def _run_cmake(adapter: Adapter, folder: Path, work: Path, jobs: int, progress: process.Progress) -> Path:
    """Compile in ``work``, and return the library there."""
    with (work / "log").open("wb") as log:
        for command in _commands(adapter, work, jobs):
            status = process.run(command, _environment(), work, log, progress)
            if status != 0:
                break
    library = work / "build" / adapter.file_name()
    if status == 0 and library.exists():
        return library
    reason = f"cmake ended with {status}" if status else f"cmake made no {library.name}"
    raise _failed(adapter, folder, _failure_message(adapter, folder, work / "log", reason))


def _failed(adapter: Adapter, folder: Path, message: str) -> PluginError:
    remember_failure(adapter, folder, message)
    return PluginError(message)


def _commands(adapter: Adapter, work: Path, jobs: int) -> list[list[str]]:
    import hardpoint

    try:
        source = adapter.sources or package_file(f"csrc/{adapter.framework}/CMakeLists.txt").parent
        core = package_file("lib/libhardpoint_core.so").parent.parent
    except FileNotFoundError as error:
        raise PluginError(str(error)) from None
    cmake, ninja = checks.tool("cmake") or "cmake", checks.tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    configure = [
        *(cmake, *generator, "-S", str(source), "-B", str(work / "build")),
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DHARDPOINT_PACKAGE={core}",
        f"-DHARDPOINT_PYTHON_SOURCE={Path(hardpoint.__file__).parent.parent}",
    ]
    return [configure, [cmake, "--build", str(work / "build"), "-j", str(jobs)]]


def _environment() -> dict[str, str]:
    # The build imports torch, which must not mount a device, let alone start a build.
    return {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "HARDPOINT_BUILD": "0"}


def _store(adapter: Adapter, library: Path, folder: Path) -> Path:
    """Copy a finished library to ``folder``, or to another one if that fails; no process ever sees a partial copy."""
    first_error = None
    for target in dict.fromkeys((folder, *adapter.folders_for_builds())):
        temporary = target / f"{process.temporary_prefix()}{library.name}"
        try:
            target.mkdir(parents=True, exist_ok=True)
            with library.open("rb") as source, temporary.open("wb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            shutil.copymode(library, temporary)
            os.replace(temporary, target / library.name)
            return target / library.name
        except OSError as error:
            first_error = first_error or error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    assert first_error is not None
    raise first_error


def _remove_outdated(folder: Path) -> None:
    """Remove the adapters that earlier versions of this package built in it. Those in the cache may still be in use."""
    package = package_file("lib/libhardpoint_core.so").parent.parent / "adapters"
    if package in folder.parents:
        for outdated in package.iterdir():
            if outdated not in folder.parents:
                shutil.rmtree(outdated, ignore_errors=True)


def _subject(adapter: Adapter) -> str:
    return f"Hardpoint's adapter for {adapter.label()} could not be built"


def _command(adapter: Adapter) -> str:
    return f"hardpoint build {adapter.framework}"


def _failure_message(adapter: Adapter, folder: Path, log: Path, reason: str) -> str:
    text = log.read_text(errors="replace")
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return _no_space_message(adapter, f"the compiler ran out of it in {log.parent.parent}")
    if re.search(r"Killed signal terminated program|fatal error: Killed", text):
        reason = "the compiler was killed, probably for lack of memory"
        return f"{_subject(adapter)}: {reason}; compile one file at a time: {_command(adapter)} --jobs 1"
    kept = _log_file(adapter, folder)
    process.write_or_remove(kept, log.read_bytes())
    lines = text.splitlines()
    shown = lines[-LOG_LINES:]
    first_error = next((line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)), None)
    if first_error is not None and first_error not in shown:
        shown = [first_error, "...", *shown]
    excerpt = "".join(f"\n    {line}" for line in shown)
    return f"{_subject(adapter)}: {reason}. The end of {kept}:{excerpt}\nTo try again, run: {_command(adapter)}"


def _no_space_message(adapter: Adapter, detail: str) -> str:
    problem = checks.no_space(detail)
    return f"{_subject(adapter)}: {problem.text}: {problem.advice}, then run: {_command(adapter)}"


def _situation(adapter: Adapter) -> dict[str, str]:
    """Return everything whose change may turn a failure into a success."""
    compiler = checks.compiler() or ""
    return {
        adapter.framework: adapter.version(),
        "hardpoint": package_id(),
        "python": sys.version,
        "compiler": f"{compiler}: {checks.compiler_version(compiler)}" if compiler else "",
        "cmake": checks.tool("cmake") or "",
    }


def _remembered_failure(adapter: Adapter, folder: Path) -> str | None:
    try:
        saved = json.loads(_failure_file(adapter, folder).read_text())
        message = saved.pop("message")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return str(message) if saved == _situation(adapter) else None


def _failure_file(adapter: Adapter, folder: Path) -> Path:
    return folder / f"{adapter.file_name()}.failed"


def _log_file(adapter: Adapter, folder: Path) -> Path:
    return folder / f"{adapter.file_name()}.log"
