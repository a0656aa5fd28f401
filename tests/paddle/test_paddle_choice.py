"""Device selection on Paddle: a program gets a device only if it requests one. Each test starts a process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

UNTOUCHED = """
import sys
assert paddle.device.get_all_custom_device_type() == []
assert paddle.device.get_device() == "cpu"
assert str((paddle.ones([2]) + 1).place) == "Place(cpu)"
"""

MOUNTED = """
import hardpoint
assert paddle.device.get_all_custom_device_type() == ["sim"], paddle.device.get_all_custom_device_type()
assert hardpoint.mounted() == ["sim"]
paddle.set_device("sim:1")
assert str((paddle.ones([2]) + 1).place) == "Place(sim:1)"
"""


def unexpected_lines(text: str) -> list[str]:
    """Lines other than Paddle's log and its warning about missing ccache."""
    said = re.sub(r".*UserWarning: No ccache.*\n.*warnings\.warn.*\n", "", text)
    return [line for line in said.splitlines() if not line.startswith("I")]


def adapter_lines(text: str) -> list[str]:
    """Lines from the Paddle adapter. Paddle imports tvm_ffi, which imports torch, which may warn too."""
    return [line for line in text.splitlines() if line.startswith("[hardpoint]")]


def test_no_device_requested(run_python):
    done = run_python(f"import paddle\n{UNTOUCHED}\nassert 'hardpoint' not in sys.modules", HARDPOINT_DEVICE=None)
    assert unexpected_lines(done.stderr) == []


def test_log_level_is_restored(run_python):
    done = run_python(
        """
        import ctypes, os, paddle
        level = ctypes.c_int.in_dll(ctypes.CDLL("libpaddle.so", mode=os.RTLD_NOLOAD), "_ZN3fLI17FLAGS_minloglevelE")
        print(level.value)
        """,
        HARDPOINT_DEVICE=None,
    )
    assert done.stdout.strip() == "0"


@pytest.mark.parametrize("order", ["import torch, paddle", "import paddle, torch"])
def test_one_plugin_in_both_frameworks(run_python, order):
    done = run_python(
        f"""
{order}
{MOUNTED}
import hardpoint.torch, hardpoint.paddle
assert hardpoint.torch.device_name() == "sim" and hardpoint.paddle.device_names() == ["sim"]
paddle.set_device("sim:0")
kept = paddle.ones([1 << 24])
assert torch.sim.memory_reserved() >= 4 << 24, torch.sim.memory_reserved()
x = torch.ones(3, device="sim")
assert (x + x).tolist() == [2, 2, 2] and (kept[:3] + kept[:3]).tolist() == [2, 2, 2]
assert hardpoint.counters()["aten::add.Tensor"]["vendor"] == 1 and hardpoint.counters()["phi::add"]["vendor"] == 1
x.requires_grad_(); (x * x).sum().backward(); assert x.grad.tolist() == [2, 2, 2]
y = paddle.to_tensor([3.0], stop_gradient=False); (y * y).sum().backward(); assert y.grad.tolist() == [6]
"""
    )
    assert unexpected_lines(done.stderr) == []


def test_requested_by_import(run_python):
    run_python(f"import hardpoint, paddle\n{MOUNTED}", HARDPOINT_DEVICE=None)


def test_requested_after_importing_paddle(run_python):
    run_python(f"import paddle, hardpoint\n{MOUNTED}", HARDPOINT_DEVICE=None)


def test_requested_too_late(run_python):
    run_python(
        """
        import paddle, warnings
        x = paddle.ones([2])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            import hardpoint
        assert ["HARDPOINT_DEVICE=sim" in str(w.message) for w in said] == [True], said
        assert (x + x).tolist() == [2, 2]
        """,
        HARDPOINT_DEVICE=None,
    )


def test_unknown_device_prints_one_line(run_python):
    done = run_python(f"import paddle\n{UNTOUCHED}", HARDPOINT_DEVICE="nonsense")
    said = adapter_lines(done.stderr)
    assert len(said) == 1
    assert said[0].startswith(
        "[hardpoint] no device was mounted on Paddle: no plug-in provides a device named 'nonsense'"
    )


def test_bad_plugin_is_reported_and_a_second_one_mounted(run_python, tmp_path):
    bad = tmp_path / "bad.so"
    bad.write_bytes(b"no library at all")
    done = run_python(
        f"import paddle\n{MOUNTED}",
        HARDPOINT_DEVICE="bad,sim",
        HARDPOINT_PLUGIN_PATH=str(bad),
        HARDPOINT_CACHE=str(tmp_path / "cache"),
    )
    said = adapter_lines(done.stderr)
    assert len(said) == 1
    assert "bad.so" in said[0]


def test_several_plugins(run_python, tmp_path):
    run_python(
        """
        import paddle, hardpoint
        import numpy as np
        assert sorted(paddle.device.get_all_custom_device_type()) == ["hello", "sim"]
        data = np.random.default_rng().standard_normal((4, 6)).astype("float32")
        results = {}
        for name in ("cpu", "sim", "hello"):
            paddle.set_device(name)
            x = paddle.to_tensor(data)
            x[:, 1:3].zero_()
            results[name] = [(x + x).numpy(), x.t().contiguous().numpy(), paddle.nn.functional.softmax(x).numpy()]
        for name in ("sim", "hello"):
            for found, expected in zip(results[name], results["cpu"]):
                np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert hardpoint.counters()["phi::add"] == {"vendor": 2}
        assert hardpoint.counters()["phi::softmax"] == {"portable": 1, "cpu": 1}
        """,
        HARDPOINT_DEVICE="sim,hello",
        HARDPOINT_PLUGIN_PATH=str(ROOT / "examples" / "hello_python" / "hello.py"),
    )
