"""``hardpoint check paddle``: files written like those of Paddle and PaddleCustomDevice."""

from __future__ import annotations

import io
import json
import unittest
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardpoint.check import paddle_suite, suite, suite_worker
from hardpoint.cli import app

needs_paddle = pytest.mark.skipif(find_spec("paddle") is None, reason="Paddle is not installed")

#: For a vendor's device, which is named; the CPU is the reference.
VENDOR = """
import unittest
import numpy as np
import paddle
import paddle_custom_device
from tests.helper import numbers


class TestAdd(unittest.TestCase):
    def setUp(self):
        self.place = paddle.CustomPlace("npu", 0)

    def test_place(self):
        paddle.disable_static(self.place)
        found = paddle.to_tensor(numbers()) + 1
        self.assertTrue("npu" in paddle.device.get_all_custom_device_type())
        self.assertNotIn("Place(npu", str(found.place))
        np.testing.assert_array_equal(found.numpy(), numbers() + 1)

    def test_static(self):
        paddle.enable_static()
        self.assertNotIn("cpu", str(paddle.static.Executor().place))
        paddle.disable_static()
        self.assertNotIn("cpu", str(paddle.ones([1]).place))

    def test_cpu(self):
        self.assertTrue(paddle.to_tensor([1.0], place=paddle.CPUPlace()).place.is_cpu_place())

    def test_device_only(self):
        self.assertTrue(paddle.to_tensor([1.0], place=self.place).place.is_cpu_place())

    def test_wrong_everywhere(self):
        self.assertEqual(1, 2)

    @unittest.skip("not now")
    def test_skipped(self):
        pass

    def test_excluded(self):
        self.fail("not run")


class TestFixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("cannot be set up")

    def test_never(self):
        pass


if __name__ == "__main__":
    assert paddle_custom_device.npu.version()["cann"]
    unittest.main()
"""

#: Names the CPU only, which means the device under test. The second test ends its process.
OWN = """
import os
import unittest
import paddle


class TestOwn(unittest.TestCase):
    def test_a_moves_to_the_device(self):
        x = paddle.to_tensor([1.0], place=paddle.CPUPlace())
        self.assertTrue(x.place.is_custom_place())

    def test_b_crashes(self):
        os.abort()

    def test_c_runs_after_the_crash(self):
        self.assertEqual(float(paddle.ones([3]).sum()), 3)

    def test_d_leaves_an_error_behind(self):
        paddle.gather(paddle.ones([3]), paddle.to_tensor([7]))

    def test_e_is_not_affected(self):
        self.assertEqual(float(paddle.ones([3]).sum()), 3)


if __name__ == "__main__":
    unittest.main()
"""

#: Starts a program for each rank, as Paddle's tests of its collectives do.
RANKS = """
import os
import subprocess
import unittest
import paddle


class TestRanks(unittest.TestCase):
    def test_ranks(self):
        self.assertEqual([x for x in paddle.device.get_available_device() if "npu" in x], ["npu:0", "npu:1"])
        env = {**os.environ, "FLAGS_selected_npus": "1", "PADDLE_XCCL_BACKEND": "npu"}
        for command in (["python", "-u", "rank.py", "argument"], "python rank.py argument".split(" ")):
            self.assertEqual(subprocess.Popen(command, env=env).wait(), 0)
        self.assertEqual(subprocess.check_output(["echo", "rank.py"]), b"rank.py\\n")


if __name__ == "__main__":
    unittest.main()
"""

RANK = """
import sys
import paddle

assert sys.argv == ["rank.py", "argument"], sys.argv
assert "npu" in paddle.device.get_all_custom_device_type()
paddle.set_device("npu")
assert paddle.distributed.ParallelEnv().dev_id == 1
for device in (paddle.CustomPlace("npu", 1), "npu:1", "npu"):
    assert str(paddle.ones([2]).to(device).place) == "Place(sim:1)", device
paddle.device.synchronize("npu")
assert paddle.base.core.get_custom_device_count("npu") == 2
assert paddle.base.core.libpaddle._get_device_min_chunk_size("npu") == 64
"""

