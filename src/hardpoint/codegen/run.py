"""Run a generator at build time: ``python run.py torch_wrappers OUTPUT.cpp``.

``hardpoint/__init__.py`` needs the compiled core, which does not exist yet, so an empty package replaces it here.
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
# Without this, modules in this folder shadow top-level modules.
sys.path[:] = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]
runpy.run_module(f"hardpoint.codegen.{generator}", run_name="__main__")
