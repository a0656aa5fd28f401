"""The plug-in for NVIDIA devices from end to end, where a fake driver and compiler stand for NVIDIA's.

What it cannot show: speed, and anything that NVIDIA's own libraries do.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
COMPILER = shutil.which("g++")
Run = Callable[..., CompletedProcess[str]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(COMPILER is None, reason="no g++ on this machine"),
    pytest.mark.skipif("f16c" not in Path("/proc/cpuinfo").read_text(), reason="a processor without f16c"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the fake libraries."""
    made = tmp_path_factory.mktemp("cuda")
    (made / "blas").mkdir()
    sources = {"libcuda.so.1": "fake_cuda.cpp", "libnvrtc.so.13": "fake_cuda.cpp", "libcudnn.so.9": "fake_cudnn.cpp"}
    sources["blas/libcublasLt.so.13"] = "fake_cublaslt.cpp"
    for name, source in sources.items():
        command = [str(COMPILER), "-std=c++17", "-O1", "-shared", "-fPIC", str(HERE / source), "-o", name]
        subprocess.run([*command, "-ldl"], check=True, cwd=made, timeout=120)
    return made


@pytest.fixture
def on_nv(folder: Path, run_python: Run) -> Run:
    def run(program: str, **settings: str) -> CompletedProcess[str]:
        return run_python(
            program,
            timeout=380,
            **{
                "HARDPOINT_DEVICE": "nv",
                "HARDPOINT_CUDA_PATH": str(folder),
                "HARDPOINT_CACHE": str(folder / "cache"),
                "FAKE_CUDA_HEADER": str(HERE / "cuda_on_host.h"),
                **settings,
            },
        )

    return run


def test_training(on_nv: Run) -> None:
    """Kernels of many work-items through the driver's own launches; a list longer than one launch takes."""
    on_nv(
        """
        import torch
        import hardpoint
        from torch import nn

        def train(device):
            torch.manual_seed(0)
            layers = [nn.Linear(6, 6, bias=k % 2 == 0) for k in range(24)]
            net = nn.Sequential(nn.Linear(9, 6), *layers, nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 5)).to(device)
            x, y = torch.randn(8, 9).to(device), torch.randint(5, (8,)).to(device)
            update = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
            losses = []
            for _ in range(3):
                update.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                update.step()
                losses.append(loss.item())
            return torch.tensor(losses), [p.detach().cpu() for p in net.parameters()]

        right, theirs = train("cpu")
        losses, ours = train("nv")
        assert right[-1] < right[0]
        torch.testing.assert_close(losses, right, rtol=1e-4, atol=1e-5)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        assert not [op for op, tiers in hardpoint.counters().items() if tiers.get("cpu")]
        """
    )


def test_graphs(on_nv: Run, tmp_path: Path) -> None:
    """A training step as CUDA graphs: the losses of eager mode. Dropout's launch divides the step into two graphs."""
    log = tmp_path / "graphs.log"
    on_nv(
        f"""
        import sys
        sys.path.insert(0, {str(FIXTURES)!r})
        import torch
        import hardpoint
        from graph_training import train

        eager, replayed = train("nv", False), train("nv", True)
        assert replayed == eager, (replayed, eager)
        assert len(set(eager)) == 4
        x = torch.ones(4, device="nv")
        graph = torch.nv.Graph()
        try:
            with torch.nv.graph(graph):
                (x + 1).sum().item()
        except RuntimeError as error:
            assert "aten::_local_scalar_dense" in str(error)
        else:
            raise AssertionError("not refused")
        assert (x + 1).sum().item() == 8
        """,
        FAKE_CUDA_GRAPH_LOG=str(log),
    )
    sizes = [int(line) for line in log.read_text().split()]
    assert len(sizes) == 6  # two graphs, three replays
    assert sizes[:2] * 3 == sizes
    assert min(sizes) >= 2


