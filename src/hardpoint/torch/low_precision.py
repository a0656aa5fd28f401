"""Decompositions of products with scaled, packed or narrow operands, which PyTorch has as kernels of single devices.

Operands are converted to a dtype that holds them exactly, multiplied there, and the product is scaled and rounded once.
A RuntimeError sends the call to the next tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Values of ``torch.nn.functional.ScalingType`` whose scales are plain float32 tensors: tensor, row, blocks of 1 x 128
#: and 128 x 128.
_PLAIN_RECIPES = frozenset({0, 1, 4, 5})
_BLOCK = 128


def scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Any:
    """Product of float8 matrices with scales for the tensor, its rows or its blocks."""
    import torch

    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError("invalid sizes")
    # torch's CPU divides by scale_result, torch.cuda multiplies with it.
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32 or scale_result is not None:
        raise RuntimeError("unsupported scales")
    if _along(scale_a, a, 0) and _along(scale_b, b, 1):
        product = (a.float() @ b.float()) * (scale_a * scale_b)
    else:
        product = (a.float() * _per_element(scale_a, a)) @ (b.float() * _per_element(scale_b, b))
    if bias is not None:
        product += bias
    return product.to(a.dtype if out_dtype is None else out_dtype)


def scaled_mm_v2(
    a: Any,
    b: Any,
    scale_a: Sequence[Any],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[Any],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: Any,
    out_dtype: Any,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Any:
    """The same with a description of the scales."""
    plain = _PLAIN_RECIPES.issuperset([*recipe_a, *recipe_b]) and not any([*swizzle_a, *swizzle_b])
    if len(scale_a) != 1 or len(scale_b) != 1 or not plain or contraction_dim:
        raise RuntimeError("unsupported scales")
    return scaled_mm(a, b, scale_a[0], scale_b[0], bias, None, out_dtype)


def _along(scale: Any, matrix: Any, dim: int) -> bool:
    """Whether the scale is one number, or one per row (``dim`` 0) or column (``dim`` 1)."""
    one_per_line = scale.dim() == 2 and scale.shape[dim] == matrix.shape[dim] and scale.shape[1 - dim] == 1
    return bool(scale.numel() == 1 or one_per_line)


def _per_element(scale: Any, matrix: Any) -> Any:
    """Repeat the scale of each block over the block."""
    if scale.numel() == 1:
        return scale
    if scale.dim() != 2:
        raise RuntimeError("unsupported scales")
    for dim, size in enumerate(matrix.shape):
        if scale.shape[dim] in (1, size):
            continue
        if scale.shape[dim] != -(-size // _BLOCK):
            raise RuntimeError("unsupported scales")
        scale = scale.repeat_interleave(_BLOCK, dim).narrow(dim, 0, size)
    return scale


def scaled_grouped_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    offs: Any = None,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Any:
    """One product of float8 matrices per group, with a scale for each row of ``a`` and each column of ``b``."""
    import torch

    if (offs is None) != (a.dim() == 3 and b.dim() == 3) or bias is not None or scale_result is not None:
        raise RuntimeError("unsupported arguments")
    to = torch.bfloat16 if out_dtype is None else out_dtype
    if offs is None:
        product = (a.float() @ b.float()) * scale_a.unsqueeze(-1) * scale_b.unsqueeze(-2)
        return product.to(to)
    ends: list[int] = offs.tolist()
    starts = [0, *ends[:-1]]
    groups = list(enumerate(zip(starts, ends, strict=True)))
    if a.dim() == 2 and b.dim() == 2:  # groups along the summed dimension; each has its own scales
        rows, columns = a.shape[0], b.shape[1]
        out = a.new_empty((len(ends), rows, columns), dtype=to)
        for g, (start, end) in groups:
            product = a[:, start:end].float() @ b[start:end].float()
            scale = scale_a.view(-1, rows)[g].unsqueeze(1) * scale_b.view(-1, columns)[g]
            out[g] = product * scale
        return out
    out = a.new_zeros((a.shape[-2], b.shape[-1]), dtype=to)
    for g, (start, end) in groups:
        if a.dim() == 2:  # groups of rows
            product = a[start:end].float() @ b[g].float()
            out[start:end] = product * scale_a[start:end].unsqueeze(1) * scale_b[g]
        else:  # groups of columns
            product = a[g].float() @ b[:, start:end].float()
            out[:, start:end] = product * scale_a[g].unsqueeze(1) * scale_b[start:end]
    return out


def weight_int8pack_mm(x: Any, weight: Any, scales: Any) -> Any:
    """Product with the transpose of an int8 matrix that has a scale for each row."""
    import torch

    if x.dim() != 2 or weight.dim() != 2 or weight.dtype != torch.int8 or x.shape[1] != weight.shape[1]:
        raise RuntimeError("invalid arguments")
    return ((x.float() @ weight.float().t()) * scales.float()).to(x.dtype)


def mm_dtype(a: Any, b: Any, out_dtype: Any) -> Any:
    """``a @ b`` in a wider dtype."""
    import torch

    halves = a.dtype in (torch.float16, torch.bfloat16)
    if a.dtype != b.dtype or (out_dtype != a.dtype and not (halves and out_dtype == torch.float32)):
        raise RuntimeError(
            f"out_dtype must be the dtype of the matrices, or torch.float32 for 16-bit floats; got {out_dtype} for "
            f"{a.dtype} and {b.dtype}"
        )
    return (torch.bmm if a.dim() == 3 else torch.mm)(a.to(out_dtype), b.to(out_dtype))


def addmm_dtype(added: Any, a: Any, b: Any, out_dtype: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * added + alpha * (a @ b)``, computed in a wider dtype."""
    product = mm_dtype(a, b, out_dtype) * alpha
    return product if beta == 0 else product + added.to(out_dtype) * beta


