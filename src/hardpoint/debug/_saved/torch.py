"""Saved calls of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from hardpoint.debug._calls import schema
from hardpoint.debug._calls.base import Report
from hardpoint.debug._calls.torch_copy import copy, replace, tensors
from hardpoint.debug._comparison import reference
from hardpoint.debug._saved.base import VERSION, Replay, SavedCall, check_format, origin

FORMAT = "hardpoint call"


def save(path: Path, name: str, arguments: list[Any], devices: list[str], report: Report) -> Path:
    """Write a call. ``arguments`` are on the CPU; ``devices`` has the original device of each tensor."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "torch": str(torch.__version__),
        "operator": name,
        "arguments": [_storable(argument) for argument in arguments],
        "devices": devices,
        **origin(report),
    }
    with open(path, "wb") as file:  # errors of the disk are then OSErrors
        torch.save(content, file)
    return path


def _storable(argument: Any) -> Any:
    if isinstance(argument, torch.device):
        return str(argument)
    return None if isinstance(argument, torch.Generator) else argument


def _load(path: Path) -> Report:
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except Exception:
        raise ValueError(f"{path} is not a saved call") from None
    check_format(path, content, FORMAT)
    try:
        names = schema.argument_names(content["operator"])
    except AttributeError:
        raise ValueError(f"{path}: torch {torch.__version__} has no {content['operator']}") from None
    if len(names) != len(content["arguments"]):
        raise ValueError(
            f"{path} was saved with torch {content['torch']}, where {content['operator']} had other arguments"
        )
    return dict(content)


class TorchSavedCall(SavedCall):
    """A saved call of an ATen overload. Raises ``ValueError`` if the file cannot be used."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _load(path))
        self.name = self.content["operator"]

    def default_device(self) -> str:
        import hardpoint.torch

        return hardpoint.torch.mount()

    def check_device(self, device: str) -> None:
        mounted = self.default_device()
        try:
            kind, index = torch.device(device).type, torch.device(device).index or 0
            count = 1 if kind == "cpu" else torch.get_device_module(kind).device_count()
        except (RuntimeError, AttributeError):
            raise ValueError(f"there is no device '{device}'; mounted: {mounted}, from HARDPOINT_DEVICE") from None
        if index >= count:
            raise ValueError(f"there is no device '{device}': '{kind}' has {count} devices")

    def arguments_on(self, device: str) -> list[Any]:
        """Copies of the arguments on the device; tensors that were on the CPU remain there."""
        arguments = self.content["arguments"]
        moved = copy(arguments, device)
        for tensor, original in zip(tensors(arguments), self.content["devices"], strict=True):
            if original == "cpu":
                moved[id(tensor)] = tensor.clone()
        formals = schema.overload(self.name)._schema.arguments
        return [
            torch.device(device) if argument is not None and "Device" in str(formal.type) else argument
            for argument, formal in zip(replace(arguments, moved), formals, strict=True)
        ]

    def prepare(self, device: str) -> Callable[[], object]:
        function = schema.overload(self.name)
        arguments = list(zip(self.arguments_on(device), function._schema.arguments, strict=True))
        positional = [argument for argument, formal in arguments if not formal.kwarg_only]
        named = {formal.name: argument for argument, formal in arguments if formal.kwarg_only}
        module = getattr(torch, torch.device(device).type)

        def run() -> None:
            function(*positional, **named)
            module.synchronize()

        return run

    def on_cpu(self, device: str) -> AbstractContextManager[Callable[[], object]]:
        return contextlib.nullcontext(lambda: reference.call(self.name, self.content["arguments"]))

    def replay(self, device: str) -> Replay:
        with torch.no_grad():
            return super().replay(device)

    def script(self, device: str) -> str:
        embedded = self.embedded()
        return SCRIPT.format(
            name=self.name,
            device=device,
            location=self.called_at(),
            error=f", fails: {_escape(self.content['error'])}" if self.content["error"] else "",
            source=f"io.BytesIO({embedded})" if embedded else repr(str(self.path)),
            names=schema.argument_names(self.name),
            device_function=f"torch.ops.{schema.overload(self.name)}",
            cpu_function=f"torch.ops.{reference.cpu_overload(self.name)}",
        )


def _escape(message: str) -> str:
    """Text for the script's docstring."""
    return message.replace("\\", "").replace('"', "'")


SCRIPT = '''\
"""{name} on '{device}' against the CPU{location}{error}."""
import base64, io, zlib  # noqa: E401

import torch

import hardpoint

saved = torch.load({source}, weights_only=True)


def move(value, devices=iter(saved["devices"])):
    if isinstance(value, list):
        return [move(item) for item in value]
    if not isinstance(value, torch.Tensor) or next(devices) == "cpu":
        return value
    storage = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage()).to("{device}")
    moved = torch.empty(0, dtype=value.dtype, device="{device}")
    return moved.set_(storage.untyped_storage(), value.storage_offset(), value.shape, value.stride())


def call(function, arguments):
    named = dict(zip({names}, arguments))
    results = function(**{{a.name: named.get(a.name) for a in function._schema.arguments}})
    return torch.utils._pytree.tree_leaves([arguments, results])


actual = call({device_function}, [move(a) for a in saved["arguments"]])
for a, b in zip(actual, call({cpu_function}, saved["arguments"])):
    if isinstance(b, torch.Tensor):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)
'''
