"""The steps from a Triton kernel to a binary."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, core
from hardpoint.kernels import specializer
from hardpoint.kernels.generator import preamble
from hardpoint.triton import kernel
from hardpoint.triton.ir import LoweringError
from hardpoint.triton.target import Target

#: gcc would turn comparisons of selected values into branches, and then not vectorize the loop.
LOOP_FLAGS = "-fno-thread-jumps -fno-tree-pre"
#: gcc would unroll the short loops of a long kernel, such as a sorting network, and then compile for a minute.
LONG_FLAGS = "--param max-completely-peeled-insns=20"
#: Lines of a long kernel.
LONG = 1000


@functools.cache
def version() -> str:
    """Identity of the translation, for Triton's cache."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(preamble().encode())
    for file in sorted([*folder.glob("*.py"), *folder.glob("*.h")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def make_ttir(module: Any, metadata: dict[str, Any]) -> Any:
    """Triton's own simplifications, everything inlined, block pointers and descriptors as plain pointers."""
    from triton._C.libtriton import ir, passes

    text = str(module)
    if "noinline = true" in text:
        module = _parse(text.replace("noinline = true", "noinline = false"), module.context)
    manager = ir.pass_manager(module.context)
    passes.common.add_inliner(manager)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # Triton 3.9 has no block pointers
        passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.common.add_cse(manager)
    passes.common.add_licm(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "make_ttir")
    return module


def _parse(text: str, context: Any) -> Any:
    from triton._C.libtriton import ir

    with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


def target(device: str) -> Target:
    """The target of the translation for a device."""
    compiler = core.compiler(device, 0)
    if compiler is None:
        return Target()
    dialect, _, group_size = compiler
    return Target(dialect, group_size, core.local_memory(device, 0))


def make_source(device: str, options: Any, module: Any, metadata: dict[str, Any]) -> str:
    """The kernel in the dialect of the device's compiler."""
    source = kernel.lower(str(module), dataclasses.replace(target(device), guard=options.guard))
    if options.launch_cooperative_grid:
        raise LoweringError(
            f"Triton kernel {source.name} cannot run on this device: launch_cooperative_grid asks for programs that "
            "all run at the same time"
        )
    metadata["name"] = source.name
    metadata["kernel"] = source.kernel
    metadata["shared"] = max(source.array_bytes, 1)  # programs divide by it
    metadata["asserts"] = source.asserts
    metadata["addresses"] = source.addresses
    metadata["guarded"] = source.guarded
    metadata["workspace"] = source.workspace
    return preamble(special=source.special) + source.text


def make_binary(device: str, options: Any, source: str, metadata: dict[str, Any]) -> bytes:
    """The binary: from the cache of portable kernels, or from the plug-in's compiler."""
    compiler = core.compiler(device, 0)
    if compiler is None:
        raise LoweringError(f"{device} has no compiler for Triton kernel {metadata['name']}")
    flags = ""
    if compiler[0] == "c":
        flags = f"-ffp-contract=fast {LOOP_FLAGS}" if options.enable_fp_fusion else LOOP_FLAGS
        if source.rpartition(f"void {metadata['name']}(")[2].count("\n") > LONG:
            flags += f" {LONG_FLAGS}"
    try:
        try:
            return specializer.binary(device, 0, compiler[1], source, flags)
        except PluginError as error:
            if "internal compiler error" not in str(error):
                raise
            # The loop vectorizer of gcc 12 crashes on some masked loads; at -O2 it does not.
            return specializer.binary(device, 0, compiler[1], source, f"{flags} -O2 -ftree-vectorize")
    except PluginError as error:
        raise PluginError(f"Triton kernel {metadata['name']}: {error}") from None
