"""Helpers of the tests of libraries: their programs, and the reason for skipping."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
MISSING = "not installed: make integrations installs it"


def torchrun(program: str, *arguments: str, ranks: int = 2) -> list[str]:
    """Module and arguments of a torchrun command."""
    return ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(PROGRAMS / program), *arguments]
