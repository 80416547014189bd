"""Networks of PyTorch's own attention."""

import torch
from torch import Tensor, nn
from torch.export import Dim

BATCH = {0: Dim("batch", min=1, max=4)}
CAUSAL = nn.Transformer.generate_square_subsequent_mask(6)


class Encoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x, mask=CAUSAL, is_causal=True)


class Crossing(nn.Module):
    """Keys and values of other widths, whose weights nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, kdim=16, vdim=20, batch_first=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attention(query, key, value)[0]


class Translating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(32, 4, 1, 1, 64, norm_first=True, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.both(source, target, tgt_mask=CAUSAL)


def make_encoding() -> object:
    torch.manual_seed(1)
    return Encoding(), (torch.randn(2, 6, 32),), (BATCH,)


def make_crossing() -> object:
    torch.manual_seed(2)
    sizes = (6, 32), (5, 16), (5, 20)
    return Crossing(), tuple(torch.randn(2, *size) for size in sizes), (BATCH,) * 3


def make_translating() -> object:
    torch.manual_seed(3)
    return Translating(), (torch.randn(2, 5, 32), torch.randn(2, 6, 32)), (BATCH, BATCH)


def make_positions_first() -> object:
    """Fewer positions than samples."""
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(32, 4, 64)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(3, 5, 32),)


class LaterHidden(nn.Module):
    """Positions first, of which each sees none behind its own."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}
        return self.attention(x, x, x, **hidden)[0]


def make_later_hidden() -> object:
    torch.manual_seed(6)
    return LaterHidden(), (torch.randn(6, 2, 32),)


class Pooled(nn.Module):
    """A mean behind a norm, and weights that are parts of one."""

    def __init__(self) -> None:
        super().__init__()
        both = torch.randn(8, 6)
        self.first, self.second, self.norm = nn.Linear(6, 4), nn.Linear(6, 4), nn.LayerNorm(4)
        self.first.weight, self.second.weight = map(nn.Parameter, both.chunk(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.first(x) + self.second(x)).mean(dim=1)


def make_pooled() -> object:
    torch.manual_seed(4)
    return Pooled(), (torch.randn(2, 5, 6),), (BATCH,)
