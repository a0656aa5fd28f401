"""Paddle with the device under test; nothing of this folder is collected where Paddle is not installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest

from hardpoint._runtime import package_file

if find_spec("paddle") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Where Paddle would look by itself if it were installed in the same folder.
    os.environ.setdefault(
        "CUSTOM_DEVICE_ROOT", str(package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent)
    )
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setenv("GLOG_minloglevel", "1")  # no line for each library; programs that tests start log as usual
        import paddle

    paddle.disable_signal_handler()  # faults belong to sim, which tells what was touched

    import hardpoint

    @pytest.fixture(autouse=True)
    def on_device():
        """Each test starts on the first device."""
        paddle.set_device("sim:0")
        yield
        paddle.set_device("sim:0")

    @pytest.fixture
    def counted():
        """Counters that start at zero."""
        hardpoint.reset_counters()
        return hardpoint.counters
