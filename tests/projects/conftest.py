"""A newcomer's machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from newcomer import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
