"""Replay for Paddle: a call in one file, with its inputs; run again, compared, timed, and written as a script."""

from __future__ import annotations

import base64
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from hardpoint.toolbox import saved_calls
from hardpoint.toolbox.phi_calls import PhiCall, Saved, tensors

FORMAT = "hardpoint call of Paddle"
VERSION = 1
#: Bytes of a file that still fit into a script.
MAX_EMBEDDED = 64 << 10


def save(path: Path, call: PhiCall, inputs: list[Any], outputs: list[Any], report: dict[str, Any]) -> Path:
    """Write a call: an archive of what it was, as JSON, and of each input's bytes.

    ``inputs`` are :class:`Saved`; ``outputs`` are those of before the call.
    """
    import paddle

    flat = list(tensors(inputs))
    addresses = [seen.data_ptr for seen in tensors(call.inputs)]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "paddle": paddle.__version__,
        "kernel": call.bare_name,
        "dtype": call.dtype,
        "inputs": _positions(inputs, iter(range(len(flat)))),
        "tensors": [[saved.dtype, saved.sizes, saved.strides] for saved in flat],
        "attributes": [_plain(value) for value in call.attributes],
        "outputs": [_output(each, addresses) for each in outputs],
        "place": report.get("place", ""),
        "tier": report.get("tier", ""),
        "error": report.get("error", ""),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("call.json", json.dumps(content))
        for position, saved in enumerate(flat):
            archive.writestr(f"{position}", saved.data)
    return path


def _positions(values: list[Any], numbers: Any) -> list[Any]:
    return [
        _positions(each, numbers) if _is_list(each) else (None if each is None else next(numbers)) for each in values
    ]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _plain(value: Any) -> Any:
    return {"complex": [value.real, value.imag]} if isinstance(value, complex) else value


def _output(seen: Any, addresses: list[int]) -> Any:
    """An output before the call: None, the input whose memory it has, or dtype and sizes."""
    if _is_list(seen):
        return [_output(each, addresses) for each in seen]
    if seen is None:
        return None
    if seen.has_memory and seen.data_ptr in addresses:
        return addresses.index(seen.data_ptr)
    return [seen.dtype, seen.sizes]


def is_call(path: Path) -> bool:
    """Whether a file is a call of Paddle's, of whichever version."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "call.json" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load(path: Path) -> dict[str, Any]:
    """Read a call. Raises ``ValueError`` with the reason for a file that is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            content: dict[str, Any] = json.loads(archive.read("call.json"))
            if content.get("format") != FORMAT:
                raise ValueError(f"{path} is no saved call")
            if content["version"] != VERSION:
                raise ValueError(
                    f"{path} has version {content['version']} of the format; this Hardpoint reads {VERSION}"
                )
            kept = [
                Saved(d, sizes, strides, archive.read(str(i)))
                for i, (d, sizes, strides) in enumerate(content["tensors"])
            ]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError):
        raise ValueError(f"{path} is no saved call") from None
    content["inputs"] = [_with_tensors(each, kept) for each in content["inputs"]]
    content["attributes"] = [complex(*a["complex"]) if isinstance(a, dict) else a for a in content["attributes"]]
    content["outputs"] = [_described(each) for each in content["outputs"]]
    return content


def _with_tensors(value: Any, kept: list[Saved]) -> Any:
    if _is_list(value):
        return [_with_tensors(each, kept) for each in value]
    return None if value is None else tuple(kept[value])


def _described(output: Any) -> Any:
    # A list of outputs, or the pair of dtype and sizes.
    if _is_list(output):
        return tuple(output) if output and isinstance(output[0], str) else [_described(each) for each in output]
    return output


def call(content: dict[str, Any], device: str) -> list[Any]:
    """Make the call on a device; its outputs. Each run has inputs of its own."""
    import paddle  # noqa: F401

    from hardpoint.paddle import _adapter

    made: list[Any] = _adapter.load().call_kernel(
        *(content["kernel"], content["dtype"], device),
        *(content["inputs"], content["attributes"], content["outputs"]),
    )
    return made


def replay(path: Path, device: str) -> tuple[list[dict[str, Any]], float, float]:
    """Run a saved call again: reports of the comparison, then microseconds on the device and on the CPU.

    Both times include the way of the inputs: to the device, or back for the CPU's kernel.
    """
    import paddle

    from hardpoint.toolbox.collecting import Collect
    from hardpoint.toolbox.rules import fallback

    content = load(path)
    name = f"phi::{content['kernel']}"

    def run() -> None:
        call(content, device)
        paddle.device.synchronize(device)

    try:
        with Collect() as collected:
            run()
    except Exception as error:
        return [_failure(name, content, device, str(error))], float("nan"), float("nan")
    spent = saved_calls.microseconds(run)
    with fallback(f"{name}=cpu"):
        native = saved_calls.microseconds(run)
    # Parts of the call only where they are wrong themselves.
    reports = [r for r in collected.reports if r["operator"] == name or r["verdict"] == "wrong"]
    saved_calls.note_mended(content, reports)
    return reports, spent, native


def _failure(name: str, content: dict[str, Any], device: str, message: str) -> dict[str, Any]:
    from hardpoint.toolbox.rules import fallback

    try:
        with fallback(f"{name}=cpu"):
            call(content, device)
        native = "the CPU has a result"
    except Exception as error:
        native = f"the CPU refuses it as well: {saved_calls.first_line(told(str(error)))}"
    return saved_calls.failure(name, content, told(message), native)


def told(message: str) -> str:
    """Of an error of Paddle's, which may have a stack in front of it, what was said."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("---")]
    return next((line for line in lines if line.startswith("(")), lines[-1] if lines else "")


SCRIPT = '''\
"""phi::{kernel} in {dtype} on '{device}' against the CPU{place}."""
import base64, tempfile, zlib  # noqa: E401
from pathlib import Path

import hardpoint
import hardpoint.paddle
from hardpoint.toolbox import phi_replaying

hardpoint.paddle.mount()
saved = Path(tempfile.mkdtemp()) / "saved.call"
saved.write_bytes({source})
with hardpoint.compare("stop"):
    phi_replaying.call(phi_replaying.load(saved), "{device}")
'''


def script(path: Path, device: str) -> str:
    """A program for a bug report: it makes the call on both sides, and fails where they differ.

    The inputs are part of it where they are small enough; otherwise it reads them from the file.
    """
    content = load(path)
    packed = base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode()
    embedded = f'zlib.decompress(base64.b64decode("{packed}"))'
    return SCRIPT.format(
        kernel=content["kernel"],
        dtype=content["dtype"],
        device=device,
        place=f", called at {content['place']}" if content["place"] else "",
        source=embedded if len(packed) <= MAX_EMBEDDED else f"Path({str(path)!r}).read_bytes()",
    )