def test_flash_attention(on_nv: Run) -> None:
    """The plug-in's own kernels, against the portable ones: both draw the same numbers for dropout."""
    on_nv(
        """
        import torch
        import hardpoint
        import hardpoint.devices.cuda
        from torch.nn.functional import scaled_dot_product_attention as attention

        def run(flash, shape, **options):
            before = hardpoint.devices.cuda.allow_flash(flash)
            torch.manual_seed(1)
            batch, heads, key_heads, queries, keys, dim = shape
            q, g = (torch.randn(batch, heads, queries, dim).bfloat16() for _ in range(2))
            k, v = (torch.randn(batch, keys, key_heads, dim).bfloat16().to("nv").transpose(1, 2) for _ in range(2))
            inputs = [t.detach().requires_grad_() for t in (q.to("nv"), k, v)]
            assert inputs[1].is_contiguous() is (key_heads == 1)
            hardpoint.reset_counters()
            out = attention(*inputs, enable_gqa=heads != key_heads, **options)
            grads = torch.autograd.grad(out, inputs, g.to("nv"))
            tiers = [t for op, t in hardpoint.counters().items() if "fused_attention_overrideable" in op]
            assert len(tiers) == 2
            assert all(("vendor" in t) is flash for t in tiers), tiers
            hardpoint.devices.cuda.allow_flash(before)
            return [t.detach().float().cpu() for t in (out, *grads)]

        assert hardpoint.devices.cuda.allow_flash()  # from the start
        for shape, options in [
            ((1, 4, 2, 70, 40, 64), {"dropout_p": 0.3}),
            ((2, 1, 1, 30, 70, 24), {"is_causal": True, "dropout_p": 0.2}),
            ((1, 1, 1, 20, 33, 72), {}),
        ]:
            for a, b in zip(run(True, shape, **options), run(False, shape, **options), strict=True):
                assert a.abs().max() > 0.1
                torch.testing.assert_close(a, b, rtol=4e-2, atol=4e-2)
        """
    )


def test_attention_by_products(on_nv: Run, folder: Path) -> None:
    """What flash attention does not take goes through cuBLASLt, from copies where tensors are not contiguous."""
    on_nv(
        """
        import torch
        import hardpoint
        from torch.nn.functional import scaled_dot_product_attention as attention

        def run(device, dtype, shape, masked, apart):
            torch.manual_seed(1)
            batch, heads, key_heads, queries, keys, dim = shape
            q, g = (torch.randn(batch, queries, heads, dim).to(device, dtype).transpose(1, 2) for _ in range(2))
            k, v = torch.randn(batch, keys, 2, key_heads, dim + apart).to(device, dtype).transpose(1, 3).unbind(2)
            inputs = [t.detach().requires_grad_() for t in (q, k[..., :dim], v[..., :dim])]
            mask = torch.randn(queries, keys).to(device, dtype) if masked else None
            out = attention(*inputs, mask, is_causal=not masked, enable_gqa=heads != key_heads)
            grads = torch.autograd.grad(out, inputs, g)
            return [t.detach().float().cpu() for t in (out, *grads)]

        for dtype, shape, masked, apart, close in [
            (torch.float32, (2, 4, 2, 20, 33, 16), True, 0, 1e-4),
            (torch.float32, (2, 3, 3, 33, 20, 8), False, 3, 1e-4),
            (torch.bfloat16, (2, 2, 2, 20, 40, 16), False, 1, 4e-2),
        ]:
            hardpoint.reset_counters()
            ours = run("nv", dtype, shape, masked, apart)
            tiers = [t for op, t in hardpoint.counters().items() if "fused_attention_overrideable" in op]
            assert len(tiers) == 2
            assert all("vendor" in t for t in tiers), tiers
            for a, b in zip(ours, run("cpu", torch.float32, shape, masked, apart), strict=True):
                assert a.abs().max() > 0.1
                torch.testing.assert_close(a, b, rtol=close, atol=close)
        """,
        HARDPOINT_CUDA_PATH=f"{folder}:{folder / 'blas'}",
    )


def test_flash_attention_can_be_off(on_nv: Run) -> None:
    on_nv(
        """
        import torch
        import hardpoint.devices.cuda

        torch.empty(1, device="nv")
        assert not hardpoint.devices.cuda.allow_flash(False)
        """,
        HARDPOINT_FLASH="0",
    )


def test_graph_mode(on_nv: Run) -> None:
    on_nv(
        """
        import torch
        from torch import nn

        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(9, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5), nn.Softmax(-1))
        x = torch.randn(7, 9)
        right = net(x)
        (right * right).sum().backward()
        wanted = [p.grad for p in net.parameters()]
        net.zero_grad()
        twin = torch.compile(net.to("nv"), backend="hardpoint")
        for _ in range(3):
            net.zero_grad()
            out = twin(x.to("nv"))
            (out * out).sum().backward()
            torch.testing.assert_close(out.detach().cpu(), right.detach(), rtol=1e-4, atol=1e-5)
        for p, grad in zip(net.parameters(), wanted, strict=True):
            torch.testing.assert_close(p.grad.cpu(), grad, rtol=1e-3, atol=1e-5)
        """
    )


