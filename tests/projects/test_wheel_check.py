"""The ABI check of wheels: each wheel has one defect."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from plugin_tools import ROOT, compile_c
from typer.testing import CliRunner

from hardpoint.cli import app
from hardpoint.projects import wheel_check
from hardpoint_build.paths import exports

METADATA = "Metadata-Version: 2.1\nName: acme\nVersion: 1\nRequires-Dist: {}\n"
ENTRY = "[hardpoint.plugins]\nacme = acme:library\n"
GOOD = """
#include <hardpoint/plugin.h>
static HpStatus device_count(int* count) { *count = 1; return HP_OK; }
static HpStatus allocate(int device, size_t bytes, void** ptr) {
  (void)device, (void)bytes, (void)ptr;
  return HP_OUT_OF_MEMORY;
}
static HpStatus release(int device, void* ptr) { (void)device, (void)ptr; return HP_OK; }
static HpStatus copy(int device, void* dst, const void* src, size_t bytes, HpStream stream) {
  (void)device, (void)dst, (void)src, (void)bytes, (void)stream;
  return HP_OK;
}
static const HpPlugin plugin = {HP_PLUGIN_HEADER, .name = "acme", .device_count = device_count, .allocate = allocate,
                                .free = release, .copy_to_device = copy, .copy_to_host = copy, .copy_on_device = copy};
