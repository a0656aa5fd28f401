"""The command line: ``hardpoint devices``, ``doctor``, ``check``, ``coverage``, ``run``, ``replay``, ``build``.

The commands of projects (``new``, ``test``, ``wheel``) are in :mod:`hardpoint.projects.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from hardpoint.projects import cli as projects

if TYPE_CHECKING:
    from hardpoint._adapters import Adapter

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Mount any accelerator on PyTorch and PaddlePaddle with one plug-in.",
)
build_app = typer.Typer(
    invoke_without_command=True, help="Compile the project in this folder, or an adapter for this machine's framework."
)
app.add_typer(build_app, name="build")
projects.add_commands(app)
console = Console()


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count else "not told"


@app.command()
def devices() -> None:
    """Show the plug-ins that were found, why any was refused, and the devices they give."""
    from hardpoint import _runtime, plugins

    table = Table("plug-in", "from", "state", "extensions", title="Plug-ins")
    loaded = []
    for found in plugins.find():
        try:
            plugin = found.load()
        except _runtime.PluginError as error:
            table.add_row(found.name, found.source, f"[red]refused[/]: {error}", "")
            continue
        plural = "device" if plugin.device_count == 1 else "devices"
        table.add_row(
            plugin.name,
            found.source,
            f"[green]{plugin.device_count} {plural}[/], ABI {_runtime.ABI[0]}.{plugin.abi_minor}",
            ", ".join(plugin.extensions),
        )
        loaded.append(plugin)
    console.print(table)

    table = Table("device", "name", "compute units", "free memory", "total memory", title="Devices")
    for plugin in loaded:
        if plugin.name not in _runtime.mounted():
            _runtime.core.mount(plugin)
        for device in _runtime.devices(plugin.name):
            table.add_row(
                device["device"],
                device["name"],
                str(device["compute_units"] or "not told"),
                _gib(device["free_memory"]),
                _gib(device["total_memory"]),
            )
    console.print(table)
    console.print(f"Chosen for a program that asks: [bold]{_choice()}[/]")
    if not loaded:
        raise typer.Exit(1)


def _choice() -> str:
    from hardpoint import _runtime, plugins

    try:
        return str(plugins.choose().name)
    except _runtime.PluginError as error:
        return f"none: {error}"


@app.command()
def doctor() -> None:
    """Check compiler, frameworks and adapters, and say what to do about what is missing."""
    from hardpoint.doctor import checkup

    worst = True
    for finding in checkup():
        mark = "[green]ok[/]  " if finding.ok else "[red]fix[/] " if finding.needed else "[yellow]note[/]"
        console.print(f"{mark} [bold]{finding.subject}[/]: {finding.detail}", highlight=False)
        if finding.advice:
            console.print(f"       -> {finding.advice}", highlight=False)
        worst = worst and (finding.ok or not finding.needed)
    if not worst:
        raise typer.Exit(1)


@app.command()
def check(
    modes: Annotated[
        list[str] | None, typer.Argument(help="abi, runtime, ops, modules, optim, perf; all of them if none is given.")
    ] = None,
    ops: Annotated[str, typer.Option(help="Only entries whose name matches this regular expression.")] = "",
    dtypes: Annotated[str, typer.Option(help="Only these dtypes, separated by commas.")] = "",
    samples: Annotated[int, typer.Option(help="Sample inputs for each entry and dtype, at most.", min=1)] = 4,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML file.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the report for continuous integration.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything, for other tools.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Keep results in this file as they come, and run only what it lacks.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Write what the device computed for operators to this folder.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Say where results differ from those that another run kept in this folder.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if anything ran on the CPU.")] = False,
    blockers: Annotated[int, typer.Option(help="Rows of the table of operators that fell to the CPU.")] = 25,
    timeout: Annotated[float, typer.Option(help="Seconds without a sign of life that end an entry.")] = 120,
    memory: Annotated[float, typer.Option(help="GiB that the checking process may use; 0 for no limit.")] = 12,
) -> None:
    """Check the chosen device against the contract and against PyTorch's own databases."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from hardpoint import PluginError
    from hardpoint.check import MODES, Result, render, run, runner, tables

    columns = (TextColumn("{task.description:40.40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def advance(done: int, total: int, result: Result) -> None:
            bar.update(task, completed=done, total=total, description=f"{result.mode} {result.entry}")

        try:
            report = run(
                modes or MODES,
                ops=ops,
                dtypes=[d.strip() for d in dtypes.split(",")] if dtypes else tables.DTYPES,
                samples=samples,
                resume=resume,
                keep=keep,
                against=against,
                timeout=timeout,
                memory=memory,
                progress=advance,
            )
        except (ValueError, PluginError, runner.WorkerDied) as error:
            bar.stop()
            console.print(f"[red]failed[/]: {error}", highlight=False)
            raise typer.Exit(2) from None
    render.text(report, console, blockers=blockers)
    if html is not None:
        render.html(report, html)
    if junit is not None:
        render.junit(report, junit, strict)
    if json is not None:
        report.save(json)
    if not report.results:
        console.print("[red]failed[/]: no entry matches")
    if not report.results or not report.ok(strict):
        raise typer.Exit(1)


@app.command()
def coverage(
    operators: Annotated[str, typer.Argument(help="Only operators that match this regular expression.")] = "",
    tier: Annotated[str, typer.Option(help="Only operators that this tier serves in some dtype.")] = "",
    measured: Annotated[
        Path | None, typer.Option("--from", help="A report of `hardpoint check --json`: what was seen, not what is.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything, for other tools.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the table as one HTML file.")] = None,
) -> None:
    """Show which tier serves each ATen operator on the chosen device."""
    from hardpoint.tools import coverage as tool

    found = tool.collect(measured)
    found.keep(operators, tier)
    tool.text(found, console)
    if json is not None:
        tool.save(found, json)
    if html is not None:
        tool.html(found, html)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[str, typer.Argument(help="A Python program.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    fallback: Annotated[str, typer.Option(help="Rules: 'mm,conv2d', '.*=error', '@rules.txt'.")] = "",
    compare: Annotated[str, typer.Option(help="all, mismatches or stop; options follow: 'stop; steps=1:2'.")] = "",
    dump: Annotated[str, typer.Option(help="1, 2 or 3; options follow: '2; ops=mm; file=calls.jsonl'.")] = "",
    nan: Annotated[str, typer.Option(help="report, all or stop: who makes NaN or Inf; 'stop; save=calls'.")] = "",
    record: Annotated[str, typer.Option(help="A folder to save calls in: 'calls; ops=mm; calls=failing'.")] = "",
    alive: Annotated[bool, typer.Option("--alive", help="Show which device memory is in use at the end.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Show where the work was done, at the end.")] = False,
) -> None:
    """Run an unchanged program under the tools. Fails if a comparison is wrong, or an operator made NaN or Inf."""
    from hardpoint.toolbox import running

    try:
        switches = {"fallback": fallback, "compare": compare, "dump": dump, "nan": nan, "record": record}
        running.prepare(**switches, alive="1" if alive else "")
        program = running.find(script)
    except ValueError as error:
        console.print(f"[red]refused[/]: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    ended_well = False
    try:
        ended_well = running.run(program, arguments or [])
    finally:
        right = running.finish(summary)
    if not (ended_well and right):
        raise typer.Exit(1)


@app.command()
def replay(
    file: Annotated[list[Path], typer.Argument(help="Calls that a tool saved, or folders of them.")],
    device: Annotated[str, typer.Option(help="The device to run it on, in place of the chosen one.")] = "",
    script: Annotated[Path | None, typer.Option(help="Write a program for a bug report, and run nothing.")] = None,
) -> None:
    """Run saved calls again: compare them with the CPU, and time them."""
    from hardpoint.toolbox import comparing, saved_calls

    right = True
    try:
        files = saved_calls.files(file)
        if script is not None:
            if len(files) != 1:
                raise ValueError(f"a script is of one call, not of {len(files)}")
            tool, target = saved_calls.tool_for(files[0], device)
            script.write_text(tool.script(files[0], target))
            console.print(f"[green]written[/] {script}", highlight=False)
            return
        for path in files:
            tool, target = saved_calls.tool_for(path, device)
            reports, spent, native = tool.replay(path, target)
            for report in reports:
                console.print(comparing.text(report), highlight=False, markup=False, soft_wrap=True)
                right = right and report["verdict"] not in ("wrong", "fails")
            if spent == spent:  # what fails has no time
                console.print(f"{spent:.1f} us on {target}, {native:.1f} us on the CPU", highlight=False)
    except (ValueError, OSError) as error:
        console.print(f"[red]refused[/]: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    if not right:
        raise typer.Exit(1)


@app.command("mount-paddle-plugin")
def mount_paddle_plugin(
    path: Annotated[Path, typer.Argument(help="The library of a Paddle plug-in, which exports InitPlugin.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="After --: a Python script and its arguments, to run on the device.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the device, in place of the plug-in's own.")] = "",
) -> None:
    """Make a Paddle plug-in a device of PyTorch: check it, or run a script on it."""
    import os
    import shlex
    import subprocess
    import sys

    from hardpoint import PluginError, paddle_bridge

    os.environ[paddle_bridge.VARIABLE] = str(path.resolve())
    if name:
        os.environ[paddle_bridge.NAME_VARIABLE] = name
    try:
        plugin = paddle_bridge.load(path)
    except PluginError as error:
        console.print(f"[red]refused[/]: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    # What else is installed is no matter here.
    os.environ["HARDPOINT_DEVICE"] = plugin.name
    if command:
        raise typer.Exit(subprocess.call([sys.executable, *command]))

    from hardpoint.check import render, run, runner  # imports torch, which mounts what the environment names

    plural = "device" if plugin.device_count == 1 else "devices"
    tables = ", ".join(plugin.extensions) or "memory and copies only"
    console.print(f"[green]mounted[/] {plugin.name}: {plugin.device_count} {plural}, {tables}", highlight=False)
    try:
        report = run(["abi", "runtime"])
    except (PluginError, runner.WorkerDied) as error:
        console.print(f"[red]failed[/]: {error}", highlight=False)
        raise typer.Exit(1) from None
    render.text(report, console)
    variables = [paddle_bridge.VARIABLE, *([paddle_bridge.NAME_VARIABLE] if name else []), "HARDPOINT_DEVICE"]
    settings = " ".join(f"{v}={shlex.quote(os.environ[v])}" for v in variables)
    console.print("For programs:", highlight=False)
    console.print(f"  export {settings}", highlight=False, soft_wrap=True, markup=False)
    if not report.ok(False):
        raise typer.Exit(1)


Jobs = Annotated[int, typer.Option(help="Parallel compiler processes; each takes about 2 GB.")]


@build_app.callback()
def build_project(context: typer.Context) -> None:
    """Compile the project in this folder into its source tree, or an adapter: torch, paddle."""
    if context.invoked_subcommand is None:
        projects.build()


@build_app.command("torch")
def build_torch(jobs: Jobs = 2) -> None:
    """Compile the PyTorch adapter for the torch that is installed now."""
    from hardpoint.torch import _adapter

    _build(_adapter.ADAPTER, jobs)


@build_app.command("paddle")
def build_paddle(jobs: Jobs = 2) -> None:
    """Compile the Paddle adapter for the Paddle that is installed now."""
    from hardpoint.paddle import _adapter

    _build(_adapter.ADAPTER, jobs)


def _build(adapter: Adapter, jobs: int) -> None:
    import subprocess

    from hardpoint import _runtime

    try:
        path = adapter.build(jobs)
    except (_runtime.PluginError, subprocess.CalledProcessError) as error:
        console.print(f"[red]failed[/]: {error}", highlight=False)
        raise typer.Exit(1) from None
    console.print(f"[green]built[/] {path}", highlight=False)


def main() -> None:
    """Entry point of the ``hardpoint`` script."""
    app()


if __name__ == "__main__":
    main()
