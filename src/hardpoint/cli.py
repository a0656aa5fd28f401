"""The command line: ``hardpoint devices``, ``hardpoint doctor``, ``hardpoint build``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Mount any accelerator on PyTorch and PaddlePaddle with one plug-in.",
)
build_app = typer.Typer(no_args_is_help=True, help="Compile what belongs to this machine's frameworks.")
app.add_typer(build_app, name="build")
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


@build_app.command("torch")
def build_torch(
    jobs: Annotated[int, typer.Option(help="Parallel compiler processes; each takes about 2 GB.")] = 2,
) -> None:
    """Compile the PyTorch adapter for the torch that is installed now."""
    import subprocess

    from hardpoint import _runtime
    from hardpoint.torch import _adapter

    try:
        path = _adapter.build(jobs)
    except (_runtime.PluginError, subprocess.CalledProcessError) as error:
        console.print(f"[red]failed[/]: {error}", highlight=False)
        raise typer.Exit(1) from None
    console.print(f"[green]built[/] {path}", highlight=False)


def main() -> None:
    """Entry point of the ``hardpoint`` script."""
    app()


if __name__ == "__main__":
    main()
