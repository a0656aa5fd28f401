"""The subcommands ``report`` and ``bisect`` of the ``hardpoint`` command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hardpoint._console import console, output_file, output_folder, refuse, regular_expression
from hardpoint._runtime import PluginError
from hardpoint.projects import cli as projects


def report(
    trace: Annotated[Path, typer.Argument(help="A trace written by `hardpoint run --trace`, complete or not.")],
    page: Annotated[Path, typer.Argument(help="The HTML file to write.", callback=output_file)],
) -> None:
    """Write the page of `hardpoint run --report` from a trace."""
    from hardpoint.debug.report import write

    try:
        write(trace, page)
    except ValueError as error:
        refuse(error)
    console.print(f"[green]written[/] {page}", highlight=False, soft_wrap=True)


def bisect(
    script: Annotated[str, typer.Argument(help="Python script that diverges from the CPU.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="Regular expression for the number to compare in the program's output: 'loss: (.*)'. "
            "The last match counts. Default: the last number, else the exit status.",
            callback=regular_expression,
        ),
    ] = "",
    tolerance: Annotated[
        float, typer.Option(help="Relative difference of the number from which a run diverges.", min=0)
    ] = 0.01,
    state: Annotated[
        Path | None,
        typer.Option(help="File with the outcomes of runs. Default: SCRIPT.bisect.json.", callback=output_file),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Forget the runs of an interrupted search.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Folder in which to save the wrong call. Default: SCRIPT.calls.", callback=output_folder),
    ] = None,
) -> None:
    """Find the operator, module and step that make a program diverge from the CPU, by running halves on the CPU.

    Fails if it finds one. Each run is printed. An interrupted search continues where it stopped.
    """
    from hardpoint.debug._program import Program
    from hardpoint.debug.bisect import Bisect, SearchError
    from hardpoint.debug.run import check_device

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    projects.use_device()
    try:
        Program(script, [])  # refuses a script that does not exist
        check_device()
        search = Bisect(
            Path(script),
            arguments or [],
            metric=metric,
            tolerance=tolerance,
            state=state,
            restart=restart,
            save=save,
            say=say,
        )
        culprit = search.search()
    except (SearchError, ValueError, PluginError) as error:
        refuse(error)
    except KeyboardInterrupt:  # 1 would mean that an operator was found
        say("interrupted: the same command continues the search")
        raise typer.Exit(130) from None
    if not culprit.operators:
        say(f"the run on the device agrees with the CPU: {search.all_on_device.show()}, {search.reference.show()}")
        return
    found = ", ".join(culprit.operators)
    console.print(f"[red]found[/] {found}" if len(culprit.operators) == 1 else f"[red]found[/] together: {found}")
    say(f"  {search.all_on_device.show()} on the device, {search.reference.show()} on the CPU")
    if culprit.modules:
        say(f"  module: {', '.join(module or 'outside modules' for module in culprit.modules)}")
    if culprit.step:
        say(f"  step: diverges once the steps 1 to {culprit.step} ran on the device")
    if culprit.saved:
        say(f"  a call: hardpoint replay {shlex.quote(culprit.saved)}")
    rules = ",".join(culprit.operators)
    say(f"  work around it: hardpoint run --fallback {shlex.quote(rules)} {shlex.join([script, *(arguments or [])])}")
    raise typer.Exit(1)


def add_commands(app: typer.Typer) -> None:
    """Add the subcommands."""
    app.command()(report)
    app.command(context_settings={"allow_interspersed_args": False})(bisect)
