"""A virtual environment for generated projects."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_environment import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
