"""The ``hardpoint`` command.

The subcommands ``new``, ``test`` and ``wheel`` are in :mod:`hardpoint.projects.cli`, ``report`` and ``bisect`` in
:mod:`hardpoint._analysis_cli`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hardpoint import _analysis_cli
from hardpoint._console import console, line, output_file, output_folder, refuse, regular_expression, table
from hardpoint._runtime import PluginError, cache_dir
from hardpoint.projects import cli as projects

if TYPE_CHECKING:
    from hardpoint._adapters import Adapter

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
build_app = typer.Typer(
    invoke_without_command=True, help="Compile the project in this folder, or the adapter of a framework."
)
app.add_typer(build_app, name="build")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hardpoint {version('hardpoint')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Mount any accelerator on PyTorch and PaddlePaddle with one plug-in."""


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count else "unknown"


@app.command()
def devices() -> None:
    """List plug-ins and devices, and why a plug-in was refused."""
    from hardpoint import _discovery, _runtime

    projects.use_device()
    plugins = table("plug-in", "from", "state", "extensions", title="Plug-ins")
    loaded, refused, absent = [], [], []
    for found in _discovery.find():
        try:
            plugin = found.load()
        except _runtime.PluginError as error:
            if reason := _discovery.missing_hardware(found, error):
                absent.append(f"[yellow]not available[/]: {found.name}: {escape(reason)}")
            else:
                refused.append(f"[red]refused[/]: {escape(str(error))}")
            continue
        plural = "device" if plugin.device_count == 1 else "devices"
        plugins.add_row(
            plugin.name,
            found.source,
            f"[green]{plugin.device_count} {plural}[/], ABI {_runtime.ABI[0]}.{plugin.abi_minor}",
            ", ".join(plugin.extensions),
        )
        loaded.append(plugin)
    console.print(plugins)
    for text in (*refused, *absent):
        console.print(text, highlight=False, soft_wrap=True)

    rows = table("device", "name", "compute units", "free memory", "total memory", title="Devices")
    for plugin in loaded:
        if plugin.name not in _runtime.mounted():
            _runtime.core.mount(plugin)
        for device in _runtime.devices(plugin.name):
            rows.add_row(
                str(device),
                device.name,
                str(device.compute_units or "unknown"),
                _gib(device.free_memory),
                _gib(device.total_memory),
            )
    console.print(rows)
    console.print(f"Default device: [bold]{escape(_choice())}[/]", soft_wrap=True)
    if not loaded:
        raise typer.Exit(1)


def _choice() -> str:
    import warnings

    from hardpoint import _discovery, _runtime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # refused plug-ins are listed already
        try:
            return _discovery.choose().name
        except _runtime.PluginError as error:
            return f"none: {error}"


@app.command()
def doctor(
    program: Annotated[
        Path | None,
        typer.Option(help="Run a program, and report where its models ran and which library chose that device."),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="After --: arguments of the program.")] = None,
) -> None:
    """Check this machine: compiler, frameworks, adapters and plug-ins. Prints a fix for each problem."""
    from hardpoint import program_check
    from hardpoint.doctor import checkup

    if program is not None and not program.is_file():
        refuse(f"there is no script '{program}'")
    projects.use_device()
    healthy = True
    for finding in program_check.run(program, arguments or []) if program is not None else checkup():
        mark = "[green]ok[/]  " if finding.ok else "[red]fix[/] " if finding.needed else "[yellow]note[/]"
        console.print(f"{mark} [bold]{finding.subject}[/]: {escape(finding.detail)}", highlight=False, soft_wrap=True)
        if finding.advice:
            console.print(f"       -> {escape(finding.advice)}", highlight=False, soft_wrap=True)
        healthy = healthy and (finding.ok or not finding.needed)
    if not healthy:
        raise typer.Exit(1)


