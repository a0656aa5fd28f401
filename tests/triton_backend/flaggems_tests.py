"""Runs FlagGems' own operator tests on a device, from a checkout of FlagGems. Results are compared with the CPU's.

python tests/triton_backend/flaggems_tests.py CHECKOUT [--device sim] [--operators add,mul] [--cases 6]

Needs sqlalchemy. Prints how many cases of each operator passed, failed and were skipped, and the first failures.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: Operators that networks use most, and one for each kind of kernel.
OPERATORS = (
    "abs add addmm all amax arange argmax bmm cat clamp conv2d cross_entropy_loss cumsum div dropout embedding eq "
    "exp gather gelu group_norm index_add index_put index_select isin layer_norm linspace log_softmax masked_fill "
    "max mean mm mul nonzero pow prod rms_norm rand relu rsqrt scatter sigmoid silu softmax sort sum tanh topk triu "
    "unique upsample_nearest2d var_mean where weight_norm"
)


class Sample:
    """Keeps a few cases of each test function, the same in each run, and collects the outcomes by file."""

    def __init__(self, cases: int, only: str, elements: int) -> None:
        self.cases, self.only, self.elements = cases, only, elements
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.failed: list[tuple[str, str]] = []
        self.skipped: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        # Compiled kernels take all arguments since Triton 3.3; FlagGems passes them so up to 3.6, which it pins.
        vars(sys.modules["flag_gems.utils.libentry"])["minor_version"] = 6
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for item in items:
            if self.only in item.name and _elements(item) <= self.elements:
                groups[f"{item.path}::{item.originalname}"].append(item)
        chosen = []
        for name, group in groups.items():
            name = Path(name).name
            chosen += random.Random(name).sample(group, min(self.cases, len(group)))
        items[:] = chosen

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        operator = Path(report.location[0]).stem.removeprefix("test_")
        self.outcomes[operator][report.outcome] += 1
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed.append((report.location[2], crash.message[:1000] if crash else str(report.longrepr)[-1000:]))
        elif report.outcome == "skipped":
            self.skipped[str(report.longrepr[2])] += 1

    def report(self) -> None:
        """Print the figures."""
        for name, message in self.failed:
            print(f"{name}: {message.splitlines()[0] if message else ''}")
        for reason, count in self.skipped.most_common():
            print(f"skipped {count}: {reason}")
        clean = [name for name, outcomes in self.outcomes.items() if not outcomes["failed"] and outcomes["passed"]]
        total = sum(self.outcomes.values(), Counter[str]())
        print(f"{len(clean)} of {len(self.outcomes)} operators without a failure; cases: {dict(total)}")


def _elements(item: Any) -> int:
    """Elements of the largest tensor that a case names the shape of."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    shapes = [value for value in params if isinstance(value, tuple | list) and all(isinstance(n, int) for n in value)]
    return max(map(math.prod, shapes), default=0)


def limit_configurations(number: int) -> None:
    """Autotuning on a simulated device takes minutes; what it chooses between computes the same."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.__init__

    def init(self: Any, fn: Any, names: Any, configs: Any, *others: Any, **named: Any) -> None:
        original(self, fn, names, list(configs)[:number], *others, **named)

    Autotuner.__init__ = init


def present_as_vendor(device: str, checkout: Path) -> None:
    """FlagGems has a fixed list of vendors, each with a folder. This device replaces one of them."""
    import torch

    vendor = ModuleType("_amd")
    vendor.__path__ = [str(checkout / "src/flag_gems/runtime/backend/_amd")]  # its block sizes are as good as others
    info = {"vendor_name": "amd", "device_name": device, "device_query_cmd": "", "dispatch_key": "PrivateUse1"}
    flags = {"fp64_enabled": True, "bf16_enabled": True, "int64_enabled": True, "tle_enabled": False}
    vars(vendor).update(
        vendor_info=SimpleNamespace(**info, **flags, triton_extra_name=device, trademark=None),
        CUSTOMIZED_UNUSED_OPS=(),
    )
    sys.modules["_amd"] = vendor
    for kernels in ("_amd.ops", "_amd.fused"):
        sys.modules[kernels] = None  # type: ignore[assignment]  # not the vendor's kernels
    os.environ["GEMS_VENDOR"] = "amd"
    backend = sys.modules.setdefault(f"torch.backends.{device}", ModuleType(f"torch.backends.{device}"))
    setattr(torch.backends, device, backend)
    import triton.language.extra.libdevice as libdevice

    sys.modules[f"triton.language.extra.{device}"] = ModuleType(f"triton.language.extra.{device}")
    sys.modules[f"triton.language.extra.{device}.libdevice"] = libdevice


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--operators", default=OPERATORS, help="names of test files, without test_")
    parser.add_argument("--cases", type=int, default=6, help="cases of each test function")
    parser.add_argument("--elements", type=int, default=1 << 23, help="no cases with larger tensors")
    parser.add_argument("--configurations", type=int, default=1, help="configurations that autotuning tries")
    parser.add_argument("--only", default="", help="only tests whose name contains this text")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one case")
    parser.add_argument("--tracebacks", default="line")
    options = parser.parse_args()
    os.environ["HARDPOINT_DEVICE"] = options.device
    checkout = options.checkout.resolve()
    sys.path.insert(0, str(checkout / "src"))
    import pytest

    limit_configurations(options.configurations)
    present_as_vendor(options.device, checkout)
    sample = Sample(options.cases, options.only, options.elements)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # FlagGems writes a report into the current folder
        files = []
        for name in options.operators.replace(",", " ").split():
            file = checkout / "tests" / f"test_{name}.py"
            if file.exists():
                files.append(str(file))
            else:
                print("no tests of", name)
        flags = ["--no-header", f"--tb={options.tracebacks}", "--show-capture=no", "-W", "ignore"]
        flags += ["-v", "-p", "no:cacheprovider", "-p", "no:faulthandler", f"--timeout={options.timeout}"]
        pytest.main([f"--rootdir={checkout}", *flags, "--ref=cpu", *files], [sample])
        os.chdir(checkout)
    sample.report()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a conftest.py of its own
    main()
