"""Device selection: a program gets a device only if it requests one."""

from __future__ import annotations

import re

import pytest

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

UNTOUCHED = """
import sys
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert torch.accelerator.current_accelerator() is None
assert not torch.accelerator.is_available()
assert not hasattr(torch, "sim")
assert not hasattr(torch.Tensor, "sim")
"""

MOUNTED = """
import hardpoint.torch
assert torch._C._get_privateuse1_backend_name() == "sim"
assert hardpoint.torch.device_name() == "sim"
assert hardpoint.mounted() == ["sim"]
assert str(torch.accelerator.current_accelerator()) == "sim"
assert (torch.ones(2, device="sim") + torch.ones(2).sim()).tolist() == [2, 2]
"""


def test_no_device_requested(run_python):
    done = run_python(f"import torch\n{UNTOUCHED}\nassert 'hardpoint' not in sys.modules", HARDPOINT_DEVICE=None)
    assert done.stderr == ""


def test_empty_variable_is_no_request(run_python):
    run_python(f"import torch\n{UNTOUCHED}\nassert 'hardpoint' not in sys.modules", HARDPOINT_DEVICE="")


def test_chosen_by_variable(run_python):
    done = run_python(f"import torch\n{MOUNTED}", HARDPOINT_DEVICE="sim")
    assert done.stderr == ""


@pytest.mark.parametrize("imports", ["import hardpoint\nimport torch", "import torch\nimport hardpoint"])
@pytest.mark.parametrize("variable", [None, "sim"])
@pytest.mark.parametrize("autoload", [None, "0"])
def test_chosen_by_import(run_python, imports, variable, autoload):
    run_python(f"{imports}\n{MOUNTED}", HARDPOINT_DEVICE=variable, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)


def test_importing_hardpoint_alone_does_not_import_torch(run_python):
    run_python(
        """
        import sys
        import hardpoint
        assert "torch" not in sys.modules
        """,
        HARDPOINT_DEVICE=None,
    )


def test_autoload_switched_off(run_python):
    run_python(
        f"import torch\n{UNTOUCHED}\nassert 'hardpoint' not in sys.modules",
        HARDPOINT_DEVICE="sim",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_unknown_device(run_python):
    done = run_python(
        f"""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
said = [str(w.message) for w in caught if "hardpoint" in str(w.message)]
assert len(said) == 1, said
assert "nonsense" in said[0], said
assert "sim" in said[0], said
{UNTOUCHED}
assert (torch.ones(2) + 1).tolist() == [2, 2]
""",
        HARDPOINT_DEVICE="nonsense",
    )
    assert "Traceback" not in done.stderr


def test_unknown_device_with_import_hardpoint(run_python):
    done = run_python(
        "import torch, hardpoint",
        check=False,
        HARDPOINT_DEVICE="nonsense",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        OCL_ICD_VENDORS="/nowhere",
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.returncode != 0
    assert "PluginError" in done.stderr
    assert re.search(r"no plug-in provides a device named 'nonsense'; available: (\w+, )*sim\n", done.stderr)
    assert "refused" not in done.stderr


def test_mounting_again_does_nothing(run_python):
    run_python(
        f"""
import torch, hardpoint.torch
assert hardpoint.torch.mount() == "sim"
assert hardpoint.torch.mount() == "sim"
{MOUNTED}
"""
    )


def test_renaming_afterwards_is_refused(run_python):
    run_python(
        """
        import torch
        try:
            torch.utils.rename_privateuse1_backend("other")
        except RuntimeError as error:
            assert "sim" in str(error), error
        else:
            raise AssertionError
        torch.utils.rename_privateuse1_backend("sim")  # the same name is harmless
        assert torch.ones(1, device="sim").item() == 1
        """
    )


def test_slot_taken_by_another_backend(run_python):
    done = run_python(
        """
        import sys
        import torch
        torch.utils.rename_privateuse1_backend("other")
        try:
            import hardpoint
        except RuntimeError as error:
            print(type(error).__name__, error)
        assert torch._C._get_privateuse1_backend_name() == "other"
        assert not [name for name in sys.modules if name.startswith("hardpoint.torch._C")]
        """,
        HARDPOINT_DEVICE=None,
    )
    assert done.stdout.startswith("PluginError cannot mount")
    assert "torch takes one device per process, and 'other' is mounted" in done.stdout


@pytest.mark.parametrize("count", [1, 3])
def test_number_of_devices(run_python, count):
    run_python(
        f"""
        import torch
        assert torch.sim.device_count() == {count}
        assert torch.ones(1, device="sim:{count - 1}").item() == 1
        """,
        HARDPOINT_SIM_DEVICES=str(count),
    )


def test_wrong_settings_are_reported(run_python):
    done = run_python("import torch; print(torch.accelerator.is_available())", HARDPOINT_SIM_MEMORY="lots")
    assert done.stdout.strip() == "False"
    assert done.stderr.count("HARDPOINT_SIM_MEMORY is 'lots'") == 1
