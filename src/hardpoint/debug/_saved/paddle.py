"""Saved calls of Paddle: an archive of ``call.json`` and the bytes of each input."""

from __future__ import annotations

import contextlib
import itertools
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hardpoint.debug._calls.base import Report
from hardpoint.debug._calls.paddle import PaddleCall
from hardpoint.debug._calls.paddle_tensor import HostTensor, NativeTensor, Nested, map_tensors, tensors
from hardpoint.debug._saved.base import VERSION, SavedCall, check_format, origin
from hardpoint.debug.fallback import fallback

FORMAT = "hardpoint call of Paddle"


def save(path: Path, call: PaddleCall, inputs: Nested, outputs: Nested, report: Report) -> Path:
    """Write a call. ``inputs`` are on the host; ``outputs`` are those from before the call."""
    import paddle

    flat = list(tensors(inputs))
    numbers = itertools.count()
    addresses = [tensor.data_ptr for tensor in tensors(call.inputs)]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "paddle": paddle.__version__,
        "kernel": call.kernel_name,
        "dtype": call.dtype,
        "inputs": map_tensors(lambda _: next(numbers), inputs),
        "tensors": [[tensor.dtype, tensor.sizes, tensor.strides] for tensor in flat],
        "attributes": [{"complex": [a.real, a.imag]} if isinstance(a, complex) else a for a in call.attributes],
        "outputs": map_tensors(lambda tensor: _encode_output(tensor, addresses), outputs),
        **origin(report),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("call.json", json.dumps(content))
        for position, tensor in enumerate(flat):
            archive.writestr(f"{position}", tensor.data)
    return path


def _encode_output(tensor: NativeTensor, addresses: list[int]) -> Any:
    """An output before the call: the index of the input that it aliases, or dtype and sizes."""
    if tensor.has_memory and tensor.data_ptr in addresses:
        return addresses.index(tensor.data_ptr)
    return [tensor.dtype, tensor.sizes]


def _decode_output(output: Any) -> Any:
    if isinstance(output, list):
        # Either a list of outputs, or dtype and sizes of one.
        return tuple(output) if output and isinstance(output[0], str) else [_decode_output(each) for each in output]
    return output


def is_paddle_call(path: Path) -> bool:
    """Whether a file is a saved call of Paddle, of any version."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "call.json" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _load(path: Path) -> Report:
    try:
        with zipfile.ZipFile(path) as archive:
            content: Report = json.loads(archive.read("call.json"))
            check_format(path, content, FORMAT)
            host_tensors = [
                HostTensor(dtype, sizes, strides, archive.read(str(i)))
                for i, (dtype, sizes, strides) in enumerate(content["tensors"])
            ]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError):
        raise ValueError(f"{path} is not a saved call") from None
    content["inputs"] = map_tensors(lambda index: tuple(host_tensors[index]), content["inputs"])
    content["attributes"] = [complex(*a["complex"]) if isinstance(a, dict) else a for a in content["attributes"]]
    content["outputs"] = [_decode_output(each) for each in content["outputs"]]
    return content


class PaddleSavedCall(SavedCall):
    """A saved call of a Phi kernel. Raises ``ValueError`` if the file cannot be used.

    Times include copies: inputs to the device, and back to the host for the CPU kernel.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _load(path))
        self.name = f"phi::{self.content['kernel']}"

    def default_device(self) -> str:
        import hardpoint.paddle

        return hardpoint.paddle.mount()

    def check_device(self, device: str) -> None:
        from hardpoint import _runtime

        self.default_device()
        known = ["cpu", *(name for each in _runtime.devices() for name in (each.plugin, str(each)))]
        if device not in known:
            raise ValueError(f"there is no device '{device}'; expected {', '.join(known)}")

    def prepare(self, device: str) -> Callable[[], object]:
        import paddle

        from hardpoint.paddle import _adapter

        adapter = _adapter.load()
        fields = ("inputs", "attributes", "outputs")
        arguments = (self.content["kernel"], self.content["dtype"], device, *(self.content[field] for field in fields))

        def run() -> None:
            adapter.call_kernel(*arguments)
            paddle.device.synchronize(device)

        return run

    @contextlib.contextmanager
    def on_cpu(self, device: str) -> Iterator[Callable[[], object]]:
        run = self.prepare(device)
        with fallback(f"{self.name}=cpu"):
            yield run

    def error_message(self, error: Exception) -> str:
        """Paddle's message without the stack trace that may precede it."""
        lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("---")]
        return next((line for line in lines if line.startswith("(")), lines[-1] if lines else "")

    def script(self, device: str) -> str:
        return SCRIPT.format(
            kernel=self.content["kernel"],
            dtype=self.content["dtype"],
            device=device,
            location=self.called_at(),
            source=self.embedded() or f"Path({str(self.path)!r}).read_bytes()",
        )


SCRIPT = '''\
"""phi::{kernel} in {dtype} on '{device}' against the CPU{location}."""
import base64, tempfile, zlib  # noqa: E401
from pathlib import Path

import hardpoint
import hardpoint.paddle
from hardpoint.debug.replay import load

hardpoint.paddle.mount()
file = Path(tempfile.mkdtemp()) / "saved.call"
file.write_bytes({source})
with hardpoint.compare("stop"):
    load(file).prepare("{device}")()
'''