# A packed int4 matrix has the layout that torch.cuda uses, so that saved weights can be exchanged: 8 rows by
# 16 * inner_tiles columns per block, in the order in which the 32 lanes of a tensor core read them. The eight 4-bit
# numbers of a word are, from the lowest bits on, four of even columns, then four of the odd columns after them.
_LANES = 32


def convert_weight_to_int4pack(weight: Any, inner_tiles: int) -> Any:
    """Pack an (n, k / 2) uint8 matrix, whose high bits are the even columns."""
    import torch

    if weight.dtype != torch.uint8 or weight.dim() != 2 or inner_tiles not in (2, 4, 8):
        raise RuntimeError("_convert_weight_to_int4pack takes a uint8 matrix, and 2, 4 or 8 inner tiles")
    n, blocks = weight.shape[0], weight.shape[1] // (8 * inner_tiles)
    if n % 8 != 0 or weight.shape[1] != blocks * 8 * inner_tiles:
        raise RuntimeError(
            f"_convert_weight_to_int4pack: {n} rows and {2 * weight.shape[1]} columns must be multiples of 8 and "
            f"{16 * inner_tiles}"
        )
    # (row block, row, block, word, tile, half, lane) -> (row block, block, row, lane, word, tile, half)
    parts = weight.view(n // 8, 8, blocks, inner_tiles // 2, 2, 2, 4).permute(0, 2, 1, 6, 3, 4, 5)
    parts = parts.reshape(n // 8, blocks, _LANES, inner_tiles // 2, 4).to(torch.int64)
    digits = torch.cat([parts >> 4, parts & 15], -1)
    return (digits << _shifts(weight)).sum(-1).to(torch.int32)


def weight_int4pack_mm(x: Any, packed: Any, group_size: int, scales_and_zeros: Any) -> Any:
    """Product with the transpose of a packed int4 matrix; scales and zeros belong to groups of columns."""
    import torch

    if x.dim() != 2 or x.dtype != torch.bfloat16 or packed.dtype != torch.int32 or packed.dim() != 4:
        raise RuntimeError("_weight_int4pack_mm takes a bfloat16 matrix and a packed int32 tensor")
    row_blocks, blocks, lanes, words = packed.shape
    n, k = 8 * row_blocks, blocks * words * 32
    if lanes != _LANES or x.shape[1] != k or k % group_size or tuple(scales_and_zeros.shape) != (k // group_size, n, 2):
        raise RuntimeError(
            f"_weight_int4pack_mm: sizes {tuple(x.shape)}, {tuple(packed.shape)} and {tuple(scales_and_zeros.shape)} "
            f"do not fit together with groups of {group_size}"
        )
    digits = (packed.unsqueeze(-1) >> _shifts(packed).to(torch.int32)) & 15
    # (row block, block, row, lane, word, parity, tile, half) -> (row block, row, block, word, tile, half, lane, parity)
    digits = digits.view(row_blocks, blocks, 8, 4, words, 2, 2, 2).permute(0, 2, 1, 4, 6, 7, 3, 5).reshape(n, k)
    scale, zero = (part.repeat_interleave(group_size, 0).t().float() for part in scales_and_zeros.unbind(-1))
    weight = ((digits - 8) * scale + zero).to(x.dtype)
    return x @ weight.t()


def _shifts(like: Any) -> Any:
    import torch

    return torch.arange(0, 32, 4, device=like.device)
