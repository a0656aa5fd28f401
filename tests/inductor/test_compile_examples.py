"""The examples run as the documentation shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"), [("triton_softmax", "{'portable': 1}"), ("compiled_training", " Triton kernels")]
)
def test_example(name, printed, run_python):
    program = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r} + '.py')"
    assert printed in run_python(program, timeout=280, TORCHINDUCTOR_COMPILE_THREADS="1").stdout
