"""Fork the ranks of a program from a process that has imported torch: ``ranks.py PROGRAM FOLDER RANKS ARGUMENT...``.

torch is imported without a device; each rank mounts its own and logs to a file in the folder. Prints the exit codes.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch
import torch.distributed.tensor
import torch.nn.parallel


def run_rank(rank: int, program: str, folder: str, ranks: str, *arguments: str) -> None:
    log = os.open(f"{folder}/{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": ranks, "TEST_STORE": f"{folder}/store"}
    torch._import_device_backends()
    sys.argv = [program, *arguments]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")


def main() -> None:
    processes = []
    for rank in range(int(sys.argv[3])):
        process = os.fork()
        if process == 0:
            return run_rank(rank, *sys.argv[1:])
        processes.append(process)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]))


main()
