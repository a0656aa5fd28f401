"""Contract 1.2 on sim: properties, links, launches with options, fills, functions beside the contract."""

from __future__ import annotations

import ctypes
import struct

import pytest
import torch

from hardpoint import PluginError, _discovery
from hardpoint._runtime import core
from hardpoint.devices import private_function, sim

SOURCE = """
#include <stdint.h>
void scale(void *const *args, const uint32_t groups[3], uint64_t first, uint64_t last) {
  float *x = *(float **)args[0];
  for (uint64_t i = first; i < last; ++i) x[i] *= *(float *)args[1] + groups[1];
}
"""


def test_properties() -> None:
    first, second = (torch.sim.get_device_properties(i) for i in range(2))
    assert first.name == "Hardpoint simulated accelerator"
    assert first.uuid
    assert first.uuid != second.uuid
    assert first.max_allocation == first.total_memory > 0
    assert first.warp_size == first.max_threads_per_block == 1
    assert first.shared_memory_per_block == 1 << 18
    assert {torch.float32, torch.float64, torch.int64} <= set(first.native_dtypes)
    assert torch.bfloat16 not in first.native_dtypes
    assert first.multi_processor_count == first.compute_units > 0


def test_links() -> None:
    assert torch.sim.can_device_access_peer(0, 1)
    assert not torch.sim.can_device_access_peer(1, 1)
    with pytest.raises(RuntimeError, match="sim:9"):
        torch.sim.can_device_access_peer(0, 9)


def test_launch_options() -> None:
    function = core.load_kernel("sim", 0, core.compile("sim", 0, SOURCE, ""), "scale")
    assert core.function_attributes("sim", 0, function)["max_group_size"] == 1
    x = torch.ones(6, device="sim")
    args = [(True, struct.pack("P", x.data_ptr())), (False, struct.pack("f", 3.0))]

    def launch(local_bytes: int, cluster: tuple[int, int, int], flags: int) -> None:
        groups, group_size = (2, 3, 1), (1, 1, 1)
        core.launch_with("sim", 0, "test::scale", function, groups, group_size, local_bytes, cluster, flags, args)

    launch(0, (0, 0, 0), 0)
    assert x.tolist() == [6] * 6
    for wrong in ((64, (0, 0, 0), 0), (0, (2, 1, 1), 0), (0, (0, 0, 0), 1)):
        with pytest.raises(RuntimeError, match=r"test::scale.*sim"):
            launch(*wrong)
    launch(0, (1, 1, 1), 2)  # overlapping is allowed, not required
    assert x.tolist() == [36] * 6
    assert not _discovery.choose().loads("cubin")


def test_fill() -> None:
    x = torch.ones(1 << 20, dtype=torch.uint8, device="sim")
    core.fill_memory("sim", 0, x.data_ptr() + 1, 7, x.numel() - 2)
    torch.sim.synchronize()
    assert x[0].item() == x[-1].item() == 1
    assert torch.equal(x[1:-1].cpu(), torch.full((x.numel() - 2,), 7, dtype=torch.uint8))


def test_private_functions() -> None:
    function = private_function(sim.library(), "set_fault", ctypes.c_int, ctypes.c_char_p)
    assert function(b"no such fault") == -1
    assert function(b"") == 0
    with pytest.raises(PluginError, match="no private function 'clear'"):
        private_function(sim.library(), "clear", None)
