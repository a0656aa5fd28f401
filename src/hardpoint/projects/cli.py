"""Commands of projects: ``hardpoint new``, ``build``, ``test``, ``wheel`` and ``cmake-dir``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hardpoint.projects import render
from hardpoint.projects.project import NoProject, Project

console = Console()
new_app = typer.Typer(no_args_is_help=True, help="Write a new project: a device, or operators.")


class Language(str, Enum):
    """Languages of a device's project."""

    c = "c"
    cpp = "cpp"
    python = "python"


def add_commands(app: typer.Typer) -> None:
    """Put the commands beside the others."""
    app.add_typer(new_app, name="new")
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(test)
    app.command()(wheel)
    app.command("cmake-dir")(cmake_dir)


To = Annotated[Path | None, typer.Option(help="The folder to write, in place of ./NAME.")]


@new_app.command("device")
def new_device(
    name: Annotated[str, typer.Argument(help="Of the device, as in torch.device(NAME), and of the package.")],
    lang: Annotated[Language, typer.Option(help="What the plug-in is written in.")] = Language.c,
    to: To = None,
) -> None:
    """Write a plug-in's project: runtime, two kernels, builds with setuptools and CMake, tests, CI."""
    _new("device", name, render.LANGUAGES[lang.value], to)


@new_app.command("ops")
def new_ops(
    name: Annotated[str, typer.Argument(help="Of the namespace, as in torch.ops.NAME, and of the package.")],
    cpp: Annotated[
        bool, typer.Option("--cpp", help="Tell torch of the operators in C++: the wheel then belongs to one torch.")
    ] = False,
    to: To = None,
) -> None:
    """Write a custom operator's project: kernels, gradient, shapes, autocast, both frameworks, tests, CI."""
    _new("ops", name, render.OPERATORS["cpp" if cpp else "python"], to)


def _new(kind: str, name: str, layers: tuple[str, ...], to: Path | None) -> None:
    target = to or Path(name)
    try:
        written = render.new(kind, name, layers, target)
    except (ValueError, OSError) as error:
        _fail("refused", error)
    table = Table("file", "lines of code", box=None)
    for file in written:
        table.add_row(str(target / file.path), str(file.code) if file.code else "text")
    console.print(table)
    is_test = {file: file.path.parts[0] == "tests" for file in written}
    code = sum(file.code for file in written if not is_test[file])
    tests = sum(file.code for file in written if is_test[file])
    console.print(f"[green]written[/] {target}: {code} lines of code, {tests} of tests", highlight=False)
    console.print(f"Next: cd {target} && hardpoint test", highlight=False)


def build() -> None:
    """Compile the project in this folder into its source tree."""
    project = _project()
    if not project.compiles:
        console.print("nothing to compile: the project is Python only")
        return
    _watched(project.build)
    console.print(f"[green]built[/] {project.settings.get('plugin', project.folder)}", highlight=False)


def test(context: typer.Context) -> None:
    """Build the project in this folder and run its tests on its device; arguments are pytest's."""
    project = _project()
    status = 0

    def run() -> None:
        nonlocal status
        status = project.test(context.args)

    _watched(run)
    raise typer.Exit(status)


def wheel(
    check: Annotated[Path | None, typer.Option(help="Check this wheel and build nothing.")] = None,
    to: Annotated[Path, typer.Option(help="The folder for the wheel.")] = Path("dist"),
) -> None:
    """Make the wheel of the project in this folder, and check its ABI: symbols, frameworks, machines, entry point."""
    from hardpoint.projects import wheel_check

    file = check
    if file is None:
        project = _project()

        def make() -> None:
            nonlocal file
            file = project.wheel(project.folder / to)

        _watched(make)
        console.print(f"[green]built[/] {file}", highlight=False, soft_wrap=True)
    assert file is not None
    try:
        findings = wheel_check.check(file)
    except RuntimeError as error:
        _fail("failed", error)
    marks = {True: "[green]ok[/]  ", False: "[red]bad[/] ", None: "[yellow]note[/]"}
    for finding in findings:
        console.print(
            f"{marks[finding.ok]} [bold]{finding.subject}[/]: {escape(finding.detail)}",
            highlight=False,
            soft_wrap=True,
        )
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
        _fail("refused", error)


def _watched(action: Callable[[], None]) -> None:
    try:
        action()
    except subprocess.CalledProcessError as error:
        # What failed has said so itself.
        raise typer.Exit(error.returncode) from None


def _fail(verdict: str, error: Exception) -> NoReturn:
    console.print(f"[red]{verdict}[/]: {escape(str(error))}", highlight=False, soft_wrap=True)
    raise typer.Exit(2) from None
