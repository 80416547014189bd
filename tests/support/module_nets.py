"""User's modules that the CPU delegate takes whole, each with a function that makes it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from exporter.models.norm import RMSNorm

BATCH = Dim("batch", min=1, max=3)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.rand(width))
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        shape = (*x.shape[:2], self.heads, -1)
        heads = [part(normed).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v)]
        out = F.scaled_dot_product_attention(*heads, is_causal=self.causal)
        x = x + self.scale * self.o(out.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.inner_norm(x))))


class Seeing(nn.Module):
    """A vision transformer: patches behind a class token, learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(32))
        self.positions = nn.Parameter(torch.randn(1, 1 + 12, 32))
        self.blocks = nn.Sequential(Block(32, 2), Block(32, 4))
        self.head = nn.Linear(32, 10)

    def forward(self, picture: Tensor) -> dict[str, Tensor]:
        x = self.patches(picture).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], 1, -1), x], dim=1) + self.positions
        rows = self.blocks(x)
        return {"rows": rows, "logits": self.head(rows[:, 0]), "mean": rows[:, 1:].mean(dim=1)}


class Hearing(nn.Module):
    """An encoder of sound, as Whisper's: two convolutions, the second of every other place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(20, 32, 3, padding=1)
        self.second = nn.Conv1d(32, 32, 3, stride=2, padding=1, dilation=1)
        self.register_buffer("positions", torch.randn(25, 32))
        self.block = Block(32, 2, causal=True)

    def forward(self, features: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(features), approximate="tanh")))
        rows: Tensor = self.block(x.permute(0, 2, 1) + self.positions)
        return rows


class Looking(nn.Module):
    """Convolutions of several forms, norms of batches, a residual sum and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, (3, 5), stride=(2, 1), padding=(1, 2), bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.wide = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
        self.point = nn.Conv2d(16, 24, 1)
        self.head = nn.Linear(24, 7)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.norm(self.stem(picture)))
        x = x + torch.sigmoid(self.wide(x))
        x = F.silu(self.point(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), x.mean((2, 3))


class Filtering(nn.Module):
    """Convolutions of channels and of groups, with norms of batches and bounded activations; one
    side of a picture has more zeros than the other."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 20, 3, stride=2, bias=False)
        self.each = nn.Conv2d(20, 20, (3, 5), stride=(2, 1), padding=(1, 2), groups=20, bias=False)
        self.twice = nn.Conv2d(20, 40, 3, padding=2, dilation=2, groups=20)
        self.grouped = nn.Conv2d(40, 64, 3, padding=1, groups=4)
        self.slope = nn.PReLU(64, init=0.3)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in (20, 20, 64))
        self.sound = nn.Conv1d(64, 64, 4, padding="same", groups=64)
        with torch.no_grad():
            for norm in self.norms:
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu6(self.norms[0](self.stem(F.pad(picture, (0, 1, 2, 1)))))
        x = F.hardswish(self.norms[1](self.each(F.pad(x, (1, 0)))))
        x = self.twice(x).clamp(-0.5, 0.75)
        x = self.slope(self.norms[2](self.grouped(x)))
        y = F.leaky_relu(self.sound(x.flatten(2)), 0.2)
        return F.hardsigmoid(x), y


class Remembering(nn.Module):
    """Layers of both directions, of one with a state, steps before samples, and a single step."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.LSTM(6, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.one = nn.LSTM(40, 16, bias=False)
        self.head, self.cell = nn.Linear(16, 5), nn.LSTMCell(5, 20)

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        rows, (hidden, cells) = self.both(features)
        first = state.transpose(0, 1)
        turned, last = self.one(rows.transpose(0, 1), (first[:1, :, 4:], first[1:, :, :16]))
        step = self.cell(self.head(last[0][0]), (state[:, 0], state[:, 1]))
        return turned.relu().transpose(0, 1), hidden.transpose(0, 1), cells[2], torch.stack(step, 1)


def make_remembering() -> Any:
    torch.manual_seed(9)
    batch = {0: BATCH}
    return Remembering(), (torch.randn(2, 7, 6), torch.randn(2, 2, 20)), (batch, batch)


class Recalling(nn.Module):
    """Gated recurrent units as the LSTMs above, layers without gates, and a step of each."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.GRU(6, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.one, self.back = nn.GRU(40, 16, bias=False), nn.RNN(16, 5, bidirectional=True)
        self.cell, self.plain = nn.GRUCell(10, 20), nn.RNNCell(20, 7, nonlinearity="relu")

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        rows, hidden = self.both(features)
        first = state.transpose(0, 1)
        turned, last = self.one(rows.transpose(0, 1), first[:1, :, 4:])
        turned, ends = self.back(turned.relu())
        step = self.cell(turned[0], state[:, 1])
        return turned.transpose(0, 1), hidden[2], last[0], ends.transpose(0, 1), self.plain(step)


def make_recalling() -> Any:
    torch.manual_seed(9)
    batch = {0: BATCH}
    return Recalling(), (torch.randn(2, 7, 6), torch.randn(2, 2, 20)), (batch, batch)


class Norming(nn.Module):
    """Norms of groups of channels, of numbers far from zero, and RMSNorms of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.sound = nn.Conv1d(4, 12, 3, padding=1)
        self.heads, self.unweighted = RMSNorm(4, 1e-6), RMSNorm(4, 1e-6, weighted=False)
        nn.init.normal_(self.heads.weight)
        self.one, self.groups = nn.GroupNorm(1, 12), nn.GroupNorm(3, 12)
        self.plain = nn.GroupNorm(4, 12, affine=False)
        self.each, self.all = nn.InstanceNorm1d(12), nn.InstanceNorm1d(12, affine=True)
        for norm in (self.one, self.groups, self.all):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
        nn.init.constant_(self.sound.bias, 100.0)

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        x = self.sound(features)
        y = self.one(x) + self.groups(x)
        heads = y.transpose(1, 2).unflatten(2, (3, 4))
        y = y + (self.heads(heads) * self.unweighted(heads)).flatten(2).transpose(1, 2)
        return y, self.plain(x).transpose(1, 2), F.relu(self.each(x)), self.all(features[:, :1] + x)


def make_norming() -> Any:
    torch.manual_seed(8)
    return Norming(), (torch.randn(2, 4, 21),), ({0: BATCH},)


def make_seeing() -> object:
    torch.manual_seed(0)
    return Seeing(), (torch.randn(2, 3, 24, 32),), ({0: BATCH},)


def make_hearing() -> object:
    torch.manual_seed(1)
    return Hearing(), (torch.randn(1, 20, 50),)


def make_filtering() -> Any:
    torch.manual_seed(3)
    return Filtering(), (torch.randn(2, 3, 17, 22),), ({0: BATCH},)


def make_looking() -> object:
    torch.manual_seed(2)
    return Looking(), (torch.randn(2, 3, 9, 8),), ({0: BATCH},)


class Summing(nn.Module):
    """A learned query attends to rows by torch's own attention, which spells the products out."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.probe = nn.Parameter(torch.randn(1, 1, 24))
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, picture: Tensor) -> Tensor:
        rows = self.patches(picture).flatten(2).transpose(1, 2)
        summed: Tensor = self.attention(self.probe.repeat(rows.shape[0], 1, 1), rows, rows)[0]
        return summed[:, 0]


class Reading(nn.Module):
    """Tokens, of which a mask hides some: from all, or each query its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.kinds = nn.Embedding(2, 32)
        self.qkv, self.o = nn.Linear(32, 96), nn.Linear(32, 32)
        self.register_buffer("kind", torch.zeros(1, 9, dtype=torch.long))
        self.register_buffer("angles", torch.randn(9, 8))

    def forward(self, tokens: Tensor, seen: Tensor) -> Tensor:
        batch, length = tokens.shape
        x = self.table(tokens.view(-1, length)) + self.kinds(self.kind.expand(batch, length))
        query, key, value = self.qkv(x).view(batch, length, 3, 4, 8).unbind(2)
        query, key = (self._turned(part.transpose(1, 2)) for part in (query, key))
        mask = seen[:, None, None].bool().expand(batch, 1, length, length)
        out = F.scaled_dot_product_attention(query, key, value.transpose(1, 2), attn_mask=mask)
        scores = query @ key.transpose(2, 3) / 3 + (1.0 - seen[:, None, None].float()) * -1e4
        again = scores.softmax(-1) @ value.transpose(1, 2)
        mixed: Tensor = self.o((out + again).transpose(1, 2).flatten(2))
        return mixed

    def _turned(self, heads: Tensor) -> Tensor:
        left, right = heads.chunk(2, dim=-1)
        turned = torch.cat((-right, left), dim=-1)
        return heads * self.angles.cos() + turned * self.angles.sin()


class Folding(nn.Module):
    """Windows with a bias for each head, shifted; pools; places folded into channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.qkv = nn.Linear(16, 48)
        self.bias = nn.Parameter(torch.randn(2, 16, 16))
        hidden = torch.zeros(4, 1, 16, 16)
        hidden[1, :, :8, 8:] = hidden[3, :, 3:, :2] = -torch.inf
        self.register_buffer("hidden", hidden)
        self.merge = nn.Linear(64, 24)

    def forward(self, input: Tensor) -> tuple[Tensor, ...]:  # as PyTorch's own modules name it
        x = F.max_pool2d(self.stem(input), 3, 2, 1)  # (batch, 16, 8, 8)
        shifted = x.permute(0, 2, 3, 1).roll((-2, -1), dims=(1, 2))
        windows = shifted.view(-1, 2, 4, 2, 4, 16).transpose(2, 3).reshape(-1, 16, 16)
        query, key, value = self.qkv(windows).view(-1, 16, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) * 0.3 + self.bias
        scores = scores.view(-1, 4, 2, 16, 16) + self.hidden
        seen = scores.view(-1, 2, 16, 16).softmax(-1) @ value
        rows = seen.transpose(1, 2).reshape(-1, 2, 2, 4, 4, 16).transpose(2, 3)
        whole = rows.reshape(-1, 8, 8, 16).roll((2, 1), dims=(1, 2)).permute(0, 3, 1, 2)
        folded = self.merge(F.pixel_unshuffle(whole, 2).flatten(2).transpose(1, 2))
        bent = folded * (1 + torch.tanh(0.8 * (folded + 0.04 * folded**3)))
        lines = F.adaptive_avg_pool2d(whole, (None, 2)).relu()
        return bent, F.avg_pool2d(whole, 2).square(), whole[:, 3:9, 2:, ::3], lines


class Turning(nn.Module):
    """Heads turned by the places of patches, behind a token that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, rows: Tensor) -> Tensor:
        places = torch.meshgrid(torch.arange(2.0), torch.arange(3.0), indexing="ij")
        angles = torch.stack(places, -1).flatten(0, 1).tile(2) / 3
        heads = [x(rows).unflatten(2, (4, 4)).transpose(1, 2) for x in (self.query, self.key)]
        query, key = (self._turned(x, angles) for x in heads)
        seen: Tensor = F.scaled_dot_product_attention(query, key, key)
        return seen.transpose(1, 2).flatten(2)

    def _turned(self, heads: Tensor, angles: Tensor) -> Tensor:
        token, patches = heads.split((1, 6), dim=2)
        left, right = patches.chunk(2, dim=-1)
        turned = patches * angles.cos() + torch.cat((-right, left), -1) * angles.sin()
        return torch.cat((token, turned), 2)


