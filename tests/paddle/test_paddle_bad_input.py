"""Errors are reported in one message that names the cause, and the program continues."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import paddle
import pytest
from comparison import assert_same


@pytest.mark.parametrize(
    ("name", "call", "dtype"),
    [
        ("kthvalue", lambda x: paddle.kthvalue(x, 1), "bool"),
        ("qr", paddle.linalg.qr, "int32"),
        ("relu", paddle.nn.functional.relu, "bool"),
        ("add", lambda x: x + x, "float8_e4m3fn"),
    ],
)
def test_unsupported_dtype(name, call, dtype, rng):
    """Paddle's kernel lookup fails: its message names the device, the dtype, the operator, and the available dtypes."""
    x = paddle.ones([3, 3]).astype(dtype)
    expected = rf"sim, .*{dtype}\) of kernel `{name}` is not registered[\s\S]*support following DataTypes: .*float32"
    with pytest.raises(RuntimeError, match=expected):
        call(x)
    assert_same(call, rng.standard_normal((3, 3)).astype("float32"))


MEMORY = """
import hardpoint, numpy as np, paddle

def refused(call):
    try:
        call()
    except MemoryError as error:
        print(str(error).replace("\\n", " "))
    else:
        raise AssertionError("there was room")

paddle.set_device("sim:0")
data = np.arange(10 << 20, dtype="float32")
kept = [paddle.to_tensor(data)]
refused(lambda: kept.extend(kept[0] + i for i in range(10)))  # an operator on the device
assert 3 <= len(kept) < 7, len(kept)
refused(lambda: paddle.to_tensor(data))  # a copy
refused(lambda: paddle.nn.functional.temporal_shift(kept[0].reshape([2, 5, 1024, 1024]), 2))  # the CPU tier
assert hardpoint.counters()["phi::temporal_shift"] == {"cpu": 1}
for i, tensor in enumerate(kept):
    np.testing.assert_array_equal(tensor.numpy(), data + np.float32(max(i - 1, 0)))
del kept[1:]
again = kept[0] + kept[0]
np.testing.assert_array_equal(again.numpy(), data * 2)
paddle.set_device("sim:1")
assert paddle.to_tensor(data).sum().item() > 0  # the other device has its own memory
"""


@pytest.mark.slow
def test_out_of_memory(run_python):
    done = run_python(MEMORY, HARDPOINT_SIM_MEMORY="200M", GLOG_minloglevel="2")
    messages = done.stdout.splitlines()
    assert len(messages) == 3
    for message in messages:
        assert re.search(r"Out of memory error on sim:0|phi::\w+: .*out of memory", message), message


UNTOUCHED = """
import paddle
assert paddle.device.get_all_custom_device_type() == []
assert (paddle.ones([2]) + 1).tolist() == [2, 2]
"""


@pytest.mark.slow
def test_a_plug_in_without_devices(run_python, tmp_path: Path):
    plugin = tmp_path / "none.py"
    example = Path(__file__).parents[2] / "examples" / "hello_python" / "hello.py"
    plugin.write_text(example.read_text().replace("return 1", "return 0", 1).replace('name = "hello"', 'name = "none"'))
    done = run_python(UNTOUCHED, HARDPOINT_DEVICE="none", HARDPOINT_PLUGIN_PATH=str(plugin))
    said = [line for line in done.stderr.splitlines() if line.startswith("[hardpoint]")]
    assert len(said) == 1, done.stderr
    assert "no device was mounted on Paddle" in said[0]
    assert "plug-in 'none' found no device" in said[0]


@pytest.mark.slow
def test_another_library_that_cannot_be_loaded(run_python, tmp_path: Path):
    """Paddle aborts its import for any such library. Its message names the file, and so does `hardpoint doctor`."""
    root = tmp_path / "paddle_custom_device"
    root.mkdir()
    shutil.copy(Path(os.environ["CUSTOM_DEVICE_ROOT"]) / "libhardpoint_paddle.so", root)
    (root / "libbroken.so").write_text("no library at all\n")
    done = run_python(
        """
        try:
            import paddle
        except ValueError as error:
            print(error)
        from hardpoint.doctor import checkup
        print(*(f"doctor: {f.ok} {f.detail}; {f.advice}" for f in checkup() if f.subject == "other Paddle plug-ins"))
        """,
        CUSTOM_DEVICE_ROOT=str(root),
    )
    said = done.stdout.split("doctor: ")
    assert len(said) == 2, done.stdout
    assert "Fail to open library" in said[0]
    assert "libbroken.so" in said[0]
    assert re.fullmatch(rf"False Fail to open library: .*libbroken\.so.*; .* remove it from {root}\n", said[1])


@pytest.mark.parametrize("label", [5, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_out_of_range_is_an_index_error(label, weighted):
    scores = paddle.ones([4, 5])
    labels = paddle.to_tensor([0, 1, label, 2])
    weight = paddle.ones([5]) if weighted else None
    with pytest.raises(IndexError, match=f"index {label} is out of bounds for dimension with size 5"):
        paddle.nn.functional.cross_entropy(scores, labels, weight=weight, ignore_index=-100).numpy()
    losses = paddle.nn.functional.cross_entropy(scores, labels, ignore_index=label, reduction="none").numpy()
    np.testing.assert_allclose(losses.ravel(), np.log(5) * np.array([1, 1, 0, 1]), rtol=1e-6)


def test_bounds_in_the_wrong_order_are_refused():
    x = paddle.to_tensor([-2.0, 0.5, 2.0])
    assert paddle.clip(x, 1.0, 1.0).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="max should be greater than or equal to min"):
        paddle.clip(x, 1.0, -1.0)
    assert x.clip_(-1.0, 1.0).tolist() == [-1, 0.5, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: paddle.topk(x, 9), "top"),
        (lambda x: paddle.nn.functional.pad(x, [5, 0], mode="reflect", data_format="NCL"), "reflect"),
        (lambda x: paddle.nn.functional.pad(x, [0, 3], mode="reflect", data_format="NCL"), "reflect"),
    ],
)
def test_reading_past_a_tensor_is_refused(call, message):
    x = paddle.ones([2, 2, 3])
    with pytest.raises(ValueError, match=message):
        call(x).numpy()
    assert (x + x).numpy().sum() == 24
