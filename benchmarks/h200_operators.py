"""OpInfo operators on nv and on torch.cuda: each against the CPU, then against each other.

Called by h200.py. As a program it records results of torch.cuda:

python benchmarks/h200_operators.py FOLDER PATTERN [--dtypes NAMES] [--samples NUMBER]
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from h200_processes import end

if __name__ == "__main__":
    sys.path.pop()  # transformers looks for a package "kernels", which kernels.py would shadow

#: Operators whose torch.cuda kernels loop up to the largest integer for samples with an infinite order.
ENDLESS_ON_CUDA = {
    "special.laguerre_polynomial_l",
    "special.legendre_polynomial_p",
    *(f"special.shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
}


def record(folder: Path, pattern: str, dtypes: str, samples: int) -> None:
    """Check torch.cuda as ``hardpoint check`` checks a plug-in, and print one result per line."""
    # Import Hardpoint before torch, then torch without mounting a device.
    os.environ.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    import hardpoint  # noqa: F401

    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch

    from hardpoint.check import ops, worker

    torch.set_num_threads(1)
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    given = {"dtypes": dtypes.split(","), "samples": samples, "keep": str(folder)}
    with worker.no_seeding_of_other_devices():
        for name in worker.entries("ops", pattern):
            if name in ENDLESS_ON_CUDA:
                continue
            print(json.dumps(asdict(ops.run(name, "cuda", given, lambda at: None))), flush=True)


def _checks(folder: Path, index: int, names: list[str], dtypes: str, samples: int) -> dict[str, list[str]]:
    """Commands to check a subset of the operators, by side."""
    share = f"^({'|'.join(map(re.escape, names))})$"
    same = ["--samples", str(samples), "--dtypes", dtypes]
    ours = ["-m", "hardpoint.cli", "check", "ops", "--ops", share, "--memory", "0", *same]
    ours += ["--resume", f"{folder}/nv{index}.jsonl", "--keep", f"{folder}/nv"]
    return {
        "nv": [sys.executable, *ours],
        "cuda": [sys.executable, __file__, f"{folder}/cuda", share, *same],
    }


def measure(dtypes: str, samples: int, patience: float) -> list[dict[str, Any]]:
    """Check OpInfo samples on both sides against the CPU, then compare the two sides.

    Runs in many processes, since a plug-in and torch.cuda cannot both compute gradients in one.
    """
    from hardpoint.check import saved_results, worker

    names, shares = worker.entries("ops", ""), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as temporary:
        folder, running = Path(temporary), []
        for index in range(shares):
            # Distribute neighbors: operators with similar names often take similar time.
            for side, command in _checks(folder, index, names[index::shares], dtypes, samples).items():
                # A fixed hash seed: some samples depend on the order of sets.
                environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "PYTHONHASHSEED": "0"}
                path = folder / f"{side}{index}.txt"
                with path.open("w") as output:
                    process = subprocess.Popen(
                        command, env=environment, stdout=output, stderr=output, start_new_session=True
                    )
                running.append((f"{side}, share {index}", path, process))
        until = time.monotonic() + patience
        for share, path, process in running:
            try:
                process.wait(timeout=max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                end(process)
                print(f"{share}: not done within {patience:.0f} s")
            if path.name.startswith("nv") and not path.with_suffix(".jsonl").exists():
                told = path.read_text()
                raise SystemExit(f"{share}: the check ended with {process.returncode} and no result:\n{told}")
        found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in names}
        for side, files in (("nv", folder.glob("nv*.jsonl")), ("cuda", folder.glob("cuda*.txt"))):
            for line in (line for path in files for line in path.read_text().splitlines()):
                if line.startswith("{") and "entry" in (result := json.loads(line)):
                    found[result["entry"]][side] = result
        results, late = [], {"verdict": "not run", "failure": ""}
        for entry, sides in found.items():
            calls = saved_results.differences(folder / "nv", folder / "cuda", entry)
            differing = {call: difference for call, difference in calls.items() if difference}
            nv, cuda = sides.get("nv", {"entry": entry, **late}), sides.get("cuda", late)
            beside = {"cuda": cuda["verdict"], "cuda_failure": cuda["failure"]}
            results.append({**nv, **beside, "matching": len(calls) - len(differing), "differing": differing})
    return results


def show(results: list[dict[str, Any]], dtypes: str) -> None:
    verdicts = Counter(result["verdict"] for result in results)
    print(f"\nOperators of OpInfo in {dtypes}: {len(results)} entries; strict: correct without CPU fallback.\n")
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    for result in results:
        if result["verdict"] not in ("strict", "not tested"):
            print(f"  {result['entry']}: {result['verdict']} {_first_line(result['failure'])}")
    wrong = [result for result in results if result["cuda"] in ("partly", "failed")]
    late = [result["entry"] for result in results if result["cuda"] == "not run"]
    print(
        f"\ntorch.cuda, checked in the same way: {len(wrong)} entries differ from the CPU; not run: {', '.join(late)}"
    )
    for result in wrong:
        print(f"  {result['entry']}: {result['cuda']} {_first_line(result['cuda_failure'])}")
    differing = [result for result in results if result["differing"]]
    calls = sum(r["matching"] for r in results), sum(len(r["differing"]) for r in differing)
    print(f"\nWithin torch's tolerances: {calls[0]:,} calls match, {calls[1]:,} of {len(differing)} entries do not")
    for result in differing:
        call, difference = next(iter(result["differing"].items()))
        whose = " (where torch.cuda differs from the CPU)" if result in wrong else ""
        print(f"  {result['entry']}{whose}: {len(result['differing'])}, such as {call}: {_first_line(difference)}")


def _first_line(message: str) -> str:
    return (message.splitlines() or [""])[0][:160]


def main() -> None:
    """Record results of torch.cuda."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", help="regular expression for operator names")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=2, help="samples per operator and dtype")
    options = parser.parse_args()
    record(options.folder, options.pattern, options.dtypes, options.samples)


if __name__ == "__main__":
    main()
