"""The device mychip for PyTorch and PaddlePaddle. Hardpoint finds it by the entry point in pyproject.toml."""
