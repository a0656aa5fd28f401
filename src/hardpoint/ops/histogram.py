"""Histograms over given or equal bins."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "histogram(self, bins, weight)",
        "hist, bin_edges = number of elements, or total weight, of each bin",
        "histogram.bins_tensor histogram.bins_tensor_out histogram.bin_ct histogram.bin_ct_out",
    ),
    custom_op(
        "histogramdd_bin_edges(self)", "out = edges of equal bins along each dimension", "_histogramdd_bin_edges"
    ),
    custom_op(
        "histogramdd(self, bins, weight)",
        "out = number of points, or total weight, of each multidimensional bin",
        "_histogramdd_from_bin_cts _histogramdd_from_bin_tensors",
    ),
)
