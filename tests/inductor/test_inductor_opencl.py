"""``torch.compile`` with no other argument on an OpenCL device, against eager mode on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins"))
from opencl_driver import needs_opencl


@needs_opencl
@pytest.mark.slow
def test_training_on_opencl(run_python, tmp_path):
    done = run_python(
        """
        import torch
        import torch.nn.functional as F
        from torch import nn
        import hardpoint

        def losses(device, compiled):
            torch.manual_seed(1)
            net = nn.Sequential(nn.Linear(40, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 10)).to(device)
            x, labels = torch.randn(16, 40).to(device), torch.randint(0, 10, (16,)).to(device)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            model, found = torch.compile(net) if compiled else net, []
            for _ in range(3):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), labels)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return torch.tensor(found)

        torch.testing.assert_close(losses("ocl", True), losses("cpu", False), rtol=1e-4, atol=1e-4)
        counters = hardpoint.counters()
        assert not [name for name, tiers in counters.items() if "cpu" in tiers], counters
        print(sum(name.startswith("triton::") for name in counters), "Triton kernels")
        """,
        HARDPOINT_DEVICE="ocl",
        TORCHINDUCTOR_COMPILE_THREADS="1",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"),
        timeout=280,
    )
    assert int(done.stdout.split()[-3]) >= 3
    assert 'backend="hardpoint"' not in done.stderr
