"""Names of devices in Paddle's test files."""

#: Device names that test files are written for; they mean the device under test.
FOREIGN = ("npu", "gpu", "xpu", "mlu", "gcu", "sdaa", "metax_gpu", "iluvatar_gpu", "intel_hpu", "custom_cpu")
