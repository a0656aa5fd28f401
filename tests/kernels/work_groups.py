"""Runs portable kernels with work-groups of many work-items on the host, one thread per work-item.

sim, the test device, has groups of one work-item. Here, as on a GPU, the threads of a group share local memory and
meet at barriers.
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

from hardpoint.kernels import generator

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")

FLAGS = ["-std=gnu11", "-O1", "-w", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"]

#: Definitions of the host dialect -> replacements for groups of many threads.
CHANGES = {
    "#define HP_GLOBAL\n#define HP_LOCAL\n": "#define HP_GLOBAL\n#define HP_LOCAL static\n",
    "#define hp_lid ((hp_i64)0)\n": "static _Thread_local hp_i64 work_item;\n#define hp_lid work_item\n",
    "#define hp_barrier() ((void)0)\n": (
        "static pthread_barrier_t group_barrier;\n#define hp_barrier() ((void)pthread_barrier_wait(&group_barrier))\n"
    ),
}
#: Driver: runs the groups one after another, each on all threads.
RUN = """
typedef struct { void* const* args; hp_u64 groups; hp_i64 item; } task;
static void* work(void* given) {
  const task* own = given;
  work_item = own->item;
  for (hp_u64 group = 0; group < own->groups; ++group) {
    ENTRY(own->args, 0, group, group + 1);
    hp_barrier();
  }
  return 0;
}
void run(void* const* args, hp_u64 groups) {
  pthread_t threads[HP_LSIZE];
  task tasks[HP_LSIZE];
  pthread_barrier_init(&group_barrier, 0, HP_LSIZE);
  for (int i = 0; i < HP_LSIZE; ++i) {
    tasks[i] = (task){args, groups, i};
    pthread_create(&threads[i], 0, work, &tasks[i]);
  }
  for (int i = 0; i < HP_LSIZE; ++i) pthread_join(threads[i], 0);
  pthread_barrier_destroy(&group_barrier);
}
"""


class Kernel:
    """A kernel compiled for a group size. ``elements`` is the number of elements per work-group."""

    def __init__(self, folder: Path, name: str, description: str, group_size: int) -> None:
        made = generator.generate(name, description, "c", group_size)
        assert made is not None
        text, entry, self.elements = made
        for before, after in CHANGES.items():
            assert text.count(before) == 1
            text = text.replace(before, after)
        own = Path(tempfile.mkdtemp(dir=folder))
        source, library = own / "kernel.c", own / "kernel.so"
        if "#define HP_LSIZE" not in text:  # pointwise kernels use a literal
            text += f"#define HP_LSIZE {group_size}\n"
        source.write_text("#include <pthread.h>\n" + text + RUN.replace("ENTRY", entry))
        assert COMPILER is not None
        subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(library), "-lm"], check=True, timeout=120)
        self.run = ctypes.CDLL(str(library)).run

    def __call__(self, groups: int, *args: Any) -> None:
        """Launch: tensors are passed by address, int as int64, float as float, lists as structs of int64."""
        packed = [_packed(arg) for arg in args]
        addresses = (ctypes.c_void_p * len(packed))(*(ctypes.addressof(p) for p in packed))
        self.run(addresses, ctypes.c_uint64(groups))

    def groups(self, elements: int) -> int:
        return -(-elements // self.elements)


def _packed(arg: Any) -> Any:
    if arg is None or isinstance(arg, torch.Tensor):
        return ctypes.c_void_p(None if arg is None else arg.data_ptr())
    if isinstance(arg, list):
        return integers(*arg)
    if isinstance(arg, float):
        return ctypes.c_float(arg)
    return ctypes.c_int64(arg) if isinstance(arg, int) else arg


def integers(*values: Any) -> Any:
    """Build a struct of int64 from ints and lists of ints."""
    flat = list(itertools.chain.from_iterable(v if isinstance(v, (list, tuple)) else [v] for v in values))
    return (ctypes.c_int64 * len(flat))(*flat)
