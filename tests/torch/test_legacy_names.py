"""Names of torch.cuda that programs expect on every device: storage classes, the memory summary, copy on write."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storage_types() -> None:
    x = torch.ones(3, device="sim")
    assert x.storage().type() == "torch.sim.FloatStorage"
    assert x.long().storage().type() == "torch.sim.LongStorage"
    assert isinstance(x.storage(), torch.sim.FloatStorage)
    assert not isinstance(x.storage(), torch.sim.LongStorage)
    assert not isinstance(x.cpu().storage(), torch.sim.FloatStorage)
    made = torch.sim.HalfStorage(4)
    assert made.device.type == "sim"
    assert (made.dtype, made.size()) == (torch.float16, 4)
    with pytest.raises(RuntimeError, match="Not available for sim storage"):
        torch.sim.FloatStorage.from_buffer(b"1234", "native")


def rows(summary: str) -> dict[str, list[str]]:
    """Name -> cells."""
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in summary.splitlines()]
    return {row[0]: row[1:] for row in cells if len(row) == 5}


def test_memory_summary() -> None:
    x = torch.ones(1 << 20, device="sim")
    found = rows(torch.sim.memory_summary())
    assert found["Metric"] == ["Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"]
    amount, unit = found["Allocated memory"][0].split()
    bytes_per_unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert int(amount) == torch.sim.memory_allocated() // bytes_per_unit
    assert torch.sim.memory_allocated() >= x.nbytes
    assert "from large pool" in found
    short = torch.sim.memory_summary("sim:0", abbreviated=True)
    assert "from large pool" not in rows(short)
    assert "sim memory summary, device ID 0" in short
    assert len({len(line) for line in short.splitlines()}) == 1


def test_lazy_clone_is_independent() -> None:
    x = torch.arange(4.0, device="sim")
    y = torch._lazy_clone(x)
    y.add_(1)
    x.mul_(2)
    assert x.tolist() == [0, 2, 4, 6]
    assert y.tolist() == [1, 2, 3, 4]


def test_unseeded_numbers_differ_between_processes(run_python) -> None:
    program = "import torch, hardpoint\nprint(torch.rand(8, device='sim').tolist())"
    assert run_python(program).stdout != run_python(program).stdout


def test_a_seed_set_before_mounting_counts(run_python) -> None:
    seeded = "import torch; torch.manual_seed(3); import hardpoint.torch; hardpoint.torch.mount()\n"
    program = f"{seeded}print(torch.rand(8, device='sim').tolist())"
    after = "import torch, hardpoint; torch.manual_seed(3)\nprint(torch.rand(8, device='sim').tolist())"
    without = {"HARDPOINT_DEVICE": None}
    assert run_python(program, **without).stdout == run_python(after).stdout
