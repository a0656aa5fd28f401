"""Runs a generator at build time: ``python run.py torch_wrappers OUTPUT.cpp``.

The package's own ``__init__`` needs the compiled core, which is being built; so the generators see a bare package that
holds the tables only.
"""

import runpy
import sys
import types
from pathlib import Path

for name in ("hardpoint", "hardpoint.kernels"):
    package = types.ModuleType(name)
    package.__path__ = [str(Path(__file__).parent.parent.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package
generator = sys.argv.pop(1)
# This script's folder would otherwise shadow top-level modules of the same name.
sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]
runpy.run_module(f"hardpoint.codegen.{generator}", run_name="__main__")