@app.command()
def check(
    modes: Annotated[
        list[str] | None,
        typer.Argument(
            help="abi, runtime, ops, modules, optim, perf. Default: all. Or: phi. Or: suites or paddle, and test files."
        ),
    ] = None,
    ops: Annotated[
        str,
        typer.Option(help="Run only entries whose name matches this regular expression.", callback=regular_expression),
    ] = "",
    dtypes: Annotated[str, typer.Option(help="Run only these dtypes, separated by commas.")] = "",
    samples: Annotated[int, typer.Option(help="Maximum number of sample inputs per entry and dtype.", min=1)] = 4,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Run every generated case: more sizes, strides and offsets.")
    ] = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Put guard zones around every allocation, and check them after each call.")
    ] = False,
    failures: Annotated[
        Path | None,
        typer.Option(
            help="Save failing calls in this folder, for `hardpoint replay`. Default: in the cache.",
            callback=output_folder,
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report to an HTML file.", callback=output_file)] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write the report to a JUnit XML file.", callback=output_file)
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the full data to a JSON file.", callback=output_file)] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Save results to this file, and run only entries that it lacks.", callback=output_file),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Save the operators' results in this folder.", callback=output_folder)
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Report differences from results saved with --keep by another run.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if an operator ran on the CPU.")] = False,
    blockers: Annotated[int, typer.Option(help="Maximum number of CPU operators to list.", min=0)] = 25,
    timeout: Annotated[
        float, typer.Option(help="Stop an entry after this many seconds without progress.", min=0.1)
    ] = 120,
    memory: Annotated[float, typer.Option(help="Memory limit of the worker process in GiB; 0 for none.", min=0)] = 12,
    jobs: Annotated[int, typer.Option(help="suites, paddle, phi: number of processes.", min=1)] = 2,
    sample: Annotated[int, typer.Option(help="suites: run at most this many tests of each file.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="suites: seed that chooses the sample.")] = 0,
    checkout: Annotated[
        Path | None, typer.Option(help="paddle: a checkout of Paddle, for its test library. Default: the files' own.")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="suites, paddle: a file of tests not to run, with reasons.")
    ] = None,
    old_ir: Annotated[bool, typer.Option("--old-ir", help="paddle: build static graphs in the old IR only.")] = False,
) -> None:
    """Check the device against the plug-in contract, and its results against PyTorch on the CPU.

    ``hardpoint check suites PATH...`` runs PyTorch's own test files instead, from a checkout of it, and ``hardpoint
    check paddle PATH...`` those of Paddle or PaddleCustomDevice. ``hardpoint check phi`` calls every kernel of
    Paddle with generated arguments and compares it with Paddle's CPU kernel.
    """
    from hardpoint.check import suite_command

    options: dict[str, Any]
    if modes == ["phi"]:
        return _check_phi(ops, dtypes, jobs, timeout, failures, json)
    if modes and modes[0] == "paddle":
        paths = [Path(path) for path in modes[1:]]
        options = {"library": checkout, "old_ir": old_ir, "timeout": timeout}
        return suite_command.run("paddle", paths, jobs, exclude, json, blockers, options)
    if modes and modes[0] == "suites":
        paths = [Path(path) for path in modes[1:]]
        options = {"pattern": ops, "sample": sample, "seed": seed, "timeout": timeout, "memory": memory}
        return suite_command.run("torch", paths, jobs, exclude, json, blockers, options)
    from hardpoint.check import expectations
    from hardpoint.check.command import run_command

    projects.use_device()
    report = run_command(
        modes or None,
        resume_file=resume,
        blockers=blockers,
        outputs={"html": html, "junit": junit, "json": json},
        strict=strict,
        ops=ops,
        dtypes=[d.strip() for d in dtypes.split(",")] if dtypes else expectations.DTYPES,
        samples=samples,
        thorough=thorough,
        guard=guard,
        failures=failures,
        keep=keep,
        against=against,
        timeout=timeout,
        memory=memory,
    )
    if not report.results or report.interrupted or not report.ok(strict):
        raise typer.Exit(1)


