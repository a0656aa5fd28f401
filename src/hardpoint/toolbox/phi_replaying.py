"""Replay for Paddle: a call in one file, with its inputs; run again, compared, timed, and written as a script."""

from __future__ import annotations

import base64
import json
import statistics
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardpoint.toolbox.phi_calls import Saved, tensors

if TYPE_CHECKING:
    from hardpoint.toolbox.phi_trials import PhiTrial

FORMAT = "hardpoint call of Paddle"
VERSION = 1
#: Bytes of a file that still fit into a script.
MAX_EMBEDDED = 64 << 10
REPEATS = 20


def save(path: Path, trial: PhiTrial, report: dict[str, Any]) -> Path:
    """Write a call: an archive of what it was, as JSON, and of each input's bytes."""
    import paddle

    flat = list(tensors(trial.inputs))
    addresses = [seen.data_ptr for seen in tensors(trial.call.inputs)]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "paddle": paddle.__version__,
        "kernel": trial.call.bare_name,
        "dtype": trial.call.dtype,
        "inputs": _positions(trial.inputs, iter(range(len(flat)))),
        "tensors": [[saved.dtype, saved.sizes, saved.strides] for saved in flat],
        "attributes": [_plain(value) for value in trial.call.attributes],
        "outputs": [_output(each, addresses) for each in trial.outputs],
        "place": report.get("place", ""),
        "tier": report.get("tier", ""),
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
    from hardpoint.toolbox.collecting import Collect
    from hardpoint.toolbox.rules import fallback

    content = load(path)
    with Collect() as collected:
        call(content, device)
    spent = _microseconds(content, device)
    with fallback(f"phi::{content['kernel']}=cpu"):
        native = _microseconds(content, device)
    # Parts of the call only where they are wrong themselves.
    name = f"phi::{content['kernel']}"
    return [r for r in collected.reports if r["operator"] == name or r["verdict"] == "wrong"], spent, native


def _microseconds(content: dict[str, Any], device: str) -> float:
    import paddle

    times = []
    for _ in range(REPEATS + 1):  # the first may compile
        start = time.perf_counter()
        call(content, device)
        paddle.device.synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]) * 1e6


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
