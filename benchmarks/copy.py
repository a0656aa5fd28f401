"""Copy bandwidth of the simulated device against memcpy in the same run.

python benchmarks/copy.py
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder has a copy.py that would shadow the standard module

import ctypes
import time
from collections.abc import Callable

import torch

import hardpoint


def seconds(function: Callable[[], object]) -> float:
    """Best of several runs."""
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print a table: bandwidth of each kind of copy relative to memcpy."""
    device = hardpoint.mounted()[0]
    print(f"Copies to, from and on {device}, as a share of memcpy's bandwidth (GB/s) in the same run\n")
    print(
        f"{'MiB':>6}{'memcpy GB':>14}{'to device':>12}{'to host':>12}{'pinned to':>12}{'on device':>12}{'to peer':>12}"
    )
    for mib in (1, 16, 128):
        n = mib * 2**20
        host, other = torch.ones(n, dtype=torch.uint8), torch.zeros(n, dtype=torch.uint8)
        pinned = torch.ones(n, dtype=torch.uint8).pin_memory()
        on_device, second = host.to(device), torch.zeros(n, dtype=torch.uint8, device=device)
        peer = torch.zeros(n, dtype=torch.uint8, device=f"{device}:1") if torch.accelerator.device_count() > 1 else None

        def synchronized(copy: Callable[[], object]) -> Callable[[], object]:
            def run() -> None:
                copy()
                torch.accelerator.synchronize()

            return run

        yardstick = seconds(lambda: ctypes.memmove(other.data_ptr(), host.data_ptr(), n))  # noqa: B023
        ways: list[Callable[[], object]] = [
            lambda: on_device.copy_(host),  # noqa: B023
            lambda: other.copy_(on_device),  # noqa: B023
            lambda: on_device.copy_(pinned, non_blocking=True),  # noqa: B023
            lambda: second.copy_(on_device),  # noqa: B023
        ]
        if peer is not None:
            ways.append(lambda: peer.copy_(on_device))  # noqa: B023
        shares = [yardstick / seconds(synchronized(way)) for way in ways]
        print(f"{mib:6}{n / yardstick / 1e9:14.1f}" + "".join(f"{share:12.2f}" for share in shares))


if __name__ == "__main__":
    main()
