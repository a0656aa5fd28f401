"""ABI stability: plug-ins built with the headers of 1.0 and 1.1 still load."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python, compile_c, layout

from hardpoint._runtime import ABI, include_dir

FROZEN = sorted((ROOT / "tests" / "fixtures").glob("plugin_1_?.h"))
NAMES = [path.stem for path in FROZEN]


def test_every_older_minor_is_frozen() -> None:
    assert [f"plugin_1_{minor}" for minor in range(ABI[1])] == NAMES


@pytest.mark.parametrize("frozen", FROZEN, ids=NAMES)
def test_tables_only_grow_at_their_end(frozen: Path, tmp_path: Path) -> None:
    old, new = layout(frozen, tmp_path), layout(include_dir() / "hardpoint" / "plugin.h", tmp_path)
    assert {"HpHost", "HpPlugin", "HpStreams", "HpEvents", "HpInfo", "HpPinned", "HpPeer"} <= set(old)
    for struct, fields in old.items():
        kept = dict(list(new[struct].items())[: len(fields)])
        assert list(kept) == list(fields), struct
        assert kept.pop("")[1] >= fields.pop("")[1]
        assert kept == fields, struct


def test_the_header_lists_the_functions_without_a_device() -> None:
    text = (include_dir() / "hardpoint" / "plugin.h").read_text()
    rule = " ".join(text[text.index("Exceptions are") :].replace("\n *", " ").split()).split(". ")[0]
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    without: set[str] = set()
    for table, body in re.findall(r"typedef struct (Hp\w+) \{(.*?)\} \w+;", code, re.DOTALL):
        for name, first in re.findall(r"^  \w[\w ]*\*? ?\(\*(\w+)\)\(([^,;]*)", body, re.MULTILINE):
            if table in ("HpPinned", "HpTracing"):
                without.add({"HpPinned": "pinned memory", "HpTracing": "tracing"}[table])
            elif first.startswith("HpCommunicator"):
                without.add("communicators")
            elif table != "HpHost" and not re.match(r"int (dst_)?device\b", first):
                without.add(f"`{name}`")
    assert {each for each in without if each not in rule} == set()
    assert set(re.findall(r"`\w+`", rule)) == {each for each in without if each.startswith("`")}


@pytest.mark.slow
@pytest.mark.parametrize("frozen", FROZEN, ids=NAMES)
def test_plugin_built_with_an_old_header(frozen: Path, tmp_path: Path) -> None:
    (tmp_path / "hardpoint").mkdir()
    shutil.copy(frozen, tmp_path / "hardpoint" / "plugin.h")
    flags = ("-Wno-unused", "-shared", "-fPIC", f"-I{tmp_path}")
    path = compile_c(ROOT / "tests" / "fixtures" / "plugin.c", tmp_path / "libtest.so", *flags)
    code = """
import torch, hardpoint
a, b = torch.tensor([1.0, 2.0], device="test"), torch.tensor([10.0, 20.0], device="test")
answer = dict(sum=(a + b).tolist(), calls=hardpoint.counters()["aten::add.Tensor"])
"""
    answer = ask_python(code, tmp_path / "cache", HARDPOINT_PLUGIN_PATH=str(path), HARDPOINT_DEVICE="test")
    assert answer == {"sum": [11, 22], "calls": {"vendor": 1}}
