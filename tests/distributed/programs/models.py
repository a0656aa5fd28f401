"""Nets, their data, and training with one or several processes.

In double precision, so that a difference is a bug, not a rounding error that an optimizer has amplified.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from common import DEVICE, RANK, SIZE
from sklearn.datasets import load_digits
from torch import nn

BATCH, STEPS = 32, 8


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(16 * 9, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.attention(self.before(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class GPT(nn.Module):
    """A small transformer over 32 tokens."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(32, width), nn.Embedding(12, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """All batches of all ranks, concatenated."""
    if name == "digits":
        images, labels = load_digits(return_X_y=True)
        return torch.tensor(images[: BATCH * STEPS], dtype=torch.float64).view(-1, 1, 8, 8) / 16, torch.tensor(
            labels[: BATCH * STEPS]
        )
    text = torch.randint(0, 32, (BATCH * STEPS, 13), generator=torch.Generator().manual_seed(5))
    return text[:, :-1], text[:, 1:]


def net(name: str) -> nn.Module:
    torch.manual_seed(3)
    return (Digits() if name == "digits" else GPT()).double().to(DEVICE)


def train(
    name: str,
    model: nn.Module,
    step: Callable[[], None],
    *,
    parts: int = 1,
    part: int = 0,
    first: int = 0,
    last: int = STEPS,
) -> list[float]:
    """Losses; this rank trains on every `parts`-th sample of a batch, starting at `part`."""
    inputs, targets = (t.to(DEVICE) for t in data(name))
    losses = []
    for i in range(first, last):
        batch = slice(i * BATCH + part, (i + 1) * BATCH, parts)
        model.zero_grad()  # before the forward: FSDP swaps the parameters between forward and backward
        loss = F.cross_entropy(model(inputs[batch]).flatten(0, -2), targets[batch].flatten())
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


def train_alone(
    name: str, optimizer: Callable[..., torch.optim.Optimizer]
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and weights of one process that trains on the whole batch."""
    model = net(name)
    losses = train(name, model, optimizer(model.parameters()).step)
    return losses, {k: v.detach().cpu() for k, v in model.state_dict().items()}


def train_distributed(name: str, model: nn.Module, step: Callable[[], None]) -> list[float]:
    """Losses averaged over all ranks, each with its share of the batch."""
    import torch.distributed as dist

    losses = torch.tensor(train(name, model, step, parts=SIZE, part=RANK), device=DEVICE, dtype=torch.float64)
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    return losses.tolist()


def compare(
    found: tuple[list[float], dict[str, torch.Tensor]], expected: tuple[list[float], dict[str, torch.Tensor]]
) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=1e-9, atol=1e-9)
    assert expected[0][-1] < expected[0][0]
    for key, value in expected[1].items():
        torch.testing.assert_close(found[1][key].cpu(), value, rtol=1e-7, atol=1e-9)
