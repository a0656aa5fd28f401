"""``hardpoint doctor --program``: runs a program and reports where its models ran, and which library called them."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from hardpoint.debug._calls.location import outside_graphs
from hardpoint.doctor import Finding


@dataclass
class ModelUse:
    """Calls of a model, or steps of an optimizer, with parameters on one type of device.

    Attributes:
        what: Name of the class of the model or optimizer.
        device: Device type of the parameters.
        caller: The library that the program called, with the file and line there, or the program's own.
        calls: Number of calls.
    """

    what: str
    device: str
    caller: str
    calls: int = 0


@dataclass
class Watch:
    """Counts calls of outermost modules and steps of optimizers."""

    script: Path
    uses: dict[tuple[str, str], ModelUse] = field(default_factory=dict)
    cuda: dict[str, str] = field(default_factory=dict)  # line of the program -> what it asks of torch.cuda

    def start(self) -> None:
        """Count until the process ends."""
        from torch.nn.modules import module as modules
        from torch.optim.optimizer import register_optimizer_step_post_hook

        depth = threading.local()

        def enter(module: Any, _: Any) -> None:
            depth.value = getattr(depth, "value", 0) + 1
            if depth.value == 1:
                self._count(type(module).__name__, module.parameters())

        def leave(*_: Any) -> None:
            depth.value -= 1

        def step(optimizer: Any, *_: Any) -> None:
            self._count(type(optimizer).__name__, (p for group in optimizer.param_groups for p in group["params"]))

        modules.register_module_forward_pre_hook(outside_graphs(enter))
        modules.register_module_forward_hook(outside_graphs(leave), always_call=True)
        register_optimizer_step_post_hook(outside_graphs(step))
        self._follow_cuda("is_available", "asks whether CUDA is available")
        self._follow_cuda("_lazy_init", "uses CUDA", through_torch=True)

    def _follow_cuda(self, name: str, what: str, through_torch: bool = False) -> None:
        """Note the lines of the program itself that need CUDA, and with ``through_torch`` those whose call needs it.

        Libraries, and torch too, ask for every device that they know.
        """
        import torch

        original = getattr(torch.cuda, name)

        @functools.wraps(original)
        def follow() -> Any:
            frame: FrameType | None = sys._getframe(1)
            while through_torch and frame is not None and _is_torch(Path(frame.f_code.co_filename)):
                frame = frame.f_back
            if frame is not None and self._is_program(Path(frame.f_code.co_filename)):
                self.cuda.setdefault(f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}", what)
            return original()

        setattr(torch.cuda, name, follow)

    def _is_program(self, file: Path) -> bool:
        return file.parent in (self.script.parent, self.script.resolve().parent)

    def _count(self, what: str, parameters: Iterator[Any]) -> None:
        if (parameter := next(iter(parameters), None)) is None:
            return
        key = (what, parameter.device.type)
        if key not in self.uses:
            self.uses[key] = ModelUse(*key, self._caller(sys._getframe(2)))
        self.uses[key].calls += 1

    def _caller(self, frame: FrameType | None) -> str:
        """The library that the program itself called: that one chose the device."""
        own: FrameType | None = None
        inside: FrameType | None = None
        while frame is not None:
            file = Path(frame.f_code.co_filename)
            if self._is_program(file):
                own = frame
                break
            if not _is_torch(file):
                inside = frame
            frame = frame.f_back
        if inside is None or own is None:
            found = own or inside
            return "" if found is None else f"{Path(found.f_code.co_filename).name}, line {found.f_lineno}"
        name = str(inside.f_globals.get("__name__", "")).partition(".")[0]
        version = getattr(sys.modules.get(name), "__version__", "")
        called = f"{Path(own.f_code.co_filename).name}, line {own.f_lineno}"
        return f"{name} {version}".strip() + f" ({inside.f_code.co_name}), called from {called}"


def _is_torch(file: Path) -> bool:
    packages = Path(sysconfig.get_path("purelib"))
    hooks = Path(__file__).parent  # torch calls them
    return file.is_relative_to(packages / "torch") or file.is_relative_to(hooks) or file.name == "<string>"


def run(script: Path, arguments: list[str]) -> Iterator[Finding]:
    """Run a program to its end, then report."""
    from hardpoint import integrations
    from hardpoint.debug._program import INTERRUPTED, Program
    from hardpoint.torch import usage

    usage.sample_period = 1
    import torch  # noqa: F401  (mounts the device)

    import hardpoint.torch

    name = hardpoint.torch.device_name()
    if name is None:
        yield Finding("device", False, "none is mounted", "hardpoint doctor, without --program, lists the problems")
        return
    watch = Watch(Path(os.path.abspath(script)))
    watch.start()
    status = Program(str(script), arguments).run()
    ended = status == 0
    how = "normally" if ended else "by Ctrl-C" if status == INTERRUPTED else f"with status {status}"
    yield Finding("program", ended, f"{script} ended {how}")
    use = usage.operator_use()
    counts = f"{use.device:,} operators on {name}, {use.cpu:,} on CPU tensors"
    yield Finding("operators", not use.unused, counts if not use.unused else usage.message(name, use, str(script)))
    for line, what in watch.cuda.items():
        advice = f"take the device from torch.accelerator.current_accelerator(): it is {name} here"
        yield Finding("CUDA", False, f"{line} {what}", advice, needed=use.unused or not ended)
    for model in watch.uses.values():
        where = f"{model.calls:,} calls on {model.device}, by {model.caller or 'unknown code'}"
        advice = (
            f"move it: .to('{name}'), or the option of that library for the device" if model.device == "cpu" else ""
        )
        yield Finding(model.what, model.device != "cpu", where, advice, needed=use.unused)
    for library, modules in integrations.state.patched.items():
        yield Finding(library, True, f"knows the device '{name}' ({len(modules)} modules)")
    for library, reason in integrations.state.refused.items():
        yield Finding(library, False, f"was not told about the device: {reason}", "install a tested version", False)
