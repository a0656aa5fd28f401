"""``hardpoint check suites``: files written like PyTorch's device-generic ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardpoint.check import suite, torch_suite
from hardpoint.check.torch_worker import Job, generic_name, select
from hardpoint.cli import app

GENERIC = """
import os
import unittest
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase, run_tests
from helper import NUMBER  # beside this file


class TestThings(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_c_adds(self, device, dtype):
        x = torch.full((3,), NUMBER, device=device, dtype=dtype)
        self.assertEqual(x + 1, torch.full((3,), 8, dtype=dtype))

    def test_b_crashes_on_the_device(self, device):
        if torch.device(device).type != "cpu":
            os.abort()

    def test_d_reads_out_of_bounds(self, device):
        if torch.device(device).type != "cpu":
            self.kept = torch.arange(3, device=device)[torch.tensor([7], device=device)]

    def test_device_only(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_excluded(self, device):
        os.abort()

    def test_d_has_subtests(self, device):
        for number in range(2):
            with self.subTest(number):
                if number == 1:
                    self.skipTest("one of two")

    @onlyCUDA
    def test_skipped(self, device):
        pass

    def test_the_cpu_runs_without_a_plugin(self, device):
        mounted = torch._C._get_privateuse1_backend_name() != "privateuseone"
        self.assertEqual(mounted, torch.device(device).type != "cpu")
        self.fail("so that it runs on the CPU, too")

    def test_wrong_everywhere(self, device):
        self.assertEqual(1, 2)


class TestPlain(TestCase):
    def test_is_not_generic(self):
        self.fail("not run")


instantiate_device_type_tests(TestThings, globals())

if __name__ == "__main__":
    run_tests()
"""

HANGS = """
import time
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestHangs(TestCase):
    def test_hangs(self, device):
        time.sleep(600)


instantiate_device_type_tests(TestHangs, globals())
"""


@pytest.fixture
def checkout(tmp_path) -> Path:
    folder = tmp_path / "pytorch" / "test"
    folder.mkdir(parents=True)
    (folder.parent / "version.txt").write_text("2.99.0a0\n")
    (folder / "helper.py").write_text("NUMBER = 7\n")
    (folder / "test_torch.py").write_text(GENERIC)
    (folder / "test_other.py").write_text("not run: not one of PyTorch's generic files")
    return folder.parent


@pytest.mark.slow
def test_statuses(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPOINT_DEVICE", "sim")
    exclusions = tmp_path / "exclusions.txt"
    exclusions.write_text("# comment\ntest_*.py::TestThings.test_excl*: it ends its process\n")
    report = tmp_path / "report.json"
    arguments = ["check", "suites", str(checkout), "--exclude", str(exclusions), "--json", str(report), "--jobs", "1"]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 1, run.output
    data = json.loads(report.read_text())
    assert (data["device"], data["versions"]["checkout"]) == ("sim", "2.99.0a0")
    (file,) = data["files"]
    assert (file["file"], file["tests"]) == ("test_torch.py", 10)
    assert file["counts"] == {"passed": 2, "device only": 3, "cpu too": 2, "skipped": 2, "excluded": 1}
    statuses = {failure["test"]: failure["status"] for failure in file["failures"]}
    assert statuses == {
        "TestThings.test_b_crashes_on_the_device": "device only",
        "TestThings.test_d_reads_out_of_bounds": "device only",
        "TestThings.test_device_only": "device only",
        "TestThings.test_the_cpu_runs_without_a_plugin": "cpu too",
        "TestThings.test_wrong_everywhere": "cpu too",
    }
    details = {failure["test"]: failure["detail"] for failure in file["failures"]}
    assert "SIGABRT" in details["TestThings.test_b_crashes_on_the_device"]
    assert "index 7 is out of bounds" in details["TestThings.test_d_reads_out_of_bounds"]
    assert "so that it runs on the CPU" in details["TestThings.test_the_cpu_runs_without_a_plugin"]
    assert file["reasons"]["excluded: it ends its process"] == 1
    assert sum(file["tiers"].values()) > 0
    assert "device only test_torch.py::TestThings.test_device_only" in " ".join(run.output.split())


@pytest.mark.slow
def test_a_test_has_a_time_limit(checkout, monkeypatch):
    monkeypatch.setenv("HARDPOINT_DEVICE", "sim")
    file = checkout / "test" / "test_hangs.py"
    file.write_text(HANGS)
    report = torch_suite.run([file], timeout=5)
    assert report.counts == {"cpu too": 1}
    assert "no result for 5 s" in report.files[0].failures[0].detail


def test_generic_names():
    sim = ("privateuse1", "sim")
    assert generic_name("TestAPRIVATEUSE1", "test_x_sim_float32", sim) == "TestA.test_x_float32"
    assert generic_name("TestASIM", "test_x_sim", sim) == "TestA.test_x"
    assert generic_name("TestASIM", "test_cos_sim_sim_float32", sim) == "TestA.test_cos_sim_float32"
    assert generic_name("TestASIM", "test_similar_sim_int8", sim) == "TestA.test_similar_int8"
    assert generic_name("TestACPU", "test_cpu_copy_cpu", ("cpu",)) == "TestA.test_cpu_copy"


def test_selection():
    names = [f"TestA.test_{number:03}" for number in range(200)]
    job = Job("", "", "", "sim")
    assert select(names, job) == names
    assert select(names, replace(job, pattern="test_00[12]$")) == ["TestA.test_001", "TestA.test_002"]
    assert select(names, replace(job, only=["TestA.test_007"], pattern="never", parts=9)) == ["TestA.test_007"]
    sample = select(names, replace(job, sample=20))
    assert len(set(sample) & set(names)) == len(sample) == 20
    # The same sample in every run, and a new test replaces at most one of it.
    assert len(set(select([*names, "TestA.test_new"], replace(job, sample=20))) & set(sample)) >= 19
    assert select(names, replace(job, sample=20, seed=1)) != sample
    parts = [select(names, replace(job, sample=20, part=part, parts=3)) for part in range(3)]
    assert sorted(name for part in parts for name in part) == sample


def test_an_interrupted_run_has_no_unjudged_failures():
    device, cpu = suite.Outcome(), suite.Outcome()
    device.statuses = {"T.a": ("passed", ""), "T.b": ("failed", "x"), "T.c": ("failed", "y")}
    cpu.statuses = {"T.b": ("passed", "")}
    assert suite.judge("f.py", device, cpu, interrupted=True).counts == {"passed": 1, "device only": 1}
    assert suite.judge("f.py", device, cpu).counts == {"passed": 1, "device only": 2}


def test_shipped_exclusions_are_for_known_files():
    for exclusion in suite.read_exclusions(torch_suite.EXCLUSIONS):
        assert any(suite.Exclusion(exclusion.pattern.partition("::")[0], "").matches(f) for f in torch_suite.FILES)


def test_paths(checkout, tmp_path):
    folder = (checkout / "test").resolve()
    assert torch_suite.find_files([checkout]) == torch_suite.find_files([folder]) == [(folder, "test_torch.py")]
    (folder / "nn").mkdir()
    (folder / "nn" / "test_pooling.py").touch()
    assert torch_suite.find_files([folder / "nn" / "test_pooling.py"]) == [(folder, "nn/test_pooling.py")]
    assert torch_suite.checkout_version(folder) == "2.99.0a0"
    assert torch_suite.checkout_version(tmp_path) == "unknown"
    for paths, message in (([tmp_path / "absent"], "no file"), ([tmp_path], "none of PyTorch's"), ([], "give")):
        with pytest.raises(ValueError, match=message):
            torch_suite.find_files(paths)
    assert CliRunner().invoke(app, ["check", "suites", str(tmp_path)]).exit_code == 2
