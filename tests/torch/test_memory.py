"""The caching allocator: statistics, limits, out of memory, and pinned host memory."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

MIB = 1 << 20


@pytest.fixture
def clean():
    """Empty the cache and reset the peaks."""
    gc.collect()
    torch.sim.empty_cache()
    for index in range(torch.sim.device_count()):
        torch.sim.reset_peak_memory_stats(index)
        torch.sim.reset_accumulated_memory_stats(index)
    return torch.sim.memory_allocated(0)


# ---- Statistics

POOLED = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)


def test_statistics_have_cudas_keys():
    stats = torch.sim.memory_stats()
    expected = {
        f"{name}.{pool}.{field}"
        for name in POOLED
        for pool in ("all", "small_pool", "large_pool")
        for field in ("current", "peak", "allocated", "freed")
    } | {"num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"}
    assert expected <= set(stats)
    assert all(isinstance(stats[key], int) and stats[key] >= 0 for key in expected)


@pytest.mark.parametrize(
    ("elements", "pool"), [(100, "small_pool"), (100_000, "small_pool"), (MIB, "large_pool"), (8 * MIB, "large_pool")]
)
def test_one_allocation(clean, elements, pool):
    x = torch.empty(elements, device="sim")
    stats = torch.sim.memory_stats()
    requested = 4 * elements
    for where in ("all", pool):
        assert stats[f"requested_bytes.{where}.allocated"] == requested
        assert stats[f"allocation.{where}.allocated"] == 1
        assert requested <= stats[f"allocated_bytes.{where}.allocated"] < requested + 4 * MIB
    assert torch.sim.memory_allocated() - clean >= requested
    assert torch.sim.memory_reserved() >= torch.sim.memory_allocated()
    del x
    assert torch.sim.memory_allocated() == clean
    assert torch.sim.memory_stats()["allocation.all.freed"] == 1


def test_peak_and_reset(clean):
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="sim")
    # A reused block may be a little larger than requested.
    held = torch.sim.memory_allocated()
    assert held - clean >= 4 * MIB
    del x
    assert torch.sim.memory_allocated() == clean
    assert torch.sim.max_memory_allocated() == held
    assert torch.sim.max_memory_reserved() >= 4 * MIB
    torch.sim.reset_peak_memory_stats()
    assert torch.sim.max_memory_allocated() == clean


def test_accumulated_and_reset(clean):
    for _ in range(5):
        torch.empty(1000, device="sim")
    assert torch.sim.memory_stats()["allocation.all.allocated"] == 5
    torch.sim.reset_accumulated_memory_stats()
    assert torch.sim.memory_stats()["allocation.all.allocated"] == 0


def test_devices_count_apart(clean):
    before = torch.sim.memory_allocated(1)
    x = torch.empty(2 * MIB, dtype=torch.uint8, device="sim:1")
    assert torch.sim.memory_allocated(0) == clean
    assert torch.sim.memory_allocated("sim:1") == before + 2 * MIB
    assert torch.accelerator.memory_allocated(1) == before + 2 * MIB
    del x
    assert torch.sim.memory_allocated(1) == before


@pytest.mark.parametrize("empty_cache", [torch.sim.empty_cache, torch.accelerator.empty_cache])
def test_empty_cache(clean, empty_cache):
    size = 64 * MIB  # larger than the free part of a segment that tensors of other tests keep
    free_before = torch.sim.mem_get_info()[0]
    x = torch.empty(size, dtype=torch.uint8, device="sim")
    reserved = torch.sim.memory_reserved()
    assert torch.sim.mem_get_info()[0] == free_before - size
    del x
    assert torch.sim.memory_reserved() == reserved
    empty_cache()
    assert torch.sim.memory_reserved() == reserved - size
    assert torch.sim.mem_get_info()[0] == free_before


def test_memory_is_reused_from_the_cache(clean):
    torch.empty(16 * MIB, dtype=torch.uint8, device="sim")
    asked = torch.sim.memory_stats()["num_device_alloc"]
    for _ in range(10):
        torch.empty(16 * MIB, dtype=torch.uint8, device="sim")
    assert torch.sim.memory_stats()["num_device_alloc"] == asked


def test_memory_info():
    free, total = torch.sim.mem_get_info()
    assert 0 < free <= total == torch.sim.get_device_properties().total_memory
    assert torch.accelerator.get_memory_info() == (free, total)


def test_empty_tensors_need_no_memory(clean):
    tensors = [torch.empty(0, device="sim"), torch.empty(3, 0, device="sim:1")]
    assert torch.sim.memory_allocated() == clean
    assert [t.data_ptr() for t in tensors] == [0, 0]


def test_snapshot(clean):
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="sim")
    snapshot = torch.sim.memory_snapshot()
    blocks = [
        (segment, block)
        for segment in snapshot
        for block in segment["blocks"]
        if block["address"] <= x.data_ptr() < block["address"] + block["size"]
    ]
    ((segment, block),) = blocks
    assert segment["device"] == 0
    assert segment["segment_type"] == "large"
    assert block["state"] == "active_allocated"
    assert block["requested_size"] == 3 * MIB <= block["size"]
    for each in snapshot:
        assert sum(b["size"] for b in each["blocks"]) == each["total_size"]
        assert each["allocated_size"] <= each["active_size"] <= each["total_size"]
    total = sum(each["total_size"] for each in snapshot)
    assert total == torch.sim.memory_reserved(0) + torch.sim.memory_reserved(1)


# ---- Limits


def test_memory_fraction():
    total = torch.sim.mem_get_info()[1]
    torch.sim.empty_cache()
    # Earlier tests may hold memory, in either framework.
    torch.sim.set_per_process_memory_fraction((torch.sim.memory_reserved() + 64 * MIB) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="memory fraction"):
            torch.empty(65 * MIB, dtype=torch.uint8, device="sim")
        kept = torch.empty(16 * MIB, dtype=torch.uint8, device="sim")
        assert kept.fill_(3)[-1].item() == 3
        torch.empty(65 * MIB, dtype=torch.uint8, device="sim:1")
    finally:
        torch.sim.set_per_process_memory_fraction(1.0)
    assert torch.empty(65 * MIB, dtype=torch.uint8, device="sim").numel() == 65 * MIB
    torch.sim.empty_cache()


@pytest.mark.parametrize("fraction", [0, -1, 1.5, float("nan")])
def test_wrong_memory_fraction(fraction):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        torch.sim.set_per_process_memory_fraction(fraction)


def test_out_of_memory(run_python):
    """The error is torch's type and contains the numbers; the program continues."""
    run_python(
        """
        import re, torch
        kept = torch.ones(40 << 20, dtype=torch.uint8, device="sim")
        torch.empty(8 << 20, dtype=torch.uint8, device="sim")  # 8 MiB stay in the cache
        try:
            torch.empty(50 << 20, dtype=torch.uint8, device="sim")
        except torch.OutOfMemoryError as error:
            message = str(error)
        assert isinstance(torch.OutOfMemoryError("x"), RuntimeError)
        assert f"tried to allocate {50 << 20} bytes" in message, message
        assert "(50.00 MiB)" in message, message
        assert "free of 64.00 MiB in total" in message, message
        assert re.search(r"40.00 MiB allocated and .* cached", message), message
        assert "largest free cached block" in message, message
        assert "sim:0" in message
        stats = torch.sim.memory_stats()
        assert stats["num_ooms"] == 1 and stats["num_alloc_retries"] >= 1, stats

        assert kept.sum().item() == 40 << 20
        assert torch.full((1 << 20,), 5, dtype=torch.uint8, device="sim")[-1].item() == 5
        assert torch.empty(50 << 20, dtype=torch.uint8, device="sim:1").numel() == 50 << 20
        del kept
        again = torch.zeros(50 << 20, dtype=torch.uint8, device="sim")
        assert again.max().item() == 0
        """,
        HARDPOINT_SIM_MEMORY="64M",
    )


