"""The device mychip for PyTorch and PaddlePaddle. Hardpoint finds it through the entry point in pyproject.toml."""
