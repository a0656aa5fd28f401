"""Selection by value. Operators with data-dependent output sizes have no vendor kernel."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "masked_fill(mask, value)",
        "writes a value to out where mask is true",
        "masked_fill_.Scalar masked_fill_.Tensor",
    ),
    custom_op(
        "nonzero(self)",
        "out = coordinates of the nonzero elements",
        "nonzero nonzero.out nonzero_static nonzero_static.out",
    ),
    custom_op("count_nonzero(self)", "out = number of nonzero elements", "count_nonzero.dim_IntList"),
    custom_op("masked_select(self, mask)", "out = elements where mask is true", "masked_select masked_select.out"),
    custom_op(
        "masked_scatter(mask, source)",
        "writes consecutive elements of source to out where mask is true",
        "masked_scatter_",
    ),
    custom_op("unique(self)", "out = distinct elements, sorted", "_unique2 _unique"),
    custom_op("unique_consecutive(self)", "out = first element of each run of equal elements", "unique_consecutive"),
    custom_op(
        "repeat_interleave(repeats)", "out = index of each element, repeated by its value", "repeat_interleave.Tensor"
    ),
    custom_op(
        "searchsorted(sorted_sequence, self, sorter; right)",
        "out = insertion index of each element in a sorted row",
        "searchsorted.Tensor searchsorted.Tensor_out searchsorted.Scalar bucketize.Tensor bucketize.Tensor_out "
        "bucketize.Scalar",
    ),
    custom_op(
        "isin(elements, test_elements; invert)",
        "out = whether each element is in the test elements, which are sorted or at most 32",
        "isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor",
    ),
    custom_op(
        "bincount(self, weights)", "out = number of occurrences of each value, or the sum of its weights", "bincount"
    ),
    custom_op("histc(self)", "out = number of elements in each of several equal bins", "histc histc.out"),
    custom_op("tril_indices()", "out = coordinates of a lower triangle", "tril_indices"),
    custom_op("triu_indices()", "out = coordinates of an upper triangle", "triu_indices"),
)
