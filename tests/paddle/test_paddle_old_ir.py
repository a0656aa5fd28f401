"""Static graphs in Paddle's old representation, which its operator tests and older inference models use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("old_ir_program.py")
FAMILIES = re.findall(r'^    "(\w+)": \(', PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The lines that the program prints."""
    run = subprocess.run([sys.executable, PROGRAM, "sim"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def differences(printed: list[str]) -> dict[str, dict[str, str]]:
    """How results and gradients differ from the CPU, by operator and dtype."""
    found: dict[str, dict[str, str]] = {}
    for line in printed:
        if line.startswith("{"):
            record = json.loads(line)
            name, dtype = record["case"].rsplit("-", 1)
            found.setdefault(name, {})[dtype] = record["difference"]
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_results_and_gradients_have_the_dtype_and_values_of_the_cpu(differences, family):
    assert {dtype: found for dtype, found in differences[family].items() if found} == {}


def test_every_operator_of_the_program_is_checked(differences):
    assert sorted(differences) == sorted(FAMILIES)
    assert sum(map(len, differences.values())) > 250


def test_products_run_on_the_device(printed):
    (names,) = [json.loads(line.removeprefix("on the CPU: ")) for line in printed if line.startswith("on the CPU: ")]
    assert names  # other operators of the program
    assert not {"phi::prod", "phi::prod_infer"} & set(names)