def test_cache_is_freed_before_giving_up(run_python):
    run_python(
        """
        import torch
        blocks = [torch.empty(10 << 20, dtype=torch.uint8, device="sim") for _ in range(5)]
        del blocks
        assert torch.sim.memory_reserved() >= 50 << 20
        big = torch.empty(55 << 20, dtype=torch.uint8, device="sim")
        assert big.fill_(9)[0].item() == 9
        assert torch.sim.memory_stats()["num_alloc_retries"] == 1
        assert torch.sim.memory_stats()["num_ooms"] == 0
        """,
        HARDPOINT_SIM_MEMORY="64M",
    )


def test_request_beyond_any_memory():
    with pytest.raises((torch.OutOfMemoryError, RuntimeError), match=r"tried to allocate|overflow"):
        torch.empty(1 << 60, device="sim")
    assert torch.ones(2, device="sim").tolist() == [1, 1]


# ---- Pinned host memory


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(10.0).pin_memory(),
        lambda: torch.empty(10, pin_memory=True).copy_(torch.arange(10.0)),
        lambda: torch.arange(20.0).pin_memory()[::2].div(2).pin_memory(),
        lambda: torch.arange(10.0).to("sim").cpu().pin_memory("sim"),
    ],
)
@pytest.mark.filterwarnings("ignore:The argument 'device' of Tensor.pin_memory:DeprecationWarning")
def test_pinned(make):
    pinned = make()
    assert pinned.is_pinned()
    assert pinned.device.type == "cpu"
    assert pinned.tolist() == list(range(10))
    assert pinned[3:].is_pinned()
    assert not pinned.clone().is_pinned()
    assert pinned.pin_memory().data_ptr() == pinned.data_ptr()


def test_pinned_storage():
    device = ["sim"] if torch.__version__ < "2.13" else []  # the default was "cuda"
    storage = torch.arange(5, dtype=torch.uint8).untyped_storage().pin_memory(*device)
    assert storage.is_pinned(*device)
    assert storage.tolist() == [0, 1, 2, 3, 4]
    assert not torch.arange(5).untyped_storage().is_pinned(*device)


def test_device_tensors_cannot_be_pinned():
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="sim").pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device="sim", pin_memory=True)
    assert not torch.ones(2, device="sim").is_pinned()


def test_empty_pinned():
    assert torch.empty(0).pin_memory().numel() == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers):
    data = TensorDataset(torch.arange(24.0).reshape(12, 2), torch.arange(12))
    loader = DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned()
        assert y.is_pinned()
        moved = x.to("sim", non_blocking=True)
        assert (moved * 2).sum(1).tolist() == (x * 2).sum(1).tolist()
        seen += y.to("sim", non_blocking=True).tolist()
    assert seen == list(range(12))
