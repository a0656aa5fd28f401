"""Selected rows: gradients of embeddings."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

SPARSE = (
    *("sgd_dense_param_sparse_grad", "embedding_sparse_grad", "merge_selected_rows", "add_n_sr", "add_n"),
    "get_tensor_from_selected_rows",
)

#: Optimizers -> the kernel for dense gradients, and the position of the attribute that leaves other rows as they are.
WITH_DENSE_GRADIENT = {
    "momentum_dense_param_sparse_grad": ("momentum", -1),
    "adam_dense_param_sparse_grad": ("adam", 3),
    "adamw_dense_param_sparse_grad": ("adamw", 6),
    "adagrad_dense_param_sparse_grad": ("adagrad", -1),
    "rmsprop_dense_param_sparse_grad": ("rmsprop", -1),
    "lamb_sr": ("lamb", -1),
}

#: Kernels -> the dense one to call with the values.
ON_VALUES = {"scale_sr": "scale", "multiply_sr": "multiply", "sqrt_sr": "sqrt", "square_sr": "square"}
