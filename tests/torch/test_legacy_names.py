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


def shares_memory(*tensors: torch.Tensor) -> bool:
    return len({tensor.const_data_ptr() for tensor in tensors}) == 1


def test_lazy_clone_shares_memory_until_one_is_written() -> None:
    x = torch.arange(4.0, device="sim")
    y = torch._lazy_clone(x)
    assert torch._C._is_cow_tensor(x)
    assert torch._C._is_cow_tensor(y)
    assert (x + y).tolist() == [0, 2, 4, 6]  # reading does not copy
    assert shares_memory(x, y)
    y.add_(1)
    assert not torch._C._is_cow_tensor(y)
    assert not shares_memory(x, y)
    x.mul_(2)
    assert x.tolist() == [0, 2, 4, 6]
    assert y.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(7),
        lambda x: x.view(2, 2)[0].zero_(),  # through a view
        lambda x: x.copy_(torch.full((4,), 7.0)),
        lambda x: torch.exp(torch.ones(4, device="sim"), out=x),
        lambda x: torch._foreach_add_([torch.ones(4, device="sim"), x], 1),
        lambda x: x.uniform_(5, 6),
        lambda x: x.index_put_((torch.tensor([1], device="sim"),), torch.tensor(9.0, device="sim")),
        lambda x: torch.ops.aten._fused_sgd_.default(
            *([x], [torch.ones_like(x)], []),
            **{"weight_decay": 0, "momentum": 0, "lr": 1, "dampening": 0},
            **{"nesterov": False, "maximize": False, "is_first_step": False},
        ),
        lambda x: torch.linalg.inv(torch.eye(2, device="sim") * 4, out=x.view(2, 2)),  # in the CPU tier
    ],
    ids=["fill", "view", "copy", "out", "foreach", "random", "index_put", "optimizer", "cpu_tier"],
)
@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
def test_writes_to_a_lazy_clone_do_not_reach_the_original(write) -> None:
    for written in (0, 1):
        pair = [torch.arange(4.0, device="sim")]
        pair.append(torch._lazy_clone(pair[0]))
        write(pair[written])
        assert pair[1 - written].tolist() == [0, 1, 2, 3]
        assert pair[written].tolist() != [0, 1, 2, 3]


def test_running_statistics_that_are_lazy_clones() -> None:
    mean = torch.zeros(2, device="sim")
    clone = torch._lazy_clone(mean)
    x = torch.ones(3, 2, device="sim")
    torch.nn.functional.batch_norm(x, clone, torch.ones(2, device="sim"), training=True, momentum=0.5)
    assert mean.tolist() == [0, 0]
    assert clone.tolist() == [0.5, 0.5]


def test_memory_of_lazy_clones_is_released() -> None:
    before = torch.sim.memory_allocated()
    x = torch.ones(1 << 16, device="sim")
    size = torch.sim.memory_allocated() - before
    y = torch._lazy_clone(x)
    assert torch.sim.memory_allocated() - before == size
    y.record_stream(torch.sim.current_stream())
    y.add_(1)
    assert torch.sim.memory_allocated() - before == 2 * size
    x.add_(1)  # the last owner keeps the memory
    assert torch.sim.memory_allocated() - before == 2 * size
    del x, y
    assert torch.sim.memory_allocated() == before


def test_unseeded_numbers_differ_between_processes(run_python) -> None:
    program = "import torch, hardpoint\nprint(torch.rand(8, device='sim').tolist())"
    assert run_python(program, fresh=True).stdout != run_python(program, fresh=True).stdout


def test_a_seed_set_before_mounting_counts(run_python) -> None:
    seeded = "import torch; torch.manual_seed(3); import hardpoint.torch; hardpoint.torch.mount()\n"
    program = f"{seeded}print(torch.rand(8, device='sim').tolist())"
    after = "import torch, hardpoint; torch.manual_seed(3)\nprint(torch.rand(8, device='sim').tolist())"
    without = {"HARDPOINT_DEVICE": None}
    assert run_python(program, **without).stdout == run_python(after).stdout
