"""A decoder that shares no name with those that ship: what quantization knows of it, it is told.

Norms stand in front of blocks, behind them or both; the embedding is scaled, logits are capped, and
a context is two tables in a dictionary, of which each layer reads its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quant.protocols import Block, Part

Context = dict[str, tuple[Tensor, int]]


@dataclass(frozen=True)
class Shape:
    """What is unusual; the rest is small."""

    before: bool = True
    after: bool = True
    embedding_scale: float = 8.0
    logit_cap: float = 3.0
    tied: bool = False
    vocab_size: int = 96
    hidden_size: int = 64
    inner_size: int = 80  # padded to whole groups
    heads: int = 4
    layers: int = 3


class RootMeanSquare(nn.Module):
    """An RMSNorm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * self.weight


class Mixer(nn.Module):
    """Attention with a bias by distance, from one table of the context."""

    def __init__(self, shape: Shape, table: str) -> None:
        super().__init__()
        self.table = table
        self.heads = shape.heads
        for name in ("asks", "keys", "says", "out"):
            self.add_module(name, nn.Linear(shape.hidden_size, shape.hidden_size, bias=True))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        bias, _ = context[self.table]
        q, k, v = (
            self.get_submodule(name)(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("asks", "keys", "says")
        )
        scores = (q @ k.transpose(2, 3)) / math.sqrt(q.shape[-1]) + bias
        mixed: Tensor = (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        return self.get_submodule("out")(mixed)


class Thinker(nn.Module):
    """A gated part with GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.opens = nn.Linear(shape.hidden_size, shape.inner_size, bias=False)
        self.holds = nn.Linear(shape.hidden_size, shape.inner_size, bias=False)
        self.closes = nn.Linear(shape.inner_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.closes(F.gelu(self.opens(x)) * self.holds(x))


class Layer(nn.Module):
    """Two blocks, of which norms stand in front, behind or both."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.shape = shape
        self.mixer = Mixer(shape, "near" if index % 2 else "far")
        self.thinker = Thinker(shape)
        for block in ("mixer", "thinker"):
            for place, wanted in (("before", shape.before), ("after", shape.after)):
                if wanted:
                    self.add_module(f"{place}_{block}", RootMeanSquare(shape.hidden_size))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        for block in self.blocks():
            given = x if block.norm is None else self.get_submodule(block.norm)(x)
            added = self.get_submodule(block.module)(given, context)
            x = x + (added if block.after is None else self.get_submodule(block.after)(added))
        return x

    def blocks(self) -> Sequence[Block]:
        head_size = self.shape.hidden_size // self.shape.heads
        return (
            Block(
                "mixer",
                self._norm("before", "mixer"),
                (Part("mixer.all", ("mixer.asks", "mixer.keys", "mixer.says")),),
                Part("mixer.out", ("mixer.out",)),
                self._norm("after", "mixer"),
                "mixer.says",
                ("mixer.says", head_size),
            ),
            Block(
                "thinker",
                self._norm("before", "thinker"),
                (
                    Part("thinker.opens", ("thinker.opens",)),  # of two widths, if need be
                    Part("thinker.holds", ("thinker.holds",)),
                ),
                Part("thinker.closes", ("thinker.closes",)),
                self._norm("after", "thinker"),
                "thinker.holds",
                None,
            ),
        )

    def _norm(self, place: str, block: str) -> str | None:
        name = f"{place}_{block}"
        return name if hasattr(self, name) else None


class Body(nn.Module):
    """Embedding, layers and last norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape, index) for index in range(shape.layers))
        self.norm = RootMeanSquare(shape.hidden_size)


class UnusualModel(nn.Module):
    """Tokens to logits."""

    def __init__(self, config: Shape) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def embed(self, tokens: Tensor) -> Tensor:
        rows: Tensor = self.model.embed_tokens(tokens)
        return self.scale_embedding(rows)

    def scale_embedding(self, rows: Tensor) -> Tensor:
        return rows * self.config.embedding_scale

    def context(self, seq_len: int) -> Context:
        """A bias for each pair of positions, by its name; and how far each table sees."""
        back = torch.arange(seq_len)[:, None] - torch.arange(seq_len)
        tables = {}
        for name, window, slope in (("near", 3, 0.5), ("far", seq_len, 0.05)):
            bias = torch.where((back >= 0) & (back < window), -slope * back, -torch.inf)
            tables[name] = (bias, window)
        return tables

    @property
    def reads_text(self) -> bool:
        return False

    def text_context(self, context: Context, *_: object) -> Context:
        return context

    def finish_logits(self, logits: Tensor) -> Tensor:
        cap = self.config.logit_cap
        return cap * torch.tanh(logits / cap)

    def logits(self, tokens: Tensor) -> Tensor:
        """After every token: (windows, seq_len, vocab_size)."""
        x, context = self.embed(tokens), self.context(tokens.shape[1])
        for layer in self.model.layers:
            x = layer(x, context)
        return self.finish_logits(self.lm_head(self.model.norm(x)))


def unusual_model(shape: Shape, seed: int = 0) -> UnusualModel:
    """One whose norms are random too, and whose logits come near their cap."""
    torch.manual_seed(seed)
    model = UnusualModel(shape).requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and not name.endswith("bias"):
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model.model.embed_tokens.weight.mul_(0.1)
    model.lm_head.weight.mul_(1.0 if shape.tied else 6.0)
    return model.eval()