def _check_phi(ops: str, dtypes: str, jobs: int, timeout: float, failures: Path | None, json: Path | None) -> None:
    from hardpoint.check import phi_sweep, phi_worker, runner

    def advance(done: int, total: int, entry: str) -> None:
        if console.is_terminal:
            console.print(f"{done}/{total} {entry}", highlight=False, end="\033[K\r")

    projects.use_device()
    try:
        report = phi_sweep.run(
            ops=ops,
            dtypes=[d.strip() for d in dtypes.split(",")] if dtypes else phi_worker.DTYPES,
            jobs=jobs,
            timeout=timeout,
            save=failures or cache_dir() / "check" / "failures",
            progress=advance,
        )
    except (ValueError, PluginError, runner.WorkerDied, OSError) as error:
        refuse(error, "failed")
    phi_sweep.text(report, console)
    if json is not None:
        report.save(json)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def coverage(
    operators: Annotated[
        str, typer.Argument(help="Show only operators that match this regular expression.", callback=regular_expression)
    ] = "",
    tier: Annotated[
        str, typer.Option(help="Show only operators served by this tier: vendor, portable, decomposition, cpu.")
    ] = "",
    measured: Annotated[
        Path | None, typer.Option("--from", help="Use the tiers measured in a report of `hardpoint check --json`.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the full data to a JSON file.", callback=output_file)] = None,
    html: Annotated[Path | None, typer.Option(help="Write the table to an HTML file.", callback=output_file)] = None,
) -> None:
    """Show which tier serves each ATen operator on the device."""
    from hardpoint import _discovery
    from hardpoint.check.report import Report
    from hardpoint.coverage import TIERS, collect, render

    if tier and tier not in TIERS:
        refuse(f"--tier: expected {', '.join(TIERS)}, not '{tier}'")
    try:
        report = None if measured is None else Report.load(measured)
    except ValueError as error:
        refuse(f"--from: {error}")
    projects.use_device()
    try:
        _discovery.choose()  # before torch is imported, which would only warn
        found = collect(report)
    except PluginError as error:
        refuse(error, "failed")
    found.filter(operators, tier)
    render.text(found, console)
    if json is not None:
        render.save(found, json)
    if html is not None:
        render.html(found, html)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[str, typer.Argument(help="Python script to run.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is the name of a module, as after `python -m`.")
    ] = False,
    fallback: Annotated[str, typer.Option(help="Fallback rules: 'mm,conv2d', '.*=error' or '@rules.txt'.")] = "",
    compare: Annotated[
        str, typer.Option(help="Compare with the CPU: all, mismatches or stop, then options: 'stop; steps=1:2'.")
    ] = "",
    dump: Annotated[
        str, typer.Option(help="Dump calls at level 1, 2 or 3, then options: '2; ops=mm; file=calls.jsonl'.")
    ] = "",
    nan: Annotated[
        str,
        typer.Option(
            help="Find the operators that produce NaN or Inf: report, all or stop, then options: 'stop; save=calls'."
        ),
    ] = "",
    record: Annotated[
        str, typer.Option(help="Save calls in a folder, then options: 'calls; ops=mm; calls=failing'.")
    ] = "",
    leaks: Annotated[
        bool, typer.Option("--leaks", help="Print device memory that is still in use at the end.")
    ] = False,
    guard: Annotated[bool, typer.Option("--guard", help="Find operators that write outside their memory.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write a timeline to this file, for Perfetto (ui.perfetto.dev) or Chrome.", callback=output_file
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a page about time, memory and missing kernels to this HTML file.", callback=output_file
        ),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print the calls per tier at the end.")] = False,
) -> None:
    """Run an unchanged program with debugging tools.

    The exit status is the program's own. If that is 0, it is 1 if a comparison failed, an operator produced NaN or Inf,
    or one wrote outside its memory.
    """
    from hardpoint.debug._program import Program, end
    from hardpoint.debug.run import check_device, enable, finish

    projects.use_device()
    try:
        program = Program(script, arguments or [], module=module)
        check_device()
        program.set_arguments()  # before the tools: they tell which program they watch
        switches = {"leaks": "1" if leaks else "", "guard": "1" if guard else ""}
        switches |= {"trace": str(trace or ""), "report": str(report or "")}
        enable(fallback=fallback, compare=compare, dump=dump, nan=nan, record=record, **switches)
    except (ValueError, PluginError) as error:
        refuse(error)
    status = program.run()
    passed = finish(summary)
    end(status if status != 0 or passed else 1)


@app.command()
def replay(
    file: Annotated[list[Path], typer.Argument(help="Files of saved calls, or folders of such files.")],
    device: Annotated[str, typer.Option(help="Device to run on. Default: the mounted one.")] = "",
    script: Annotated[
        Path | None,
        typer.Option(
            help="Write a stand-alone program for a bug report instead of running the call.", callback=output_file
        ),
    ] = None,
) -> None:
    """Re-run saved calls: compare them with the CPU, and time them."""
    from hardpoint.debug.compare import format_report
    from hardpoint.debug.replay import find_files, load
    from hardpoint.debug.run import check_device

    projects.use_device()
    passed = True
    try:
        check_device()
        files = find_files(file)
        if script is not None:
            if len(files) != 1:
                raise ValueError(f"--script takes one saved call, not {len(files)}")
            call = load(files[0])
            script.write_text(call.script(device or call.default_device()))
            console.print(f"[green]written[/] {script}", highlight=False)
            return
        for path in files:
            if path.suffix == ".case":
                passed = _replay_case(path) and passed
                continue
            call = load(path)
            target = device or call.default_device()
            call.check_device(target)
            replayed = call.replay(target)
            for report in replayed.reports:
                console.print(format_report(report), highlight=False, markup=False, soft_wrap=True)
                passed = passed and report["verdict"] not in ("wrong", "fails")
            if replayed.device_us == replayed.device_us:  # NaN: a call that failed has no time
                times = f"{replayed.device_us:.1f} us on {target}, {replayed.cpu_us:.1f} us on the CPU"
                console.print(times, highlight=False)
    except (ValueError, PluginError, OSError) as error:
        refuse(error)
    if not passed:
        raise typer.Exit(1)


