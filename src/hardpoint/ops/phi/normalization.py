"""Normalization, and its gradients."""

from hardpoint.ops.phi import PLAIN, Kernels, Signature

KERNELS: Kernels = {
    "batch_norm": {"batch_norm": PLAIN, "batch_norm_infer": PLAIN, "sync_batch_norm": PLAIN},
    "batch_norm_backward": {"batch_norm_grad": PLAIN, "sync_batch_norm_grad": PLAIN},
    "layer_norm": {"layer_norm": PLAIN},
    "layer_norm_backward": {"layer_norm_grad": PLAIN},
    "rms_norm": {"rms_norm": PLAIN},
    "rms_norm_backward": {"rms_norm_grad": PLAIN},
    "group_norm": {"group_norm": PLAIN, "instance_norm": PLAIN},
    "group_norm_backward": {"group_norm_grad": PLAIN, "instance_norm_grad": PLAIN},
}

ROWS = {"normalized_shape": "INT64S", "epsilon": "FLOAT64"}
CHANNELS = {"momentum": "FLOAT32", "epsilon": "FLOAT32", "data_layout": "STRING"}
CHOICES = {"use_global_stats": "BOOL", "trainable_statistics": "BOOL"}

SIGNATURES = {
    "rms_norm": Signature(("x", "scale?"), ROWS, ("y", "invvar")),
    "rms_norm_grad": Signature(("x", "scale?", "invvar", "y_grad"), ROWS, ("x_grad", "scale_grad")),
    "sync_batch_norm": Signature(
        ("x", "mean", "variance", "scale", "bias"),
        {"is_test": "BOOL", **CHANNELS, **CHOICES},
        ("y", "mean_out", "variance_out", "saved_mean", "saved_variance", "reserve_space"),
    ),
    "sync_batch_norm_grad": Signature(
        ("x", "scale", "bias", "saved_mean", "saved_variance", "reserve_space?", "y_grad"),
        {**CHANNELS, "is_test": "BOOL", **CHOICES},
        ("x_grad", "scale_grad", "bias_grad"),
    ),
}
