"""Failing cases of mode ``ops`` on disk, for ``hardpoint replay``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from hardpoint.check.samples import Sample

FORMAT = "hardpoint case"
VERSION = 1


@dataclass
class Case:
    """One comparison of an entry: the way to call it, and the arguments."""

    kind: str
    sample: Sample
    label: str = ""
    #: Whether gradients are compared, too.
    gradient: bool = False


def save(folder: Path, entry: str, dtype: str, case: Case) -> str:
    """Write a case and return its path; empty if its arguments cannot be written."""
    path = folder / f"{quote(f'{entry} {dtype} {case.label or case.kind}', safe=' ')}.case".replace(" ", "-")
    sample = case.sample
    content = {
        **{"format": FORMAT, "version": VERSION, "entry": entry, "dtype": dtype},
        **{"kind": case.kind, "label": case.label, "generated": case.sample.label, "gradient": case.gradient},
        **{"input": sample.input, "args": list(sample.args), "kwargs": sample.kwargs},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(content, path)
        torch.load(path, weights_only=True)
    except Exception:  # an argument that only lives in this process, such as a function
        path.unlink(missing_ok=True)
        return ""
    return str(path)


def load(path: Path) -> tuple[str, str, Case]:
    """The entry, dtype and case in a file. Raises ``ValueError`` if the file is not a case."""
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except Exception:
        raise ValueError(f"{path} is not a case of `hardpoint check`") from None
    sample = Sample(content["input"], tuple(content["args"]), content["kwargs"], label=content["generated"])
    case = Case(content["kind"], sample, content["label"], content["gradient"])
    return content["entry"], content["dtype"], case


def replay(path: Path) -> str:
    """Run a case again on the mounted device; describes the failure, empty if it passes."""
    from hardpoint.check import ops, worker

    entry, dtype, case = load(path)
    if entry not in ops.database():
        raise ValueError(f"{path}: this torch has no entry {entry}")
    device = worker.mount()
    run = ops.Entry(entry, ops.database()[entry], device, limit=1, step=lambda at: None)
    return run.check(case, dtype)