def _replay_case(path: Path) -> bool:
    """Run a failing case of `hardpoint check` again; returns whether it passes now."""
    from hardpoint.check import saved_cases

    if problem := saved_cases.replay(path):
        line("wrong", "red", f"{path.name}: {problem}")
    else:
        line("right", "green", path.name)
    return not problem


@app.command("mount-paddle-plugin")
def mount_paddle_plugin(
    path: Annotated[Path, typer.Argument(help="Library of a Paddle plug-in, which exports InitPlugin.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="After --: a Python script to run on the device, and its arguments.")
    ] = None,
    name: Annotated[str, typer.Option(help="Device name. Default: the plug-in's.")] = "",
) -> None:
    """Use a Paddle plug-in with PyTorch: check it, or run a script on it."""
    import os
    import shlex
    import subprocess

    from hardpoint.devices import paddle_bridge

    os.environ[paddle_bridge.VARIABLE] = str(path.resolve())
    if name:
        os.environ[paddle_bridge.NAME_VARIABLE] = name
    try:
        plugin = paddle_bridge.load(path)
    except PluginError as error:
        line("refused", "red", str(error))
        raise typer.Exit(1) from None
    # Choose this device even if other plug-ins are installed.
    os.environ["HARDPOINT_DEVICE"] = plugin.name
    if command:
        raise typer.Exit(subprocess.call([sys.executable, *command]))

    from hardpoint.check import render, run, runner  # imports torch, which mounts the device

    plural = "device" if plugin.device_count == 1 else "devices"
    tables = ", ".join(plugin.extensions) or "memory and copies only"
    console.print(f"[green]mounted[/] {plugin.name}: {plugin.device_count} {plural}, {tables}", highlight=False)
    try:
        report = run(["abi", "runtime"])
    except (PluginError, runner.WorkerDied) as error:
        line("failed", "red", str(error))
        raise typer.Exit(1) from None
    render.text(report, console)
    variables = [paddle_bridge.VARIABLE, *([paddle_bridge.NAME_VARIABLE] if name else []), "HARDPOINT_DEVICE"]
    settings = " ".join(f"{v}={shlex.quote(os.environ[v])}" for v in variables)
    console.print("To use it in programs:", highlight=False)
    console.print(f"  export {settings}", highlight=False, soft_wrap=True, markup=False)
    if not report.ok(False):
        raise typer.Exit(1)


Jobs = Annotated[int, typer.Option(help="Number of parallel compiler processes, about 2 GB each.")]


@build_app.callback()
def build_project(context: typer.Context) -> None:
    """Compile the project in this folder, in place. With a subcommand: compile the adapter of a framework."""
    if context.invoked_subcommand is None:
        projects.build()


@build_app.command("torch")
def build_torch(jobs: Jobs = 2) -> None:
    """Compile the PyTorch adapter for the installed torch, even if there is one. The first use does so by itself."""
    from hardpoint.torch import _adapter

    _build(_adapter.ADAPTER, jobs)


@build_app.command("paddle")
def build_paddle(jobs: Jobs = 2) -> None:
    """Compile the Paddle adapter for the installed Paddle, even if there is one. The first use does so by itself."""
    from hardpoint.paddle import _adapter

    _build(_adapter.ADAPTER, jobs)


def _build(adapter: Adapter, jobs: int) -> None:
    try:
        path = adapter.build(jobs)
    except PluginError as error:
        line("failed", "red", str(error))
        raise typer.Exit(1) from None
    console.print(f"[green]built[/] {path}", highlight=False, soft_wrap=True)


_analysis_cli.add_commands(app)
projects.add_commands(app)


def main() -> None:
    """Run the ``hardpoint`` command. Errors of the environment, such as a missing device or file, are one line."""

    try:
        app()
    except (PluginError, OSError) as error:
        line("failed", "red", str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
