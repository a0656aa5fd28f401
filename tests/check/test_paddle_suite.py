"""``hardpoint check paddle``: files written like those of Paddle and PaddleCustomDevice."""

from __future__ import annotations

import json
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

SLOW = """
import time
import unittest


class TestSlow(unittest.TestCase):
    def test_hangs(self):
        time.sleep(600)


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
    assert "found when the test was over: IndexError" in own["failures"][1]["detail"]
    assert vendor["counts"] == {"passed": 2, "device only": 1, "cpu too": 2, "skipped": 1, "excluded": 1}
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
    report = paddle_suite.run([file], timeout=8)
    assert report.counts == {"cpu too": 1}
    assert report.files[0].failures[0].test == "TestSlow.test_hangs"
    assert "within 8 s" in report.files[0].failures[0].detail


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
