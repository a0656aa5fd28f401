"""Paddle with the device under test. Without Paddle, nothing in this folder is collected."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest

from hardpoint._runtime import package_file

if find_spec("paddle") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Where Paddle would search if it were installed in the same folder.
    os.environ.setdefault(
        "CUSTOM_DEVICE_ROOT", str(package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent)
    )
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setenv("GLOG_minloglevel", "1")  # suppresses a line for each library, in this process only
        import paddle

    paddle.disable_signal_handler()  # sim must get SIGSEGV, to report invalid host accesses

    import hardpoint

    @pytest.fixture(autouse=True)
    def on_device():
        """Each test starts on the first device."""
        paddle.set_device("sim:0")
        yield
        paddle.set_device("sim:0")

    @pytest.fixture
    def counted():
        """Reset the counters; returns a function that reads them."""
        hardpoint.reset_counters()
        return hardpoint.counters
