"""Triton's only active driver is Hardpoint's while a device is mounted, also on a machine with a GPU."""

from __future__ import annotations

import triton
from triton.backends import backends

from hardpoint.triton import driver_choice


def test_other_drivers_step_aside_while_a_device_is_mounted():
    class Driver:
        is_active = staticmethod(lambda: True)

    mounted = ["sim"]
    driver_choice._step_aside(Driver, lambda: mounted[0])
    assert not Driver.is_active()
    mounted[0] = None
    assert Driver.is_active()


def test_the_driver_of_this_process():
    assert next(iter(backends)) == "hardpoint"  # Inductor takes the first that is active
    assert [name for name, backend in backends.items() if backend.driver.is_active()] == ["hardpoint"]
    assert isinstance(triton.runtime.driver.active, backends["hardpoint"].driver)