def test_convolution(on_nv: Run) -> None:
    """Through cuDNN's functions, in the algorithm that is the fastest once its kernels are loaded."""
    on_nv(
        """
        import torch
        import hardpoint
        from torch.nn import functional as f

        def run(device, transposed):
            torch.manual_seed(0)
            x, w = torch.randn(2, 4, 9, 8), torch.randn(4, 2, 3, 2) if transposed else torch.randn(6, 2, 3, 2)
            b = torch.randn(4 if transposed else 6)
            given = [t.to(device).requires_grad_() for t in (x, w, b)]
            convolve = f.conv_transpose2d if transposed else f.conv2d
            y = convolve(*given, stride=(2, 1), padding=(1, 0), groups=2)
            grads = torch.autograd.grad((y * y).sum(), given)
            return [t.detach().cpu() for t in (y, *grads)]

        for transposed in (False, True):
            for ours, right in zip(run("nv", transposed), run("cpu", transposed), strict=True):
                torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-4)
        tiers = [t for op, t in hardpoint.counters().items() if "convolution" in op]
        assert tiers
        assert all(set(t) <= {"vendor", "portable"} and "vendor" in t for t in tiers), tiers  # a sum for the bias
        """
    )


def test_channels_last(on_nv: Run) -> None:
    """Passed to cuDNN as it is; other operands are converted, and a call that cuDNN declines comes again contiguous."""
    on_nv(
        """
        import torch
        import hardpoint
        from torch.nn import functional as f

        LAST, FIRST = torch.channels_last, torch.contiguous_format

        def run(device, transposed, formats, dilation, bias):
            torch.manual_seed(0)
            x, w = torch.randn(2, 4, 9, 8), torch.randn(4, 2, 3, 2) if transposed else torch.randn(6, 2, 3, 2)
            given = [x.contiguous(memory_format=formats[0]), w.contiguous(memory_format=formats[1])]
            given += [torch.randn(4 if transposed else 6)] if bias else []
            given = [t.to(device).requires_grad_() for t in given]
            convolve = f.conv_transpose2d if transposed else f.conv2d
            y = convolve(*given, stride=(2, 1), padding=(1, 0), groups=2, dilation=dilation)
            return y, *torch.autograd.grad((y * y).sum(), given)

        for formats in ((LAST, LAST), (LAST, FIRST), (FIRST, LAST)):
            for transposed in (False, True):
                for dilation in (1, 2):
                    for bias in (True, False):
                        ours = run("nv", transposed, formats, dilation, bias)
                        right = run("cpu", transposed, formats, dilation, bias)
                        assert ours[0].is_contiguous(memory_format=LAST)
                        for a, b in zip(ours, right, strict=True):
                            torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-4)
        hardpoint.reset_counters()
        x = torch.randn(2, 4, 9, 8, device="nv").contiguous(memory_format=LAST)
        w = torch.randn(6, 4, 3, 2, device="nv").contiguous(memory_format=LAST)
        for dilation in (1, 2):
            f.conv2d(x, w, dilation=dilation)
        assert hardpoint.counters()["aten::convolution_overrideable"] == {"vendor": 2}
        """
    )


def test_triton(on_nv: Run) -> None:
    """Triton's own compiler makes a cubin. No GPU runs it here: a kernel of the same name replaces it."""
    pytest.importorskip("triton")
    on_nv(
        """
        import torch
        import triton
        import triton.language as tl
        import hardpoint
        import hardpoint_triton
        from hardpoint._runtime import core

        @triton.jit
        def scale(x, out, n, factor, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)

        source = '''extern "C" __global__ void scale(float* x, float* out, int n, float factor, char* scratch,
                                                     char* profile) {
            for (int k = threadIdx.x; k < 256; k += 128) {
                const int i = blockIdx.x * 256 + k;
                if (i < n && scratch == 0 && profile == 0) out[i] = x[i] * factor;
            }
        }'''
        loaded, load = [], core.load_kernel
        def load_kernel(runtime, index, binary, name):
            loaded.append((binary[:4], name))
            return load(runtime, index, core.compile(runtime, index, source, ""), name)
        core.load_kernel = load_kernel

        assert hardpoint_triton.device_name() == "nv"
        target = triton.runtime.driver.active.get_current_target()
        assert (target.backend, target.arch, target.warp_size) == ("nv", 90, 32)
        x, out = torch.randn(1000, device="nv"), torch.empty(1000, device="nv")
        kernel = scale[(4,)](x, out, 1000, 1.5, BLOCK=256, num_warps=4)
        assert torch.equal(out.cpu(), x.cpu() * 1.5)
        assert loaded == [(bytes([0x7F]) + b"ELF", "scale")]
        assert "ptx" in kernel.asm and (kernel.n_regs, kernel.n_max_threads) == (40, 512)
        assert hardpoint.counters()["triton::scale"] == {"portable": 1}
        scale[(0,)](x, out, 1000, 2.5, BLOCK=256, num_warps=4)  # an empty grid
        assert torch.equal(out.cpu(), x.cpu() * 1.5)

        graph = torch.nv.Graph()
        with torch.nv.graph(graph):
            scale[(4,)](x, out, 1000, 3.0, BLOCK=256, num_warps=4)
        x.copy_(torch.randn(1000))
        graph.replay()
        assert torch.equal(out.cpu(), x.cpu() * 3)
        try:
            scale[(4,)](x, out, 1000, 1.5, BLOCK=256, num_warps=32)
        except triton.runtime.errors.OutOfResources as error:
            assert "threads" in str(error)
        else:
            raise AssertionError("more threads than the kernel allows")
        """
    )


