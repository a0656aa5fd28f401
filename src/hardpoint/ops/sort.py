"""Sorting and order statistics. ``indices`` are positions in the row. NaN sorts as the largest value."""

from hardpoint.ops import custom_op

OPS = (
    custom_op("sort(self; dim, descending, stable)", "out, indices = self sorted along a dimension", "sort.stable"),
    custom_op("topk(self; k, dim, largest, sorted)", "out, indices = first k in sorted order", "topk"),
    custom_op("kthvalue(self; k, dim, keepdim)", "out, indices = k-th smallest element", "kthvalue.values"),
    custom_op("median(self; dim, keepdim)", "out, indices = lower median, propagating NaN", "median median.dim_values"),
    custom_op(
        "nanmedian(self; dim, keepdim)", "out, indices = lower median, ignoring NaN", "nanmedian nanmedian.dim_values"
    ),
    custom_op(
        "mode(self; dim, keepdim)", "out, indices = most frequent element, the smallest among ties", "mode mode.values"
    ),
)
