"""Several machines: network namespaces, each with an address and private shared memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from launcher import PROGRAMS

PORT = 29461


def command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


class Hosts:
    """Two hosts connected only to each other."""

    def __init__(self) -> None:
        self.names = [f"hardpoint{os.getpid()}_{i}" for i in range(2)]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def open(self) -> None:
        first, second = self.names
        for name in self.names:
            command("ip", "netns", "add", name)
        command("ip", "link", "add", "hpa", "netns", first, "type", "veth", "peer", "name", "hpa", "netns", second)
        for name, address in zip(self.names, self.addresses, strict=True):
            command("ip", "-n", name, "address", "add", f"{address}/24", "dev", "hpa")
            command("ip", "-n", name, "link", "set", "hpa", "up")
            command("ip", "-n", name, "link", "set", "lo", "up")

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def disconnect(self) -> None:
        command("ip", "-n", self.names[1], "link", "set", "hpa", "down")

    def start(self, host: int, *words: str) -> subprocess.Popen[str]:
        """Start a process on a host, with private shared memory as on another machine."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "TORCHELASTIC"))}
        environment |= {"HARDPOINT_DEVICE": "sim", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "hpa"}
        inside = ["ip", "netns", "exec", self.names[host], "unshare", "--mount", "sh", "-c"]
        inside += ['mount -t tmpfs none /dev/shm && exec "$@"', "sh", *words]
        return subprocess.Popen(
            inside, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip (Debian's iproute2)")
    try:
        made.open()
    except subprocess.CalledProcessError as error:
        made.close()
        pytest.skip(f"cannot create network namespaces: {error.stderr.strip()}")
    yield made
    made.close()


@pytest.mark.slow
def test_training_on_two_machines(hosts: Hosts, tmp_path: Path) -> None:
    """A process is killed and restarted; the weights match a single process that trains on all data."""
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    torchrun += ["--max-restarts=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={hosts.addresses[0]}:{PORT}"]
    program = [str(PROGRAMS / "elastic.py"), str(tmp_path), str(tmp_path / "weights.pt"), "kill"]
    started = []
    for i, address in enumerate(hosts.addresses):  # the hosts have no names that resolve to their addresses
        own = [f"--rdzv-conf=is_host={1 - i}", f"--local-addr={address}"]
        started.append(hosts.start(i, *torchrun, *own, *program))
    texts = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(texts)
    assert any("rank 0 began at step 4" in text for text in texts), texts
    alone = subprocess.run(
        [sys.executable, str(PROGRAMS / "single_process.py"), str(tmp_path / "alone.pt")],
        env=os.environ | {"HARDPOINT_DEVICE": "sim", "RANK": "0", "WORLD_SIZE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert alone.returncode == 0, alone.stderr
    found = torch.load(tmp_path / "weights.pt")
    for name, value in torch.load(tmp_path / "alone.pt").items():
        torch.testing.assert_close(found[name], value, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_disconnected_machine(hosts: Hosts) -> None:
    timeout = 6
    program = [sys.executable, "-W", "ignore", str(PROGRAMS / "connection_loss.py"), str(timeout)]
    variables = [f"MASTER_ADDR={hosts.addresses[0]}", f"MASTER_PORT={PORT}", "WORLD_SIZE=2", "LOCAL_RANK=0"]
    started = [hosts.start(i, "env", *variables, f"RANK={i}", *program) for i in range(2)]
    try:
        stdout = started[0].stdout
        assert stdout is not None
        text = ""
        while "ready" not in text:
            line = stdout.readline()
            assert line, text
            text += line
        hosts.disconnect()
        begin = time.monotonic()
        for rank, process in enumerate(started):
            text, _ = process.communicate(timeout=60)
            found = re.search(r"after ([\d.]+) s: (.*)", text, re.DOTALL)
            assert found is not None, text
            assert float(found[1]) < timeout + 4, text
            assert "all_reduce" in found[2]
            assert re.search(rf"\brank {1 - rank}\b", found[2], re.IGNORECASE), text
        assert time.monotonic() - begin < timeout + 30
    finally:
        for process in started:
            process.kill()