def make_turning() -> object:
    torch.manual_seed(10)
    return Turning(), (torch.randn(2, 7, 16),), ({0: BATCH},)


class Odd(nn.Module):
    """Forms that the op list does not have, and sizes that only seem to be the batch's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.front = nn.Parameter(torch.randn(1, 1, 2, 2, 6))
        self.pair = nn.Parameter(torch.rand(2, 1, 1))
        self.pooling = nn.MultiheadAttention(6, 1, batch_first=True)

    def forward(self, x: Tensor, deep: Tensor) -> dict[str, Tensor]:
        rows = self.linear(x)
        samples = x.shape[0]
        return {
            "first_two": rows[:2] * 2,
            "rolled": rows.roll(2, 0).relu(),
            "counted": rows * torch.full((6,), samples) + torch.ones(samples, 6).sum(0),
            "empty": rows[:, 4:],
            "strided": self.linear(deep.transpose(1, 3).cumsum(1)) * 2,
            "sums": x.transpose(1, 2).cumsum(1).relu().flatten(1),
            "alone": F.hardswish(rows.cumsum(1)).cumsum(1),
            "scaled": deep[:, 0].cumsum(1) * self.pair,
            "joined": torch.cat([self.front.expand(samples, 1, 2, 2, 6), self.linear(deep)], 1),
            "doubled": torch.add(rows.mean()[None], rows, alpha=2),
            "attended": self.pooling(x, x, x)[0],
            "mean_of_all": rows + rows.mean(),
            "without_end": rows / 0.0,
        }


class Averaging(nn.Module):
    """A norm of one vector, which the op list refuses after it was claimed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x.mean((0, 1)))) + self.linear(x)


