"""The operators of OpInfo on nv and on torch.cuda: each judged against the CPU, then one against the other.

A part of h200.py, which calls it. As a program it records torch.cuda's side:

python benchmarks/h200_operators.py FOLDER PATTERN [--dtypes NAMES] [--samples NUMBER]
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # this folder, to the end: its copy.py must not stand in for the standard module

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
    sys.path.pop()  # transformers looks for a package "kernels", and must not find this folder's file of that name

#: Where an order in OpInfo's samples is infinite, torch.cuda's kernels of these count up to the largest integer.
ENDLESS_ON_CUDA = {
    "special.laguerre_polynomial_l",
    "special.legendre_polynomial_p",
    *(f"special.shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
}


def record(folder: Path, pattern: str, dtypes: str, samples: int) -> None:
    """Judge torch.cuda as ``hardpoint check`` judges a plug-in, and keep its results: a line for each entry."""
    # Hardpoint first, while nothing is there to mount a device on; then torch, which is to mount none.
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
    with worker.seeds_of_other_devices_left_alone():
        for name in worker.entries("ops", pattern):
            if name in ENDLESS_ON_CUDA:
                continue
            print(json.dumps(asdict(ops.run(name, "cuda", given, lambda at: None))), flush=True)


def _checks(folder: Path, index: int, names: list[str], dtypes: str, samples: int) -> dict[str, list[str]]:
    """Commands for one share of the operators, by the side that they judge."""
    share = f"^({'|'.join(map(re.escape, names))})$"
    same = ["--samples", str(samples), "--dtypes", dtypes]
    ours = ["-m", "hardpoint.cli", "check", "ops", "--ops", share, "--memory", "0", *same]
    ours += ["--resume", f"{folder}/nv{index}.jsonl", "--keep", f"{folder}/nv"]
    return {
        "nv": [sys.executable, *ours],
        "cuda": [sys.executable, __file__, f"{folder}/cuda", share, *same],
    }


def measure(dtypes: str, samples: int, patience: float) -> list[dict[str, Any]]:
    """OpInfo's samples against the CPU, judged in float64, on both sides; then one side's results against the other's.

    Many processes at once, since a plug-in and torch.cuda cannot both compute gradients in one.
    """
    from hardpoint.check import kept, worker

    names, shares = worker.entries("ops", ""), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as temporary:
        folder, running = Path(temporary), []
        for index in range(shares):
            # Neighbours go to different shares: names that begin alike are often alike slow.
            for side, command in _checks(folder, index, names[index::shares], dtypes, samples).items():
                # One seed of hashes: some samples come out of sets.
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
            calls = kept.differences(folder / "nv", folder / "cuda", entry)
            apart = {call: difference for call, difference in calls.items() if difference}
            nv, cuda = sides.get("nv", {"entry": entry, **late}), sides.get("cuda", late)
            beside = {"cuda": cuda["verdict"], "cuda_failure": cuda["failure"]}
            results.append({**nv, **beside, "same": len(calls) - len(apart), "apart": apart})
    return results


def show(results: list[dict[str, Any]], dtypes: str) -> None:
    verdicts = Counter(result["verdict"] for result in results)
    print(f"\nOperators of OpInfo in {dtypes}: {len(results)} entries; strict: right, and nothing ran on the CPU.\n")
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    for result in results:
        if result["verdict"] not in ("strict", "not tested"):
            print(f"  {result['entry']}: {result['verdict']} {_first_line(result['failure'])}")
    wrong = [result for result in results if result["cuda"] in ("partly", "failed")]
    late = [result["entry"] for result in results if result["cuda"] == "not run"]
    print(f"\ntorch.cuda, judged in the same way: {len(wrong)} entries differ from the CPU; not run: {', '.join(late)}")
    for result in wrong:
        print(f"  {result['entry']}: {result['cuda']} {_first_line(result['cuda_failure'])}")
    apart = [result for result in results if result["apart"]]
    calls = sum(result["same"] for result in results), sum(len(result["apart"]) for result in apart)
    print(
        f"\nThe two, within torch's tolerances: {calls[0]:,} calls agree, {calls[1]:,} of {len(apart)} entries do not"
    )
    for result in apart:
        call, difference = next(iter(result["apart"].items()))
        whose = " (where torch.cuda differs from the CPU)" if result in wrong else ""
        print(f"  {result['entry']}{whose}: {len(result['apart'])}, such as {call}: {_first_line(difference)}")


def _first_line(message: str) -> str:
    return (message.splitlines() or [""])[0][:160]


def main() -> None:
    """Record one share of the operators on torch.cuda."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", help="a regular expression that the operators' names match")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=2, help="for each operator and dtype")
    options = parser.parse_args()
    record(options.folder, options.pattern, options.dtypes, options.samples)


if __name__ == "__main__":
    main()
