"""NVIDIA's plug-in: what it says where there is no driver, and where it looks for libraries."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from hardpoint.devices import cuda


def has_driver() -> bool:
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
def test_message_without_a_driver(run_python: Callable[..., CompletedProcess[str]]) -> None:
    done = run_python(
        """
        import torch
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        assert torch.ones(2).add(1).tolist() == [2, 2]
        """,
        HARDPOINT_DEVICE="nv",
    )
    (line,) = (line for line in done.stderr.splitlines() if "RuntimeWarning" in line)
    for part in ("no device was mounted", "no NVIDIA driver was found", "HARDPOINT_DEVICE"):
        assert part in line


def test_folders_of_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's wheels share the namespace ``nvidia``, each with a folder of libraries."""
    folders = [tmp_path / "nvidia" / name / "lib" for name in ("cu13", "cudnn")]
    for folder in folders:
        folder.mkdir(parents=True)
    (tmp_path / "nvidia" / "__init__.py").touch()  # before one that is installed
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(cuda.PATH_VARIABLE, raising=False)
    assert set(map(str, folders)) <= set(cuda.library_folders())
    assert Path(cuda.library()).exists()
    assert set(map(str, folders)) <= set(os.environ[cuda.PATH_VARIABLE].split(os.pathsep))


def test_a_path_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cuda.PATH_VARIABLE, "/given")
    cuda.library()
    assert os.environ[cuda.PATH_VARIABLE] == "/given"
