"""Integrations are active only with a device and the library, in either order."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from hardpoint import integrations

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

RunPython = Callable[..., CompletedProcess[str]]


def test_every_patched_module_has_its_patch() -> None:
    for library in set(integrations.PATCHED_MODULES.values()):
        module = importlib.import_module(f"hardpoint.integrations.{library}")
        names = {name for name, owner in integrations.PATCHED_MODULES.items() if owner == library}
        assert names == set(module.PATCHES)
        assert module.TESTED


@pytest.mark.parametrize("order", ["import torch, safetensors", "import safetensors, torch"])
def test_either_order(run_python: RunPython, order: str) -> None:
    program = f"""
        {order}
        import safetensors
        print(safetensors.safe_open.__module__)
        from hardpoint import integrations
        print(integrations.state.patched["safetensors"])
    """
    assert run_python(program).stdout.split() == ["hardpoint.integrations.safetensors", "['safetensors']"]


def test_library_that_imports_torch_itself(run_python: RunPython) -> None:
    """The import of a module is under way when it imports torch, and torch mounts the device."""
    program = """
        import importlib.machinery, sys
        from pathlib import Path
        Path("lib").mkdir()
        Path("lib/safetensors.py").write_text("import torch\\nclass safe_open: pass\\nbefore = safe_open")
        sys.path.insert(0, "lib")
        import safetensors
        print(safetensors.before.__module__, safetensors.safe_open.__module__)
        assert type(safetensors.__spec__) is importlib.machinery.ModuleSpec
    """
    found = run_python(program, fresh=True).stdout.split()  # the fork server has imported torch
    assert found == ["safetensors", "hardpoint.integrations.safetensors"]


@pytest.mark.parametrize("fails", [False, True])
def test_end_of_an_import_that_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """The function is called once, with the whole module; not if the import fails."""
    name = f"module_that_{'fails' if fails else 'ends'}"
    (tmp_path / f"{name}.py").write_text(
        "import sys\n"
        "from hardpoint._import_hook import when_imported\n"
        "when_imported(sys.modules[__name__], lambda module: sys.import_hook_calls.append(module.late))\n"
        "assert sys.import_hook_calls == []\n"
        f"late = 1 / {0 if fails else 2}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    calls: list[float] = []
    monkeypatch.setattr(sys, "import_hook_calls", calls, raising=False)
    with contextlib.suppress(ZeroDivisionError):
        importlib.import_module(name)
    assert calls == ([] if fails else [0.5])
    if not fails:
        assert type(sys.modules[name].__spec__) is importlib.machinery.ModuleSpec


def test_library_first_and_the_device_later(run_python: RunPython) -> None:
    program = """
        import torch, safetensors
        from safetensors import torch as copied
        before = safetensors.safe_open
        assert before.__module__ != "hardpoint.integrations.safetensors"
        import hardpoint
        assert safetensors.safe_open is not before
        assert copied.safe_open is safetensors.safe_open  # names that were copied before, too
    """
    run_python(program, HARDPOINT_DEVICE=None)


def test_nothing_without_a_device(run_python: RunPython) -> None:
    program = """
        import sys
        finders = list(sys.meta_path)
        import torch, safetensors
        assert not any(name.startswith("hardpoint") and name != "hardpoint_autoload" for name in sys.modules)
        assert [type(f).__module__ for f in sys.meta_path if type(f).__module__.startswith("hardpoint")] == []
        assert safetensors.safe_open.__module__ != "hardpoint.integrations.safetensors"
        assert torch.Tensor.__dlpack__.__module__ == "torch._tensor"
    """
    run_python(program, HARDPOINT_DEVICE=None, fresh=True)  # the fork server imports Triton, and so its backends


def test_no_integration_is_loaded_for_absent_libraries(run_python: RunPython) -> None:
    program = """
        import sys, torch, hardpoint
        package = "hardpoint.integrations."
        loaded = {name.removeprefix(package) for name in sys.modules if name.startswith(package)}
        print(sorted(name for name in loaded if not name.startswith("_")))
    """
    assert run_python(program).stdout.strip() == "['numpy']"  # torch imports NumPy itself


@pytest.mark.parametrize(("value", "patched"), [("0", False), ("lightning, safetensors", True), ("lightning", False)])
def test_switch(run_python: RunPython, value: str, patched: bool) -> None:
    program = """
        import torch, safetensors
        print(safetensors.safe_open.__module__ == "hardpoint.integrations.safetensors")
    """
    assert run_python(program, HARDPOINT_INTEGRATIONS=value).stdout.strip() == str(patched)


def test_steps_aside_from_a_changed_library(run_python: RunPython) -> None:
    program = """
        import sys, warnings
        import torch, hardpoint
        from pathlib import Path
        Path("lib/accelerate").mkdir(parents=True)
        Path("lib/accelerate/__init__.py").write_text("__version__ = '99.0'")
        Path("lib/accelerate/state.py").write_text(
            "class DistributedType:\\n MULTI_GPU = 1\\n"
            "class PartialState:\\n"
            " @property\\n"
            " def default_device(self): return 'cpu'\\n"
            " def _prepare_backend(self, other): return other\\n"
            " def set_device(self): pass\\n"
        )
        sys.path.insert(0, "lib")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import accelerate.state
        assert accelerate.state.PartialState().default_device == "cpu"  # all or nothing
        (warning,) = caught
        print(warning.message)
    """
    text = run_python(program).stdout
    assert "accelerate 99.0 is not told about the device 'sim'" in text
    assert "PartialState._prepare_backend takes (self, other), not (self, cpu, sagemaker_dp, backend, ...)" in text
    assert text.count("\n") == 1


def test_a_loader_stays_what_it_was(run_python: RunPython) -> None:
    program = """
        import torch, hardpoint, importlib.machinery, inspect, safetensors
        assert type(safetensors.__loader__) is importlib.machinery.SourceFileLoader
        assert "safe_open" in inspect.getsource(safetensors)
    """
    run_python(program)
