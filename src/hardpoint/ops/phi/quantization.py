"""Fake quantization, for quantization-aware training."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    "fake_quantize_dequantize_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max_grad",
    "fake_quantize_dequantize_abs_max_grad",
    "fake_quantize_dequantize_moving_average_abs_max_grad",
)
