"""Vendor kernels with HP_KERNEL_CHANNELS_LAST: the layouts that they get."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import hardpoint

LAST, FIRST = torch.channels_last, torch.contiguous_format


@pytest.fixture
def calls():
    """A convolution in Python that declines dilation with channels last; returns the layouts of its calls."""
    seen = []

    def convolution(out, x, w, bias, stride, padding, dilation, *more):
        tensors = [torch.from_dlpack(t) for t in (out, x, w)]
        layouts = [
            "both" if t.is_contiguous() and t.is_contiguous(memory_format=LAST)
            else "first" if t.is_contiguous()
            else "last" if t.is_contiguous(memory_format=LAST)
            else "other"
            for t in tensors
        ]  # fmt: skip
        seen.append(layouts)
        if list(dilation) != [1, 1] and "last" in layouts:
            raise NotImplementedError
        host = F.conv2d(tensors[1].cpu(), tensors[2].cpu(), None, list(stride), list(padding), list(dilation))
        tensors[0].copy_(host)

    with hardpoint.kernel("convolution", device="sim", channels_last=True)(convolution):
        yield seen


@pytest.mark.parametrize("formats", [(LAST, LAST), (LAST, FIRST), (FIRST, LAST), (FIRST, FIRST)])
def test_the_largest_image_decides(calls, formats):
    x = torch.randn(2, 3, 8, 7).contiguous(memory_format=formats[0])
    w = torch.randn(5, 3, 3, 2).contiguous(memory_format=formats[1])
    got = F.conv2d(x.to("sim"), w.to("sim"), padding=1)
    wanted = F.conv2d(x, w, padding=1)
    torch.testing.assert_close(got.cpu(), wanted)
    assert got.stride() == wanted.stride()
    assert calls == [["first"] * 3 if formats == (FIRST, FIRST) else ["last"] * 3]


def test_a_declined_call_comes_again_contiguous(calls):
    x = torch.randn(2, 3, 8, 7).contiguous(memory_format=LAST)
    w = torch.randn(5, 3, 3, 2).contiguous(memory_format=LAST)
    hardpoint.reset_counters()
    got = F.conv2d(x.to("sim"), w.to("sim"), dilation=2)
    torch.testing.assert_close(got.cpu(), F.conv2d(x, w, dilation=2))
    assert got.is_contiguous(memory_format=LAST)
    assert calls == [["last"] * 3, ["first"] * 3]
    assert hardpoint.counters()["aten::convolution_overrideable"] == {"vendor": 1}


def test_layouts_that_are_neither_become_contiguous(calls):
    x = torch.randn(2, 8, 7, 3).transpose(1, 3)  # channels vary fastest, but rows and columns are swapped
    w = torch.randn(5, 3, 2, 2)
    torch.testing.assert_close(F.conv2d(x.to("sim"), w.to("sim")).cpu(), F.conv2d(x, w))
    assert calls[0][1] in ("first", "last")
    assert "other" not in calls[0]


def test_one_channel_is_both(calls):
    x = torch.randn(2, 1, 8, 7)
    w = torch.randn(5, 1, 3, 2).contiguous(memory_format=LAST)
    torch.testing.assert_close(F.conv2d(x.to("sim"), w.to("sim")).cpu(), F.conv2d(x, w))
    assert len(calls) == 1
    assert "other" not in calls[0]
