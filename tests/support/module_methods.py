"""Modules that are the methods of one file: they share a table of weights, and a memory."""

from typing import Any

import torch
from torch import Tensor, nn

WORDS, WIDTH, MOST = 512, 256, 8
FIRST = 5.0  # the first number of a memory that no other method has


class Embed(nn.Module):
    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table

    def forward(self, ids: Tensor) -> Tensor:  # (1, n) -> (1, n, WIDTH)
        return self.table(ids)


class Score(nn.Module):
    """Its head is tied to the table."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = table.weight

    def forward(self, rows: Tensor) -> Tensor:  # (1, n, WIDTH) -> (1, n, WORDS)
        return self.head(torch.tanh(rows))


class Memory(nn.Module):
    def __init__(self, first: float) -> None:
        super().__init__()
        self.register_buffer("kept", torch.full((1, WIDTH), first))


class Remember(nn.Module):
    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, row: Tensor) -> Tensor:  # (1, WIDTH) -> the same: the sum of all calls
        self.memory.kept += row
        return self.memory.kept * 1.0


class Recall(nn.Module):
    """Only reads the memory, by another name."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.known = memory

    def forward(self, scale: Tensor) -> Tensor:
        return self.known.kept * scale


def make() -> dict[str, Any]:
    torch.manual_seed(7)
    table, memory = nn.Embedding(WORDS, WIDTH), Memory(1.0)
    count = torch.export.Dim("count", min=1, max=MOST)
    shapes = ({1: count},)
    row = torch.randn(1, WIDTH)
    return {
        "embed": (Embed(table), (torch.arange(3)[None],), shapes),
        "score": (Score(table), (torch.randn(1, 3, WIDTH),), shapes),
        "remember": (Remember(memory), (row,)),
        "recall": {"module": Recall(memory), "inputs": (torch.tensor([2.0]),)},
        "remember_apart": (Remember(Memory(FIRST)), (row,)),
    }


def score() -> Any:
    return make()["score"]


def deep() -> dict[str, Any]:
    """Two methods of the same linears, for integers."""
    torch.manual_seed(8)
    body = nn.Sequential(nn.Linear(WIDTH, WORDS), nn.ReLU(), nn.Linear(WORDS, WIDTH))
    x = torch.randn(4, WIDTH)
    samples = [(torch.randn(4, WIDTH),) for _ in range(8)]
    return {
        "plain": (body, (x,), None, samples),
        "squared": (nn.Sequential(body, nn.Softmax(-1)), (x,), None, samples),
    }


def nameless() -> dict[str, Any]:
    return {"not a name": score()}


def failing() -> dict[str, Any]:
    return {"good": score(), "bad": (Embed(nn.Embedding(2, 2)), (torch.tensor([[7]]),))}
