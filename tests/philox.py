"""Reference implementation of the random number generator."""

from __future__ import annotations

import torch


def drawn_bits(seed: int, start: int, blocks: int) -> torch.Tensor:
    """Philox 4x32-10: the blocks from `start` on, each as eight 16-bit numbers."""
    c = [(torch.arange(blocks) + start) & 0xFFFFFFFF, (torch.arange(blocks) + start) >> 32, *torch.zeros(2, 1).long()]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        low = [a * (b & 0xFFFF) for a, b in ((0xD2511F53, c[0]), (0xCD9E8D57, c[2]))]
        high = [a * (b >> 16) + (x >> 16) for a, b, x in ((0xD2511F53, c[0], low[0]), (0xCD9E8D57, c[2], low[1]))]
        p = [(h >> 16, (h & 0xFFFF) << 16 | x & 0xFFFF) for h, x in zip(high, low, strict=True)]
        c = [p[1][0] ^ c[1] ^ keys[0], p[1][1], p[0][0] ^ c[3] ^ keys[1], p[0][1]]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    words = torch.stack(torch.broadcast_tensors(*c), -1)
    return torch.stack((words & 0xFFFF, words >> 16), -1).flatten(1)
