"""Replay: a call in one file, with its inputs; run again, compared, timed, and written as a script."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import torch

from hardpoint.toolbox import describing, references, saved_calls, snapshots
from hardpoint.toolbox.collecting import Collect

FORMAT = "hardpoint call"
VERSION = 1
#: Bytes of a file that still fit into a script.
MAX_EMBEDDED = 64 << 10


def save(path: Path, name: str, arguments: list[Any], devices: list[str], report: dict[str, Any]) -> Path:
    """Write a call. ``arguments`` are on the CPU; ``devices`` says where each tensor among them was."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "torch": str(torch.__version__),
        "operator": name,
        "arguments": [_storable(argument) for argument in arguments],
        "devices": devices,
        "place": report.get("place", ""),
        "tier": report.get("tier", ""),
        "error": report.get("error", ""),
    }
    torch.save(content, path)
    return path


def _storable(argument: Any) -> Any:
    if isinstance(argument, torch.device):
        return str(argument)
    return None if isinstance(argument, torch.Generator) else argument


def load(path: Path) -> dict[str, Any]:
    """Read a call. Raises ``ValueError`` with the reason for a file that is none."""
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except Exception:
        raise ValueError(f"{path} is no saved call") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is no saved call")
    if content["version"] != VERSION:
        raise ValueError(f"{path} has version {content['version']} of the format; this Hardpoint reads {VERSION}")
    try:
        schema = describing.overload(content["operator"])._schema
    except AttributeError:
        raise ValueError(f"{path}: torch {torch.__version__} has no {content['operator']}") from None
    if len(schema.arguments) != len(content["arguments"]):
        raise ValueError(
            f"{path} was saved with torch {content['torch']}, where {content['operator']} had other arguments"
        )
    return content


def on_device(content: dict[str, Any], device: str) -> list[Any]:
    """The arguments, where they were: on the device, or on the CPU."""
    arguments = content["arguments"]
    moved = snapshots.copy(arguments, device)
    found = snapshots.tensors(arguments)
    for tensor, where in zip(found, content["devices"], strict=True):
        if where == "cpu":
            moved[id(tensor)] = tensor.clone()
    schema = describing.overload(content["operator"])._schema
    replaced = snapshots.replace(arguments, moved)
    return [
        torch.device(device) if argument is not None and "Device" in str(formal.type) else argument
        for argument, formal in zip(replaced, schema.arguments, strict=True)
    ]


def call(name: str, arguments: list[Any]) -> Any:
    """Call the operator itself with arguments in the order of its schema."""
    function = describing.overload(name)
    formals = function._schema.arguments
    positional = [a for a, f in zip(arguments, formals, strict=True) if not f.kwarg_only]
    named = {f.name: a for a, f in zip(arguments, formals, strict=True) if f.kwarg_only}
    return function(*positional, **named)


def replay(path: Path, device: str) -> tuple[list[dict[str, Any]], float, float]:
    """Run a saved call again: reports of the comparison, then microseconds on the device and on the CPU."""
    content = load(path)
    name = content["operator"]
    with torch.no_grad():
        arguments = on_device(content, device)
        try:
            with Collect() as collected:
                call(name, arguments)
        except Exception as error:
            return [_failure(content, str(error))], float("nan"), float("nan")
        arguments = on_device(content, device)
        module = getattr(torch, torch.device(device).type)

        def on_the_device() -> None:
            call(name, arguments)
            module.synchronize()

        spent = saved_calls.microseconds(on_the_device)
        try:
            native = saved_calls.microseconds(lambda: references.call(name, content["arguments"]))
        except references.NoReference:
            native = float("nan")
    # Parts of the call only where they are wrong themselves.
    reports = [r for r in collected.reports if r["operator"] == name or r["verdict"] == "wrong"]
    saved_calls.note_mended(content, reports)
    return reports, spent, native


def _failure(content: dict[str, Any], message: str) -> dict[str, Any]:
    """The report of a call that raises."""
    try:
        references.call(content["operator"], content["arguments"])
        native = "the CPU has a result"
    except references.NoReference as error:
        native = f"the CPU refuses it as well: {error}"
    return saved_calls.failure(content["operator"], content, message, native)


SCRIPT = '''\
"""{name} on '{device}' against the CPU{place}{error}."""
import base64, io, zlib  # noqa: E401

import torch

import hardpoint

saved = torch.load({source}, weights_only=True)


def move(value, devices=iter(saved["devices"])):
    if isinstance(value, list):
        return [move(item) for item in value]
    if not isinstance(value, torch.Tensor) or next(devices) == "cpu":
        return value
    memory = torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage()).to("{device}")
    made = torch.empty(0, dtype=value.dtype, device="{device}")
    return made.set_(memory.untyped_storage(), value.storage_offset(), value.shape, value.stride())


def call(function, arguments):
    given = dict(zip({names}, arguments))
    results = function(**{{a.name: given.get(a.name) for a in function._schema.arguments}})
    return torch.utils._pytree.tree_leaves([arguments, results])


ours = call({ours}, [move(a) for a in saved["arguments"]])
for a, b in zip(ours, call({cpu}, saved["arguments"])):
    if isinstance(b, torch.Tensor):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)
'''


def _quoted(message: str) -> str:
    """For the inside of a string of the script."""
    return message.replace("\\", "").replace('"', "'")


def script(path: Path, device: str) -> str:
    """A program for a bug report: it makes the call on both sides, and fails where they differ.

    The inputs are part of it where they are small enough; otherwise it reads them from the file.
    """
    content = load(path)
    name = content["operator"]
    packed = base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode()
    embedded = f'io.BytesIO(zlib.decompress(base64.b64decode("{packed}")))'
    return SCRIPT.format(
        name=name,
        device=device,
        place=f", called at {content['place']}" if content["place"] else "",
        error=f", fails: {_quoted(content['error'])}" if content.get("error") else "",
        source=embedded if len(packed) <= MAX_EMBEDDED else repr(str(path)),
        names=describing.argument_names(name),
        ours=f"torch.ops.{describing.overload(name)}",
        cpu=f"torch.ops.{references.function_for(name)}",
    )