def make_odd() -> object:
    torch.manual_seed(6)
    batch = {0: Dim("batch", min=2, max=5)}
    return Odd(), (torch.randn(2, 4, 6), torch.randn(2, 3, 2, 2, 6)), (batch, batch)


def make_averaging() -> object:
    torch.manual_seed(7)
    return Averaging(), (torch.randn(2, 4, 6),), ({0: Dim("batch", min=1, max=5)},)


def make_summing() -> object:
    torch.manual_seed(3)
    return Summing(), (torch.randn(2, 3, 12, 8),), ({0: BATCH},)


def make_reading() -> object:
    torch.manual_seed(4)
    seen = torch.ones(2, 9, dtype=torch.long)
    seen[0, 5:] = 0
    batch = {0: BATCH}
    return Reading(), (torch.arange(18).view(2, 9), seen), (batch, batch)


def make_folding() -> object:
    torch.manual_seed(5)
    return Folding(), (torch.randn(1, 3, 16, 16),)


class Clipped(nn.Module):
    """Reads places beside its pictures, which have no batch."""

    def forward(self, picture: Tensor, places: Tensor) -> Tensor:
        return F.relu(picture)[:, places]


def make_beside() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(5)
    return Clipped(), (torch.randn(1, 4, 7, 7), torch.tensor([2, 0]))


def make_tall() -> tuple[nn.Module, tuple[Tensor, ...], object]:
    """Pictures of any height: no sample has a fixed shape."""
    heights = {2: torch.export.Dim("height", min=1, max=9)}
    return nn.Sequential(nn.ReLU(), nn.Sigmoid()), (torch.randn(1, 4, 7, 7),), (heights,)


def make_lstm() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return nn.LSTM(12, 20, batch_first=True), (torch.ones(1, 3, 12),)
