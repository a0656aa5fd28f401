"""Project commands: ``hardpoint new``, ``build``, ``test``, ``wheel`` and ``cmake-dir``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.markup import escape
from rich.table import Table

from hardpoint._console import console, line, refuse
from hardpoint._runtime import PluginError
from hardpoint.projects import render
from hardpoint.projects.project import NoProject, Project

T = TypeVar("T")

new_app = typer.Typer(no_args_is_help=True, help="Create a new project: a device or operators.")


class Language(str, Enum):
    """Languages of a device project."""

    c = "c"
    cpp = "cpp"
    python = "python"


def add_commands(app: typer.Typer) -> None:
    """Add the project commands to the main command."""
    app.add_typer(new_app, name="new")
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(test)
    app.command()(wheel)
    app.command("cmake-dir")(cmake_dir)


To = Annotated[Path | None, typer.Option(help="Target folder (default: ./NAME).")]


@new_app.command("device")
def new_device(
    name: Annotated[str, typer.Argument(help="Name of the device, as in torch.device(NAME), and of the package.")],
    lang: Annotated[Language, typer.Option(help="Language of the plug-in.")] = Language.c,
    to: To = None,
) -> None:
    """Create a plug-in project: runtime, two kernels, setuptools and CMake builds, tests, CI."""
    _new("device", name, render.LANGUAGES[lang.value], to)


@new_app.command("ops")
def new_ops(
    name: Annotated[str, typer.Argument(help="Name of the namespace, as in torch.ops.NAME, and of the package.")],
    cpp: Annotated[
        bool,
        typer.Option("--cpp", help="Register operators with torch in C++: the wheel is then for one torch version."),
    ] = False,
    to: To = None,
) -> None:
    """Create a custom-operator project: kernels, gradient, shapes, autocast, both frameworks, tests, CI."""
    _new("ops", name, render.OPERATORS["cpp" if cpp else "python"], to)


def _new(kind: str, name: str, layers: tuple[str, ...], to: Path | None) -> None:
    target = to or Path(name)
    try:
        written = render.new(kind, name, layers, target)
    except (ValueError, OSError) as error:
        _fail(error)
    table = Table("file", "lines of code", box=None)
    for file in written:
        table.add_row(str(target / file.path), str(file.code) if file.code else "text")
    console.print(table)
    is_test = {file: file.path.parts[0] == "tests" for file in written}
    code = sum(file.code for file in written if not is_test[file])
    tests = sum(file.code for file in written if is_test[file])
    console.print(f"[green]created[/] {target}: {code} lines of code, {tests} of tests", highlight=False)
    console.print(f"Next: cd {target} && hardpoint test", highlight=False)


def build() -> None:
    """Compile the project in this folder in place."""
    project = _project()
    if not project.compiles:
        console.print("nothing to compile: a pure-Python project")
        return
    _exit_on_failure(project.build)
    console.print(f"[green]built[/] {project.settings.get('plugin', project.folder)}", highlight=False)


def test(context: typer.Context) -> None:
    """Build the project in this folder and run its tests on its device; arguments go to pytest."""
    project = _project()
    try:
        status = _exit_on_failure(lambda: project.test(context.args))
    except PluginError as error:
        line("refused", "red", str(error))
        raise typer.Exit(1) from None
    raise typer.Exit(status)


def wheel(
    check: Annotated[Path | None, typer.Option(help="Check this wheel instead of building one.")] = None,
    to: Annotated[Path, typer.Option(help="Output folder.")] = Path("dist"),
) -> None:
    """Build the wheel of the project in this folder and check it: symbols, dependencies, entry point, loading."""
    from hardpoint.debug._tool.paths import shown
    from hardpoint.projects import wheel_check

    if check is None:
        project = _project()
        check = _exit_on_failure(lambda: project.wheel(project.folder / to))
        console.print(f"[green]built[/] {shown(check)}", highlight=False, soft_wrap=True)
    try:
        findings = wheel_check.check(check)
    except RuntimeError as error:
        _fail(error)
    marks = {True: "[green]ok[/]  ", False: "[red]bad[/] ", None: "[yellow]note[/]"}
    for finding in findings:
        text = f"{marks[finding.ok]} [bold]{finding.subject}[/]: {escape(finding.detail)}"
        console.print(text, highlight=False, soft_wrap=True)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(1)


def cmake_dir() -> None:
    """Print the folder for CMake's Hardpoint_DIR."""
    from hardpoint_build import paths

    typer.echo(paths.cmake_dir())


def _project() -> Project:
    try:
        return Project.find(Path.cwd())
    except NoProject as error:
        _fail(error)


def _exit_on_failure(action: Callable[[], T]) -> T:
    try:
        return action()
    except subprocess.CalledProcessError as error:
        # The command has printed its own error.
        raise typer.Exit(error.returncode) from None


def _fail(error: Exception) -> NoReturn:
    refuse(error, "error")


def use_device() -> None:
    """In a project's folder, choose its device for this process and its children, unless the user chose one."""
    try:
        project = Project.find(Path.cwd())
    except NoProject:
        return
    try:
        if note := project.use_device():
            console.print(note, highlight=False, markup=False, soft_wrap=True)
    except PluginError as error:
        refuse(error)
