"""Tensors and results of tools in words."""

from __future__ import annotations

from typing import Any


def words(described: Any) -> str:
    """What :func:`value` gave, in one line."""
    if isinstance(described, dict):
        text = (
            f"numel:{described['numel']}, sizes:{described['sizes']}, strides:{described['strides']}, "
            f"view:{int(described['view'])}, dtype:{described['dtype']}, device:{described['device']}, "
            f"data_ptr:{described['data_ptr']}"
        )
        return f"{text}, values:{described['values']}" if "values" in described else text
    if isinstance(described, list):
        return "[" + "; ".join(words(item) for item in described) + "]"
    return str(described)
