"""Histograms over given or equally wide bins."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "histogram",
        "custom",
        ("self", "bins", "weight"),
        "hist, bin_edges = how many elements, or what weight, each bin holds",
        {
            "histogram.bins_tensor": Overload(),
            "histogram.bins_tensor_out": Overload(),
            "histogram.bin_ct": Overload(),
            "histogram.bin_ct_out": Overload(),
        },
    ),
    Op(
        "histogramdd_bin_edges",
        "custom",
        ("self",),
        "out = the edges of equally wide bins along each dimension",
        {"_histogramdd_bin_edges": Overload()},
    ),
    Op(
        "histogramdd",
        "custom",
        ("self", "bins", "weight"),
        "out = how many points, or what weight, each bin of several dimensions holds",
        {"_histogramdd_from_bin_cts": Overload(), "_histogramdd_from_bin_tensors": Overload()},
    ),
)
