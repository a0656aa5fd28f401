"""Portable kernels with groups of many work-items, as a GPU would run them: here each work-item is a thread.

The device of the tests has groups of one work-item. Here local memory is shared by the threads of a group, and a
barrier waits for all of them.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from hardpoint.kernels import source as kernel_source

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")

FLAGS = ["-std=gnu11", "-O1", "-w", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"]

#: What the dialect says of groups of one work-item, and what takes its place.
CHANGES = {
    "#define HP_GLOBAL\n#define HP_LOCAL\n": "#define HP_GLOBAL\n#define HP_LOCAL static\n",
    "#define hp_lid ((hp_i64)0)\n": "static _Thread_local hp_i64 work_item;\n#define hp_lid work_item\n",
    "#define hp_barrier() ((void)0)\n": (
        "static pthread_barrier_t everyone;\n#define hp_barrier() ((void)pthread_barrier_wait(&everyone))\n"
    ),
}
#: Runs the groups one after another, each by all threads.
RUN = """
typedef struct { void* const* args; hp_u64 groups; hp_i64 item; } share;
static void* work(void* given) {
  const share* mine = given;
  work_item = mine->item;
  for (hp_u64 group = 0; group < mine->groups; ++group) {
    ENTRY(mine->args, 0, group, group + 1);
    hp_barrier();
  }
  return 0;
}
void run(void* const* args, hp_u64 groups) {
  pthread_t threads[HP_LSIZE];
  share shares[HP_LSIZE];
  pthread_barrier_init(&everyone, 0, HP_LSIZE);
  for (int i = 0; i < HP_LSIZE; ++i) {
    shares[i] = (share){args, groups, i};
    pthread_create(&threads[i], 0, work, &shares[i]);
  }
  for (int i = 0; i < HP_LSIZE; ++i) pthread_join(threads[i], 0);
  pthread_barrier_destroy(&everyone);
}
"""


class Kernel:
    """One kernel for groups of a size; `elements` is how many of them a group takes."""

    def __init__(self, folder: Path, name: str, description: str, group_size: int) -> None:
        made = kernel_source.generate(name, description, "c", group_size)
        assert made is not None
        text, entry, self.elements = made
        for before, after in CHANGES.items():
            assert text.count(before) == 1
            text = text.replace(before, after)
        own = Path(tempfile.mkdtemp(dir=folder))
        source, library = own / "kernel.c", own / "kernel.so"
        if "#define HP_LSIZE" not in text:  # pointwise kernels have the number itself in their text
            text += f"#define HP_LSIZE {group_size}\n"
        source.write_text("#include <pthread.h>\n" + text + RUN.replace("ENTRY", entry))
        assert COMPILER is not None
        subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(library), "-lm"], check=True, timeout=120)
        self.run = ctypes.CDLL(str(library)).run

    def __call__(self, groups: int, *args: Any) -> None:
        """Tensors go by address, whole numbers as 64 bits, others as float, lists as structs of whole numbers."""
        held = [_held(arg) for arg in args]
        addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
        self.run(addresses, ctypes.c_uint64(groups))

    def groups(self, elements: int) -> int:
        return -(-elements // self.elements)


def _held(arg: Any) -> Any:
    if arg is None or isinstance(arg, torch.Tensor):
        return ctypes.c_void_p(None if arg is None else arg.data_ptr())
    if isinstance(arg, list):
        return integers(*arg)
    if isinstance(arg, float):
        return ctypes.c_float(arg)
    return ctypes.c_int64(arg) if isinstance(arg, int) else arg


def integers(*values: Any) -> Any:
    """A struct of whole numbers, from numbers and lists of them."""
    flat = list(itertools.chain.from_iterable(v if isinstance(v, (list, tuple)) else [v] for v in values))
    return (ctypes.c_int64 * len(flat))(*flat)
