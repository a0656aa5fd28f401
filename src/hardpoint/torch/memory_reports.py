"""The allocator's reports to ``torch.profiler`` (``profile_memory=True``): from the first profile of the process on.

Whether a thread profiles its memory costs two calls into torch, for each allocation and each free. Until a profiler is
prepared, the allocator reads a flag instead.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

#: Functions that start a profiler. torch keeps a reference to each in several modules.
_STARTS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
_MODULES = ("torch._C._autograd", "torch.autograd", "torch.autograd.profiler", "torch.autograd.profiler_legacy")


def register(adapter: Any) -> None:
    """Turn the reports on when a profiler starts, or at once if that cannot be noticed."""
    import torch

    modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
    starts = {name: function for name in _STARTS if (function := getattr(torch._C._autograd, name, None))}
    profiling = getattr(torch.autograd.profiler, "_is_profiler_enabled", True)
    if profiling or "_enable_profiler" not in starts:
        adapter.report_memory()
        return
    for name, function in starts.items():
        replacement = _reporting(adapter, function)
        for module in modules:
            if getattr(module, name, None) is function:
                setattr(module, name, replacement)


def _reporting(adapter: Any, start: Any) -> Any:
    @functools.wraps(start)
    def call(*args: Any, **kwargs: Any) -> Any:
        adapter.report_memory()
        return start(*args, **kwargs)

    return call