HP_EXPORT HpStatus hp_plugin_init(const HpHost* host, const HpPlugin** result) {
  (void)host;
  *result = &plugin;
  return HP_OK;
}
HP_EXPORT int __tvm_ffi_add(void* self, const void* args, int32_t count, void* result) {
  return self == args && count == 0 && result == self;
}
"""


def make(
    folder: Path,
    source: str = GOOD,
    *flags: str,
    entry: str = ENTRY,
    requires: str = "hardpoint",
    module: str = "acme/__init__.py",
) -> dict[str, wheel_check.Finding]:
    """Findings by subject for a wheel with one library."""
    (folder / "plugin.c").write_text(source)
    library = compile_c(folder / "plugin.c", folder / "libacme.so", "-shared", "-fPIC", *flags)
    wheel = folder / "acme-1-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(library, "acme/libacme.so")
        archive.writestr(module, "")
        archive.writestr("acme-1.dist-info/METADATA", METADATA.format(requires))
        if entry:
            archive.writestr("acme-1.dist-info/entry_points.txt", entry)
    return {finding.subject: finding for finding in wheel_check.check(wheel)}


def test_valid_wheel(tmp_path: Path) -> None:
    found = make(tmp_path, GOOD, f"-Wl,--version-script={exports()}")
    assert {finding.ok for finding in found.values()} == {True}
    shown = found["acme/libacme.so exports"].detail
    assert sorted(shown.split(", ")) == ["__tvm_ffi_add", "hp_plugin_init"]
    assert "manylinux_2_17" in found["acme/libacme.so runs on"].detail
    assert found["acme/libacme.so loads"].detail == "accepted by this Hardpoint"


def test_plugin_without_its_device(tmp_path: Path) -> None:
    """A wheel may be built on a machine without the device."""
    found = make(tmp_path, GOOD.replace("*count = 1", "*count = 0"))["acme/libacme.so loads"]
    assert found.ok is None
    assert found.detail.startswith("refused on this machine: plug-in 'acme' found no device")


EXPORTS_MORE = GOOD + "HP_EXPORT void Malloc(void) {}\n"
NEEDS_TORCH = GOOD + (
    'extern void at_add(void) __asm__("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");\n'
    "HP_EXPORT void __tvm_ffi_two(void) { at_add(); }\n"
)
NEEDS_PADDLE = GOOD + "extern void PD_GetStream(void);\nHP_EXPORT void __tvm_ffi_two(void) { PD_GetStream(); }\n"
NEEDS_PYTHON = GOOD + "extern void PyErr_Clear(void);\nHP_EXPORT void __tvm_ffi_two(void) { PyErr_Clear(); }\n"
DEFECTS = {
    "another export": ({"source": EXPORTS_MORE}, "acme/libacme.so exports", "Malloc"),
    "torch": ({"source": NEEDS_TORCH}, "acme/libacme.so frameworks", "_ZN2at4_ops10add_Tensor"),
    "paddle": ({"source": NEEDS_PADDLE}, "acme/libacme.so frameworks", "PD_GetStream"),
    "python": ({"source": NEEDS_PYTHON}, "acme/libacme.so Python", "PyErr_Clear"),
    "refused": (
        {"source": GOOD.replace(".copy_to_host = copy, ", "")},
        "acme/libacme.so loads",
        "refused: HpPlugin lacks the required function(s) copy_to_host:",
    ),
    "crashes": (
        {"source": GOOD.replace("(void)host;", "(void)host; __builtin_trap();")},
        "acme/libacme.so loads",
        "refused: crashed with signal 4",
    ),
    "no entry point": ({"entry": ""}, "entry point", "so that the plug-in is found"),
    "no module": ({"module": "other.py"}, "entry point", "no module acme"),
    "requires torch": ({"requires": "torch>=2"}, "requirements", "torch>=2"),
    "requires nothing": ({"requires": "numpy"}, "requirements", 'dependencies = ["hardpoint"]'),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects(defect: str, tmp_path: Path) -> None:
    options, subject, words = DEFECTS[defect]
    found = make(tmp_path, **options)
    assert [s for s, finding in found.items() if finding.ok is False] == [subject]
    assert words in found[subject].detail
    done = CliRunner().invoke(app, ["wheel", "--check", str(next(tmp_path.glob("*.whl")))])
    assert done.exit_code == 1
    assert words in done.output


def test_linked_libraries(tmp_path: Path) -> None:
    """Linking a framework is an error; linking a driver is reported for review."""
    for name in ("torch_cpu", "acmedriver"):
        stub = tmp_path / f"{name}.c"
        stub.write_text(f"void {name}_call(void);\nvoid {name}_call(void) {{}}\n")
        compile_c(stub, tmp_path / f"lib{name}.so", "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so")
    flags = [f"-L{tmp_path}", "-Wl,--no-as-needed", "-ltorch_cpu", "-lacmedriver"]
    found = make(tmp_path, GOOD, *flags)
    assert found["acme/libacme.so frameworks"].ok is False
    assert "libtorch_cpu.so" in found["acme/libacme.so frameworks"].detail
    assert found["acme/libacme.so libraries"].ok is None
    assert found["acme/libacme.so libraries"].detail.endswith(": libacmedriver.so")


@pytest.mark.parametrize("pinned", [False, True])
def test_module_linked_to_torch(pinned: bool, tmp_path: Path) -> None:
    stub = tmp_path / "torch.c"
    stub.write_text("void torch_call(void);\nvoid torch_call(void) {}\n")
    compile_c(stub, tmp_path / "libtorch_cpu.so", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so")
    source = (
        '__attribute__((visibility("default"))) void* PyInit_libacme(void);\nvoid* PyInit_libacme(void) {return 0;}\n'
    )
    requires = "hardpoint\nRequires-Dist: torch==2.13.*" if pinned else "hardpoint"
    flags = [f"-L{tmp_path}", "-Wl,--no-as-needed", "-ltorch_cpu"]
    found = make(tmp_path, source, *flags, entry="", requires=requires)["acme/libacme.so frameworks"]
    assert found.ok is (None if pinned else False)
    assert "libtorch_cpu.so" in found.detail


def test_manylinux_policies() -> None:
    newest = {"GLIBC": "2.17", "GLIBCXX": "3.4.20"}
    fitting = [name for name, limits in wheel_check.POLICIES.items() if wheel_check._fits(newest, limits)]
    assert fitting[0] == "manylinux_2_24"
    assert len(fitting) == len(wheel_check.POLICIES) - 1
    assert not any(wheel_check._fits({"GLIBC": "2.38"}, limits) for limits in wheel_check.POLICIES.values())


def test_invalid_wheel(tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_text("no")
    for path in (tmp_path / "no.whl", tmp_path / "missing.whl", ROOT / "README.md"):
        done = CliRunner().invoke(app, ["wheel", "--check", str(path)])
        assert done.exit_code == 2
        assert "error" in done.output