SLOW = """
import time
import unittest


class TestSlow(unittest.TestCase):
    def test_a_takes_most_of_the_time(self):
        time.sleep(4)

    def test_b_needs_time_of_its_own(self):
        time.sleep(4)

    def test_c_hangs(self):
        time.sleep(600)

    def test_d_is_not_reached(self):
        pass


unittest.main()
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("paddle")
    library = root / "test" / "legacy_test"
    library.mkdir(parents=True)
    (library / "op_test.py").write_text("class OpTest:\n    pass\n")
    (library / "helper.py").write_text("import numpy\n\n\ndef numbers():\n    return numpy.arange(3.0)\n")
    (library / "test_vendor.py").write_text(VENDOR)
    (library / "test_own.py").write_text(OWN)
    return library


@needs_paddle
@pytest.mark.slow
def test_statuses(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPOINT_DEVICE", "sim")
    exclusions = tmp_path / "exclusions.txt"
    exclusions.write_text("# comment\ntest_vendor.py::TestAdd.test_excluded: it cannot pass\n")
    report = tmp_path / "report.json"
    arguments = ["check", "paddle", str(checkout), "--exclude", str(exclusions), "--json", str(report)]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 1, run.output
    data = json.loads(report.read_text())
    assert data["device"] == "sim"
    own, vendor = data["files"]
    assert own["counts"] == {"passed": 3, "cpu too": 2}
    assert "SIGABRT" in own["failures"][0]["detail"]
    assert "reported after the test: IndexError" in own["failures"][1]["detail"]
    assert vendor["counts"] == {"passed": 3, "device only": 1, "cpu too": 2, "skipped": 1, "excluded": 1}
    statuses = {failure["test"]: failure["status"] for failure in vendor["failures"]}
    assert statuses == {
        "TestAdd.test_device_only": "device only",
        "TestAdd.test_wrong_everywhere": "cpu too",
        "setUpClass (__main__.TestFixture)": "cpu too",
    }
    assert sum(vendor["tiers"].values()) > 0
    assert "device only test_vendor.py::TestAdd.test_device_only" in " ".join(run.output.split())


@needs_paddle
@pytest.mark.slow
def test_a_file_has_a_time_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPOINT_DEVICE", "sim")
    file = tmp_path / "test_slow.py"
    file.write_text(SLOW)
    report = paddle_suite.run([file], timeout=7)
    # The test in which the time runs out gets as much again.
    assert report.counts == {"passed": 2, "not run": 2}
    (hangs,) = paddle_suite.run([file], timeout=2).files[0].failures
    assert (hangs.test, hangs.status) == ("TestSlow.test_a_takes_most_of_the_time", "cpu too")
    assert "within 2 s" in hangs.detail


@needs_paddle
@pytest.mark.slow
def test_programs_that_a_test_starts_use_the_device(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPOINT_DEVICE", "sim")
    monkeypatch.setenv("HARDPOINT_SIM_DEVICES", "2")
    file = tmp_path / "test_ranks.py"
    file.write_text(RANKS)
    (tmp_path / "rank.py").write_text(RANK)
    report = paddle_suite.run([file], timeout=60)
    assert report.counts == {"passed": 1}, report.files[0].failures


def test_an_exclusion_needs_a_reason(tmp_path):
    file = tmp_path / "exclusions.txt"
    file.write_text("test_add.py: needs a network\n\ntest_sub.py\n")
    with pytest.raises(ValueError, match=r"exclusions.txt:3: an exclusion needs a reason"):
        suite.read_exclusions(file)
    file.write_text("test_a*.py: needs a network\ntest_b.py::TestB.*: draws numbers\n")
    first, second = suite.read_exclusions(file)
    found = [first.matches(*names) for names in (("test_add.py",), ("test_sub.py",), ("test_add.py", "T.t"))]
    assert found == [True, False, False]
    assert [second.matches("test_b.py", "TestB.test"), second.matches("test_b.py")] == [True, False]


def test_a_class_fixture_belongs_to_the_tests_of_its_class():
    fixture = "tearDownClass (__main__.create.<locals>.TestCase)"
    assert [suite_worker.is_fixture(name) for name in (fixture, "TestCase.test")] == [True, False]
    assert suite_worker.owner(fixture) == suite_worker.owner("create.<locals>.TestCase.test_it")
    assert suite_worker.owner("TestCase.test") == "TestCase"


def test_a_test_may_be_called_test_case():
    class TestNames(unittest.TestCase):
        def test_case(self):
            self.fail("no")

        def test_skipped_part(self):
            with self.subTest(part=1):
                self.skipTest("not now")

    stream = io.StringIO()
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(TestNames)
    tests.run(suite_worker.Log(stream, name=lambda test: test._testMethodName))
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = {record["test"]: record["status"] for record in records if "test" in record}
    assert found == {"test_case": "failed", "test_skipped_part": "skipped"}


def test_shipped_exclusions_have_reasons():
    assert all(exclusion.reason for exclusion in suite.read_exclusions(paddle_suite.EXCLUSIONS))


def test_paths(tmp_path, checkout):
    assert [file.name for file in paddle_suite.find_files([checkout])] == ["test_own.py", "test_vendor.py"]
    with pytest.raises(ValueError, match="no file or folder"):
        paddle_suite.find_files([tmp_path / "absent"])
    with pytest.raises(ValueError, match=r"no test_\*\.py"):
        paddle_suite.find_files([tmp_path])
    library = paddle_suite.find_library([], checkout.parent.parent)
    assert library[0] == str(checkout)
    assert paddle_suite.find_library([checkout / "test_own.py"], None) == library
    with pytest.raises(ValueError, match="checkout of Paddle"):
        paddle_suite.find_library([], tmp_path)
    assert CliRunner().invoke(app, ["check", "paddle", str(tmp_path)]).exit_code == 2
