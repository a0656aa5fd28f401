"""The least that a device needs to run everything: memory, copies and a compiler, and not one kernel of its own.

Memory is the host's, the compiler is the machine's C compiler, and a launch runs its groups one after another.
"""

import _ctypes
import ctypes
import hashlib
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from ctypes import c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from hardpoint.plugin import ALIGNMENT, DeviceError, LaunchArg, Plugin, Status

#: Products and sums are rounded one by one, as they are written, also where the processor has a fused instruction.
FLAGS = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-w"]
KERNEL = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_uint64)

libc = ctypes.CDLL(None)
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.aligned_alloc.restype = c_void_p
libc.free.argtypes = [c_void_p]


class Tiny(Plugin):
    name = "tiny"
    dialect = "c"
    group_size = 1
    local_memory = 1 << 20

    def __init__(self) -> None:
        self.compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc") or ""]
        self.handles = itertools.count(1)
        self.programs: dict[int, ctypes.CDLL] = {}
        self.functions: dict[int, Any] = {}

    def device_count(self) -> int:
        return 1

    # ---- Memory and copies: all is done when a method returns, so that there are no streams.

    def allocate(self, device: int, size: int) -> int:
        address = libc.aligned_alloc(ALIGNMENT, size + -size % ALIGNMENT)
        if not address:
            raise MemoryError(f"the host has no {size} bytes")
        return int(address)

    def free(self, device: int, address: int) -> None:
        libc.free(address)

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        ctypes.memmove(dst, src, size)

    copy_to_host = copy_on_device = copy_to_device

    # ---- The compiler

    def fingerprint(self, device: int) -> str:
        """Names a folder. Another compiler, another processor or other flags make other binaries."""
        if not self.compiler[0]:
            return "tiny-none"
        version = subprocess.run([*self.compiler, "--version"], capture_output=True, text=True, check=True).stdout
        text = "\n".join([version, platform.machine(), *self.compiler, *FLAGS])
        return f"tiny-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def compile(self, device: int, source: str, options: str) -> bytes:
        if not self.compiler[0]:
            raise NotImplementedError("neither cc nor gcc is on PATH")
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "kernel.so")
            command = [*self.compiler, *FLAGS, *shlex.split(options), "-x", "c", "-", "-o", str(library), "-lm"]
            done = subprocess.run(command, input=source, capture_output=True, text=True)
            if done.returncode:
                raise DeviceError(Status.ERROR, done.stderr[:2000])
            return library.read_bytes()

    def load(self, device: int, binary: bytes) -> int:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary)
            file.flush()
            program = next(self.handles)
            self.programs[program] = ctypes.CDLL(file.name)  # stays mapped when the file is gone
        return program

    def unload(self, device: int, program: int) -> None:
        _ctypes.dlclose(self.programs.pop(program)._handle)

    def find(self, device: int, program: int, name: str) -> int:
        function = next(self.handles)
        self.functions[function] = KERNEL((name, self.programs[program]))
        return function

    def launch(
        self,
        device: int,
        stream: int,
        function: int,
        groups: tuple[int, int, int],
        group_size: tuple[int, int, int],
        args: list[LaunchArg],
    ) -> None:
        addresses = (c_void_p * len(args))(*(arg.address for arg in args))
        x, y, z = groups
        self.functions[function](addresses, (c_uint32 * 3)(x, y, z), 0, x * y * z)
