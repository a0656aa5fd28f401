"""Tests the integrations with the libraries of PyPI and writes the table in the docs: ``make integrations``.

The environment is a layer over ``.venv``: it has the libraries, and takes torch, Hardpoint and pytest from there.
Standard library only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "integrations"
BASE = ROOT / ".venv"
PAGES = {"en": ROOT / "docs/reference/libraries.md", "zh": ROOT / "docs/reference/libraries.zh-CN.md"}

#: Library -> arguments of pytest.
LIBRARIES = {
    "transformers": ["tests/integrations/test_transformers.py"],
    "accelerate": ["tests/integrations/test_accelerate.py"],
    "lightning": ["tests/integrations/test_lightning.py"],
    "deepspeed": ["tests/integrations/test_deepspeed.py"],
    "safetensors": ["tests/integrations/test_safetensors.py"],
    **{
        name: ["tests/integrations/test_more_libraries.py", "-k", name]
        for name in ("peft", "diffusers", "torchao", "torchmetrics", "einops", "timm")
    },
}
#: Column -> tests that count for it. A test may count for several; the last column has those that count for none.
COLUMNS = {
    "training": r"train|gradient_accumulation",
    "mixed precision": r"\[(bf16|fp16|16)|fabric",
    "resume": r"resume",
    "distributed": r"ranks|launch",
    "inference, loading": r"inference|generate|pipeline|device_map|dispatch|offload|evaluation|load|safe_open|models",
    "other": r"$^",
}
CHINESE = {"library": "库", "version": "版本", "date": "日期", "training": "训练", "mixed precision": "混合精度"}
CHINESE |= {"resume": "恢复", "distributed": "分布式", "inference, loading": "推理、加载", "other": "其他"}
#: Installed after the others, and removed again if its binaries do not fit this torch.
BINARY = "torchvision"


def run(command: list[str], log: Path, **variables: str) -> int:
    """Run a command with its output in a log file; returns its status."""
    with log.open("a") as output:
        environment = {**os.environ, **variables}
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
        if done.returncode:
            print(f"-- status {done.returncode}: {' '.join(command)}", file=output)
    return done.returncode


def prepare(log: Path) -> str:
    """Make the environment, unless it is there; returns the path of its Python."""
    folder = WORK / "env"
    python, ready = str(folder / "bin" / "python"), folder / "ready"
    if ready.exists():
        return python
    print("== packages", flush=True)
    subprocess.run([str(BASE / "bin" / "python"), "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    base = BASE / packages.relative_to(folder)
    (packages / "base.pth").write_text(f"import site; site.addsitedir({str(base)!r})\n")
    version = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('torch'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    constraints = WORK / "constraints.txt"
    constraints.write_text(f"torch=={version}\n")
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "-c", str(constraints)]
    if run([*install, *(name for name in LIBRARIES if name != "timm")], log):
        raise SystemExit(f"the libraries cannot be installed: see {log}")
    if run([*install, BINARY, "timm"], log) or run([python, "-c", f"import {BINARY}"], log):
        # PyPI's is built for CUDA. A broken one breaks every library that looks for it.
        print(f"   no {BINARY} for torch {version}: timm is left out", flush=True)
        run([python, "-m", "pip", "uninstall", "--yes", BINARY, "timm"], log)
    ready.touch()
    return python


def columns(test: str) -> list[str]:
    """The columns that a test counts for."""
    return [name for name, pattern in COLUMNS.items() if re.search(pattern, test)] or ["other"]


def counts(report: Path) -> dict[str, dict[str, int]]:
    """Read pytest's report: column -> outcome -> number of tests."""
    found: dict[str, dict[str, int]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = "passed"
        for tag in ("skipped", "failure", "error"):
            if case.find(tag) is not None:
                outcome = "skipped" if tag == "skipped" else "failed"
        for name in columns(case.get("name", "")):
            numbers = found.setdefault(name, {})
            numbers[outcome] = numbers.get(outcome, 0) + 1
    return found


def cell(numbers: dict[str, int]) -> str:
    """Passed tests, and failed ones if any."""
    failed = f"**{numbers['failed']} failed**" if numbers.get("failed") else ""
    passed = str(numbers["passed"]) if numbers.get("passed") else ""
    return ", ".join(filter(None, (passed, failed))) or "-"


def check(library: str, python: str, log: Path) -> dict[str, object] | None:
    """Test a library; None if it is not installed."""
    query = f"import importlib.metadata as m; print(m.version({library!r}))"
    version = subprocess.run([python, "-c", query], capture_output=True, text=True)
    if version.returncode:
        return None
    report = WORK / "report.xml"
    report.unlink(missing_ok=True)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *LIBRARIES[library]]
    status = run(pytest, log, HARDPOINT_DEVICE="sim")
    numbers = counts(report) if report.exists() else {"other": {"failed": 1}}
    row = {name: cell(numbers.get(name, {})) for name in COLUMNS}
    print(f"   {library:14} {version.stdout.strip():10} " + ", ".join(f"{k}: {v}" for k, v in row.items()), flush=True)
    date = datetime.date.today().isoformat()
    result: dict[str, object] = {"library": library, "version": version.stdout.strip(), "date": date, **row}
    (WORK / f"{library}.json").write_text(json.dumps(result, indent=1) + "\n")
    return {**result, "failed": status != 0}


def write_pages() -> None:
    """Put the results of this machine into the docs; rows of libraries that it does not have stay."""
    head = ["library", "version", "date", *COLUMNS]
    for language, page in PAGES.items():
        text = page.read_text()
        rows = {match[1]: match[0] for match in re.finditer(r"^\| (\w+) \| \d.*", text, re.MULTILINE)}
        for path in WORK.glob("*.json"):
            result = json.loads(path.read_text())
            rows[result["library"]] = f"| {' | '.join(str(result[name]) for name in head)} |"
        names = [CHINESE[name] if language == "zh" else name for name in head]
        table = [f"| {' | '.join(names)} |", f"|{'---|' * len(head)}", *(rows[n] for n in LIBRARIES if n in rows)]
        begin, end = "<!-- libraries -->", "<!-- end of libraries -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        page.write_text(f"{before}{begin}\n\n" + "\n".join(table) + f"\n\n{end}{after}")


def main() -> int:
    """Test the libraries given on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", help=f"libraries (default: {' '.join(LIBRARIES)})")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    log = WORK / "log.txt"
    log.unlink(missing_ok=True)
    python = prepare(log)
    print("== libraries", flush=True)
    results = [check(library, python, log) for library in options.libraries or LIBRARIES]
    write_pages()
    bad = [result["library"] for result in results if result is not None and result["failed"]]
    if bad:
        print(f"failures with {', '.join(map(str, bad))}: see {log}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