def test_memory_and_events(on_nv: Run) -> None:
    on_nv(
        """
        import pytest
        import torch

        x = torch.arange(1000.0, device="nv")
        kept = []
        with pytest.raises(torch.OutOfMemoryError):
            while True:
                kept.append(torch.empty(1 << 28, dtype=torch.uint8, device="nv"))
        assert len(kept) == 7
        kept.clear()
        assert torch.empty(3 << 28, dtype=torch.uint8, device="nv").numel() == 3 << 28
        assert torch.equal((x + 1).cpu(), torch.arange(1000.0) + 1)
        start, end = (torch.Event("nv", enable_timing=True) for _ in range(2))
        start.record()
        other = x.to("nv:1")
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) >= 0
        assert other.device.index == 1
        pinned = torch.arange(100.0).pin_memory()
        assert torch.equal(pinned.to("nv", non_blocking=True).cpu(), pinned)
        """
    )


def test_launch_options_and_properties(on_nv: Run) -> None:
    """Contract 1.2 on the driver: cuLaunchKernelEx, attributes, properties, links, fills, private functions."""
    on_nv(
        """
        import ctypes, os, struct
        import pytest, torch
        import hardpoint
        import hardpoint.devices.cuda as nv
        from hardpoint import _discovery
        from hardpoint._runtime import core

        found = torch.nv.get_device_properties(1)
        assert (found.pci_id, found.uuid) == ("0000:3C:00.0", "10111213-1415-1617-1819-1a1b1c1d1e1f")
        assert (found.warp_size, found.max_threads_per_block, found.regs_per_multiprocessor) == (32, 1024, 1 << 16)
        assert (found.shared_memory_per_block, found.shared_memory_per_block_optin) == (48 << 10, 227 << 10)
        assert (found.clock_rate, found.memory_clock_rate, found.memory_bus_width) == (1980000, 2619000, 5120)
        assert torch.bfloat16 in found.native_dtypes and found.L2_cache_size == 50 << 20
        assert torch.nv.can_device_access_peer(1, 0) and not torch.nv.can_device_access_peer(0, 1)

        plugin = _discovery.choose()
        assert plugin.loads("cubin") and plugin.loads("ptx") and not plugin.loads("spirv")
        source = 'extern "C" __global__ void scale(float* x, float by) {'
        source += ' int i = blockIdx.x * 32 + threadIdx.x; x[i] = x[i] * by; }'
        function = core.load_kernel("nv", 0, core.compile("nv", 0, source, ""), "scale")
        attributes = dict(registers=40, spilled_bytes=24, local_bytes=1536, max_group_size=512)
        assert core.function_attributes("nv", 0, function) == attributes

        x = torch.ones(512, device="nv")
        args = [(True, struct.pack("P", x.data_ptr())), (False, struct.pack("f", 3.0))]
        def launch(groups, local_bytes, cluster, flags):
            grid, block = (groups, 1, 1), (32, 1, 1)
            core.launch_with("nv", 0, "test::scale", function, grid, block, local_bytes, cluster, flags, args)
        driver = ctypes.CDLL(os.environ["HARDPOINT_CUDA_PATH"] + "/libcuda.so.1")
        launch(2, 0, (0, 0, 0), 0)
        assert driver.fakeLaunchAttributes() == 0
        launch(4, 60 << 10, (2, 0, 0), 3)  # more shared memory than every kernel has, a cluster, both flags
        assert driver.fakeLaunchAttributes() == 1 << 4 | 1 << 2 | 1 << 6
        launch(16, 100 << 10, (16, 1, 1), 0)  # a cluster that must be allowed
        launch(1, 50 << 10, (1, 1, 1), 0)  # the limit is not lowered
        expected = torch.ones(512)
        for groups in (2, 4, 16, 1):
            expected[: groups * 32] *= 3
        assert torch.equal(x.cpu(), expected)
        for wrong in ((1, 300 << 10, (0, 0, 0), 0), (3, 0, (2, 1, 1), 0)):
            with pytest.raises(RuntimeError, match="nv:0"):
                launch(*wrong)
        assert torch.equal(x.cpu(), expected)

        core.fill_memory("nv", 0, x.data_ptr() + 4, 0, 8)
        assert x[:4].tolist() == [27.0 * 3, 0, 0, 27.0 * 3]
        before = nv.allow_tf32(True)
        assert not before and nv.allow_tf32(False)
        """
    )
