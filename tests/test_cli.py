"""The command line, as a user sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hardpoint.cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "600", "TERM": "dumb", **environment}
    )


def test_devices_shows_plugins_and_devices() -> None:
    done = run("devices", HARDPOINT_SIM_DEVICES="3", HARDPOINT_SIM_MEMORY="2G")
    assert done.returncode == 0, done.stderr
    assert "3 devices" in done.stdout
    for expected in ("sim:0", "sim:1", "sim:2", "2.0 GiB", "streams, events", "package hardpoint"):
        assert expected in done.stdout
    assert "Chosen for a program that asks: sim" in done.stdout


def test_devices_says_why_a_plugin_was_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.so"
    bad.write_text("this is no library")
    done = run("devices", HARDPOINT_PLUGIN_PATH=str(bad), HARDPOINT_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0
    assert "refused" in done.stdout
    assert "bad.so" in done.stdout
    assert "sim:0" in done.stdout  # the good one still works


def test_devices_of_a_misconfigured_sim() -> None:
    done = run("devices", HARDPOINT_SIM_DEVICES="many", OCL_ICD_VENDORS="/nowhere", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1, "no other device is to be found"
    assert "HARDPOINT_SIM_DEVICES is 'many'" in " ".join(done.stdout.split())


def test_doctor_is_content_here() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    for subject in ("hardpoint", "apache-tvm-ffi", "C++ compiler", "torch adapter", "plug-in sim", "HARDPOINT_DEVICE"):
        assert f"{subject}:" in done.stdout
    assert "fix" not in done.stdout.split("hardpoint:")[0]


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("devices", "doctor", "check", "coverage", "mount-paddle-plugin", "build", "new", "test", "wheel"):
        assert command in done.stdout


@pytest.mark.slow
def test_an_adapter_for_another_torch_is_asked_for_by_name() -> None:
    code = """
import importlib.metadata as m
real = m.version
m.version = lambda name: "9.9.1" if name == "torch" else real(name)
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import torch
messages = [str(w.message) for w in seen if "hardpoint" in str(w.message)]
assert len(messages) == 1, messages
assert "not built for torch 9.9" in messages[0] and "hardpoint build torch" in messages[0], messages
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
assert (torch.ones(2) + 1).tolist() == [2, 2]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "HARDPOINT_DEVICE": "sim"}
    )
    assert done.returncode == 0, done.stderr
