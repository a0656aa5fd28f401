"""Optimizers and loss scaling."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    **{
        f"{name}_step": {name: PLAIN}
        for name in ("sgd", "adamax", "adagrad", "adadelta", "rmsprop", "lamb", "nadam", "radam", "asgd", "rprop")
    },
    "momentum_step": {"momentum": PLAIN, "merged_momentum": PLAIN},
    "adam_step": {"adam": PLAIN, "adamw": PLAIN, "merged_adam": PLAIN},
    "loss_scale_step": {"update_loss_scaling": PLAIN},
}

COMPOSED = ("check_finite_and_unscale", "clip_by_norm", "squared_l2_norm", "squared_l2_norm_grad")
