"""Several processes with a device each: collectives, DataParallel and fleet, by the plug-in and through the host.

One launch runs many checks, since a rank takes seconds to start.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("rank_program.py")
#: HARDPOINT_COLLECTIVES -> how a group describes itself.
WAYS = {"": "by the plug-in", "host": "through the host"}

both_ways = pytest.mark.parametrize("way", WAYS, ids=["plugin", "host"])


@dataclass
class ExitedRank:
    """Exit code and output of one rank."""

    code: int
    said: str


def environment(way: str, timeout: float) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "PADDLE_", "FLAGS_"))}
    return {
        **kept,
        **{"HARDPOINT_DEVICE": "sim", "HARDPOINT_TIMEOUT": str(timeout), "HARDPOINT_COLLECTIVES": way},
        **{"GLOG_minloglevel": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "HARDPOINT_SIM_DEVICES": "4"},
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_ranks(
    what: str, seed: int, tmp_path: Path, *, size: int = 2, way: str = "", timeout: float = 60
) -> list[ExitedRank]:
    """Start the ranks as Paddle's launcher does, without its polling delays."""
    ports = [free_port() for _ in range(size + 1)]
    endpoints = [f"127.0.0.1:{port}" for port in ports[1:]]
    processes = []
    for rank in range(size):
        variables = {
            **environment(way, timeout),
            **{"PADDLE_MASTER": f"127.0.0.1:{ports[0]}", "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints)},
            **{"PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": str(size)},
            **{"PADDLE_CURRENT_ENDPOINT": endpoints[rank], "PADDLE_DISTRI_BACKEND": "xccl"},
            **{"PADDLE_XCCL_BACKEND": "sim", "FLAGS_selected_sims": str(rank)},
        }
        output = (tmp_path / f"rank{rank}.txt").open("w+")
        command = [sys.executable, str(PROGRAM), what, str(seed)]
        process = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=output, stderr=subprocess.STDOUT)
        processes.append((process, output))
    deadline = time.monotonic() + 150
    while any(process.poll() is None for process, _ in processes) and time.monotonic() < deadline:
        if any((process.returncode or 0) > 0 for process, _ in processes):
            deadline = min(deadline, time.monotonic() + 30)  # after a failure, the others get less time
        time.sleep(0.05)
    ended = []
    for process, output in processes:
        process.kill()
        process.wait()
        output.seek(0)
        ended.append(ExitedRank(process.returncode, output.read()))
        output.close()
    return ended


def check_all(ended: list[ExitedRank], line: str) -> None:
    """Assert that every rank succeeded and printed this line."""
    for rank, one in enumerate(ended):
        assert one.code == 0, f"rank {rank} ended with {one.code}:\n{one.said[-4000:]}"
        assert re.search(line, one.said), one.said


@both_ways
@pytest.mark.parametrize("size", [2, 4])
def test_collectives(way: str, size: int, seed: int, tmp_path: Path) -> None:
    ended = run_ranks("collectives", seed, tmp_path, size=size, way=way)
    check_all(ended, rf"\d+ cases {WAYS[way]}")


@both_ways
def test_data_parallel_equals_one_process(way: str, seed: int, tmp_path: Path) -> None:
    check_all(run_ranks("data_parallel", seed, tmp_path, way=way), f"trained on sim:[01] {WAYS[way]}")


@both_ways
def test_fleet_under_the_launcher(way: str, seed: int, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "paddle.distributed.launch", "--devices", "0,1", "--log_dir", str(tmp_path / "log")),
        *(str(PROGRAM), "fleet_data_parallel", str(seed)),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment(way, 60), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    for rank in range(2):
        assert f"trained on sim:{rank} {WAYS[way]}" in (tmp_path / "log" / f"workerlog.{rank}").read_text()


@pytest.mark.parametrize("kind", ["mp", "pp", "sharding"])
@both_ways
def test_hybrid_parallel(way: str, kind: str, seed: int, tmp_path: Path) -> None:
    check_all(run_ranks(f"hybrid:{kind}", seed, tmp_path, way=way), rf"{kind} \d")


def test_parallel_and_sharded_on_four_ranks(seed: int, tmp_path: Path) -> None:
    check_all(run_ranks("parallel_and_sharded", seed, tmp_path, size=4), r"(?s)mp \d.*os_g \d.*p_g_os \d")


@both_ways
@pytest.mark.parametrize("kind", ["killed", "late", "shape"])
def test_absent_rank_is_named(way: str, kind: str, seed: int, tmp_path: Path) -> None:
    ended = run_ranks(f"failure:{kind}", seed, tmp_path, way=way, timeout=6)
    first, last = ended
    assert first.code == 0, first.said[-4000:]
    found = re.search(r"after ([\d.]+) s: (.*)", first.said)
    assert found, first.said
    assert float(found[1]) < 10
    assert re.search("all_reduce.*rank 1", found[2]), found[2]
    if kind == "killed":
        assert last.code == -signal.SIGKILL
    else:
        assert last.code == 0, last.said[-4000:]
    if kind == "shape":
        assert re.search("all_reduce.*rank 0", last.said), last.said


def test_wrong_setting_is_rejected(seed: int, tmp_path: Path) -> None:
    ended = run_ranks("data_parallel", seed, tmp_path, way="nccl", timeout=10)
    assert ended[0].code != 0
    assert "HARDPOINT_COLLECTIVES is 'nccl'" in ended[0].said
