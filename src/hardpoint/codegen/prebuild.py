"""Compile commonly used portable kernels for sim when the package is built.

Run as ``python run.py prebuild TOOL LIST FOLDER LEVELS``. LIST has one kernel per line, as HARDPOINT_RECORD_KERNELS
writes it. FOLDER gets one archive per CPU level in LEVELS: ON means all levels, NATIVE the best one that this machine
supports; anything else is the fingerprint of a level. Kernels that fail to compile are skipped: they are compiled on
first use, or the next tier takes the call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hardpoint.kernels import prebuilt
from hardpoint.kernels.generator import generate


def sources(listed: str) -> dict[str, str]:
    """Key -> source of the listed kernels."""
    found = {}
    for line in sorted(set(listed.splitlines())):
        name, _, description = line.partition("\t")
        made = generate(name, description, "c", 1)
        if made is not None:
            found[prebuilt.key(made[0])] = made[0]
    return found


def cached_binaries(archive: Path, tool: Path) -> dict[str, bytes]:
    """Binaries of an earlier build, unless the tool has changed since."""
    if not archive.exists() or archive.stat().st_mtime < tool.stat().st_mtime:
        return {}
    try:
        with zipfile.ZipFile(archive) as old:
            return {name: old.read(name) for name in old.namelist()}
    except (OSError, zipfile.BadZipFile):
        return {}


def cpu_levels(tool: Path, choice: str) -> list[str]:
    """Fingerprints of the chosen CPU levels."""
    if choice not in ("ON", "NATIVE"):
        return [choice]
    printed = subprocess.run([tool], check=True, capture_output=True, text=True).stdout.splitlines()
    levels = dict(line.split() for line in printed)
    return list(levels) if choice == "ON" else [level for level, kind in levels.items() if kind == "native"]


def main() -> None:
    """Fill the archives."""
    tool, listed, folder = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    kernels = sources(listed.read_text())
    levels = cpu_levels(tool, sys.argv[4])
    for unwanted in folder.glob("*.zip"):  # of an earlier build with another choice
        if unwanted.stem not in levels:
            unwanted.unlink()
    jobs = int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2"))
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(jobs) as pool:
        for key, text in kernels.items():
            (Path(work) / f"{key}.c").write_text(text)

        def compiled(level: str, key: str) -> bytes | None:
            target = Path(work) / f"{level}-{key}"
            done = subprocess.run([tool, level, Path(work) / f"{key}.c", target], capture_output=True)
            return target.read_bytes() if done.returncode == 0 else None

        for level in levels:
            old = cached_binaries(folder / f"{level}.zip", tool)
            binaries = list(pool.map(lambda key, level=level, old=old: old.get(key) or compiled(level, key), kernels))
            # ZipInfo has a fixed timestamp, so that builds are reproducible.
            with zipfile.ZipFile(folder / f"{level}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for key, binary in zip(kernels, binaries, strict=True):
                    if binary is not None:
                        archive.writestr(zipfile.ZipInfo(key), binary, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
