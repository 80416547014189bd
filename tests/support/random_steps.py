"""The kinds of steps of random modules, each for what a value's shape and type allow."""

import operator
import random
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Function = Callable[..., Any]


class Known(nn.Module):
    """A function of a value and a constant."""

    def __init__(self, run: Function, constant: Tensor, parameter: bool, title: str) -> None:
        super().__init__()
        self.run, self.title = run, title
        if parameter:
            self.constant = nn.Parameter(constant)
        else:
            self.register_buffer("constant", constant)

    def forward(self, x: Tensor) -> Any:
        return self.run(x, self.constant)

    def extra_repr(self) -> str:
        return f"{self.title} {tuple(self.constant.shape)}"


class Attention(nn.Module):
    """Heads of rows, by torch's function or spelled out, with a mask or none."""

    def __init__(self, chance: random.Random, rows: int, width: int) -> None:
        super().__init__()
        self.heads = chance.choice([n for n in (1, 2, 3, 4) if width % n == 0])
        self.qkv = nn.Linear(width, 3 * width, bias=chance.random() < 0.5)
        self.kind = chance.choice(("plain", "causal", "bias", "seen", "batched"))
        self.spelled = chance.random() < 0.4
        self.scale = chance.choice((None, 0.3))
        shape = chance.choice(((rows, rows), (1, rows), (self.heads, rows, rows), (rows, 1)))
        self.register_buffer("bias", torch.randn(shape))
        seen = torch.rand(rows, rows) < 0.6
        self.register_buffer("seen", seen | torch.eye(rows, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, width = x.shape
        parts = self.qkv(x).view(batch, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mask = {"bias": self.bias, "seen": self.seen}.get(self.kind)
        if self.kind == "batched":
            mask = x.mean(-1)[:, None, None]
        causal = self.kind == "causal"
        if not self.spelled:
            out = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=causal, scale=self.scale
            )
        else:
            scores = query @ key.transpose(-2, -1) * (self.scale or 0.5)
            if causal:
                hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1)
                scores = scores.masked_fill(hidden, -torch.inf)
            elif mask is not None and mask.dtype is torch.bool:
                scores = scores.masked_fill(~mask, -1e4)
            elif mask is not None:
                scores = scores + mask
            out = scores.softmax(-1) @ value
        return out.transpose(1, 2).reshape(batch, rows, width)

    def extra_repr(self) -> str:
        return f"{self.kind}, heads {self.heads}, spelled {self.spelled}, bias {self.bias.shape}"


def _floats(*dims: int) -> Function:
    def decorate(make: Function) -> Function:
        def made(chance: random.Random, x: Tensor) -> Any:
            wanted = x.dtype is torch.float32 and (not dims or x.dim() in dims)
            return make(chance, x) if wanted else None

        return made

    return decorate


@_floats(3)
def _conv1d(chance: random.Random, x: Tensor) -> Any:
    channels = x.shape[1]
    groups = chance.choice([1, 1, 1, channels])
    return nn.Conv1d(
        *(channels, groups * chance.choice((1, 3, 5))),
        kernel_size=chance.randint(1, 4),
        stride=chance.randint(1, 3),
        padding=chance.choice((0, 1, 2, 3)),
        dilation=chance.randint(1, 2),
        groups=groups,
        bias=chance.random() < 0.7,
        padding_mode=chance.choice(("zeros", "zeros", "zeros", "circular", "reflect")),
    )


@_floats(4)
def _conv2d(chance: random.Random, x: Tensor) -> Any:
    channels = x.shape[1]
    groups = chance.choice([1, 1, 1, channels])
    return nn.Conv2d(
        *(channels, groups * chance.choice((1, 3, 4))),
        kernel_size=(chance.randint(1, 4), chance.randint(1, 3)),
        stride=(chance.randint(1, 3), chance.randint(1, 2)),
        padding=chance.choice((0, (1, 0), (2, 1), 1)),
        dilation=(chance.randint(1, 2), 1),
        groups=groups,
        bias=chance.random() < 0.7,
    )


@_floats(4)
def _turned(chance: random.Random, x: Tensor) -> Any:
    return nn.ConvTranspose2d(x.shape[1], 2, chance.randint(1, 3), chance.randint(1, 2))


@_floats(4)
def _pool2d(chance: random.Random, x: Tensor) -> Any:
    kernel = chance.randint(1, 3), chance.randint(1, 3)
    stride = chance.choice((None, 1, 2, (2, 1)))
    padding = tuple(chance.randint(0, size // 2) for size in kernel)
    ceil = chance.random() < 0.4
    if chance.random() < 0.5:
        return nn.MaxPool2d(kernel, stride, padding, chance.randint(1, 2), ceil_mode=ceil)
    counted = chance.random() < 0.5
    return nn.AvgPool2d(kernel, stride, padding, ceil, counted, chance.choice((None, None, 3)))


@_floats(3)
def _pool1d(chance: random.Random, x: Tensor) -> Any:
    kind = chance.choice((nn.MaxPool1d, nn.AvgPool1d))
    return kind(chance.randint(1, 3), chance.choice((None, 1, 2)), ceil_mode=chance.random() < 0.4)


@_floats(3, 4)
def _adaptive(chance: random.Random, x: Tensor) -> Any:
    if x.dim() == 4:
        return nn.AdaptiveAvgPool2d(chance.choice((1, (1, 2), 2, 3)))
    return nn.AdaptiveAvgPool1d(chance.choice((1, 2)))


@_floats()
def _norm(chance: random.Random, x: Tensor) -> Any:
    if x.dim() < 2:
        return None
    kinds = [nn.LayerNorm(x.shape[-1]), nn.LayerNorm(x.shape[-1], elementwise_affine=False)]
    kinds.append(nn.RMSNorm(x.shape[-1]))
    if x.dim() > 2:
        kinds += [nn.LayerNorm(x.shape[-2:]), nn.GroupNorm(1, x.shape[1])]
    if x.dim() == 4:
        kinds += [nn.BatchNorm2d(x.shape[1]), nn.BatchNorm2d(x.shape[1], affine=False)]
        kinds += [nn.InstanceNorm2d(x.shape[1])]
    if x.dim() == 3:
        kinds += [nn.BatchNorm1d(x.shape[1])]
    return chance.choice(kinds)


@_floats()
def _linear(chance: random.Random, x: Tensor) -> Any:
    return nn.Linear(x.shape[-1], chance.choice((1, 3, 8, 16)), bias=chance.random() < 0.7)


@_floats(3)
def _attention(chance: random.Random, x: Tensor) -> Any:
    return Attention(chance, x.shape[1], x.shape[2])


@_floats(3)
def _torch_attention(chance: random.Random, x: Tensor) -> Any:
    heads = chance.choice([n for n in (1, 2, 4) if x.shape[2] % n == 0])

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(x.shape[2], heads, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            return self.inner(x, x, x, need_weights=False)[0]

    return Module()


@_floats()
def _by_number(chance: random.Random, x: Tensor) -> Any:
    return chance.choice(
        [
            *(nn.GELU(), nn.GELU("tanh"), nn.ReLU(), nn.SiLU(), nn.Sigmoid(), nn.Tanh()),
            *(nn.Hardswish(), nn.Hardsigmoid(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.ELU()),
            *(nn.Hardtanh(-0.5, 0.7), nn.Softplus(), nn.Mish(), nn.Identity(), nn.Dropout(0.5)),
            *(nn.Softmax(-1), nn.Softmax(1), nn.LogSoftmax(-1), nn.Dropout2d(0.2)),
        ]
    )


@_floats()
def _in_place(chance: random.Random, x: Tensor) -> Any:
    return chance.choice(
        (
            lambda x: x.clone().add_(1),
            lambda x: F.relu_(x * 2),
            lambda x: x.clone().mul_(x),
            lambda x: (x + 1).sub_(x.mean()),
            lambda x: x.clone().clamp_(-1, 1),
            lambda x: torch.fill_(x.clone(), 2.0) + x,
        )
    )


def _rest(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape[1:])


def _view(chance: random.Random, x: Tensor) -> Any:
    count = prod(_rest(x))
    left, sizes = count, []
    for _ in range(chance.randint(0, 3)):
        size = chance.choice([n for n in range(1, left + 1) if left % n == 0])
        sizes.append(size)
        left //= size
    sizes.append(left)
    chance.shuffle(sizes)
    if chance.random() < 0.3 and sizes[0] > 1:  # parts of a sample in the batch's place
        return Known(lambda x, _: x.reshape(-1, *sizes[1:]), torch.zeros(1), False, str(sizes))
    if chance.random() < 0.5:
        return lambda x: x.reshape(x.shape[0], *sizes)
    return lambda x: x.reshape(-1, *sizes)


def _move(chance: random.Random, x: Tensor) -> Any:
    dims = x.dim()
    if dims < 2:
        return lambda x: x.unsqueeze(-1)
    first = 0 if chance.random() < 0.15 else 1
    one, other = chance.randrange(first, dims), chance.randrange(first, dims)
    order = list(range(1, dims))
    chance.shuffle(order)
    choices: list[Function] = [
        lambda x: x.transpose(one, other),
        lambda x: x.permute(0, *order),
        lambda x: x.permute(0, *order).contiguous(),
        lambda x: x.unsqueeze(one),
        lambda x: x.squeeze(max(one, 1)),
        lambda x: x.flip(max(one, 1)),
        lambda x: x.roll(1, max(one, 1)),
        lambda x: x.movedim(one, other),
    ]
    size, dim = x.shape[max(one, 1)], max(one, 1)
    start, end = sorted((chance.randint(-size, size), chance.randint(-size, size)))
    step = chance.randint(1, 3)
    place = (slice(None),) * dim
    choices += [
        lambda x: x[(*place, slice(start, end, step))],
        lambda x: x.select(dim, size - 1),
        lambda x: x.narrow(dim, size // 2, size - size // 2),
        lambda x: x.chunk(2, dim)[0],
        lambda x: x.split([size // 2, size - size // 2], dim)[1],
        lambda x: x.unbind(dim)[0],
        lambda x: torch.cat(x.chunk(2, dim)[::-1], dim),
        lambda x: torch.stack([x, x.flip(dim)], other),
        lambda x: torch.cat([x, -x], dim),
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, (0, 1, 1, 0)) if x.dim() > 2 else x,
        lambda x: F.pad(x, (1, 0), value=1.5),
        lambda x: x.repeat(1, *[2] * (x.dim() - 1)),
        lambda x: x.repeat_interleave(2, dim),
        lambda x: x.unsqueeze(dim).expand(-1, *[-1] * (dim - 1), 2, *[-1] * (x.dim() - dim)),
    ]
    if dims == 4:
        choices += [lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2)] * 2
    return chance.choice(choices)


def _reduced(chance: random.Random, x: Tensor) -> Any:
    dims = x.dim()
    if dims < 2 or not x.is_floating_point():
        return None
    over = sorted(chance.sample(range(1, dims), chance.randint(1, dims - 1)))
    keep = chance.random() < 0.5
    run = chance.choice((torch.mean, torch.mean, torch.mean, torch.sum, torch.amax))
    return lambda x: run(x, dim=over, keepdim=keep)


def _constant(chance: random.Random, x: Tensor) -> Any:
    shape = [size if chance.random() < 0.6 else 1 for size in _rest(x)]
    shape = shape[chance.randint(0, len(shape)) :] if chance.random() < 0.4 else shape
    if chance.random() < 0.1:
        shape = [1, *shape]
    run = chance.choice((operator.add, operator.sub, operator.mul, operator.truediv))
    turned = chance.random() < 0.3
    numbers = torch.rand(shape) + 0.5
    if x.dtype in (torch.float16, torch.bfloat16):
        numbers = numbers.to(x.dtype)
    if chance.random() < 0.3:
        number = chance.choice((2, 0.5, -1.25))
        return (lambda x: run(number, x)) if turned else (lambda x: run(x, number))
    called = (lambda x, c: run(c, x)) if turned else run
    return Known(called, numbers, chance.random() < 0.5, run.__name__)


@_floats()
def _joined_constant(chance: random.Random, x: Tensor) -> Any:
    if x.dim() < 3:
        return None
    numbers = torch.randn(1, 1, *x.shape[2:])

    def run(x: Tensor, c: Tensor) -> Tensor:
        return torch.cat([c.expand(x.shape[0], *c.shape[1:]), x], 1)

    return Known(run, numbers, True, "joined")


@_floats()
def _matrix(chance: random.Random, x: Tensor) -> Any:
    return Known(torch.matmul, torch.randn(x.shape[-1], 3), True, "matmul")


def _binary(chance: random.Random, x: Tensor) -> Any:
    run = chance.choice((operator.add, operator.add, operator.sub, operator.mul))
    return "arithmetic", run


def _cat(chance: random.Random, x: Tensor) -> Any:
    dim, count = chance.choice((1, -1)), chance.choice((2, 2, 3))
    return f"cat {dim}", lambda x, y: torch.cat([x, y, x][:count], dim)


def _alpha(chance: random.Random, x: Tensor) -> Any:
    return "alpha", lambda x, y: torch.add(x, y, alpha=2)


def _embedding(chance: random.Random, x: Tensor) -> Any:
    if x.dtype not in (torch.int64, torch.int32):
        return None
    return nn.Embedding(7, chance.choice((4, 8)))


def _as_float(chance: random.Random, x: Tensor) -> Any:
    return (lambda x: x.float()) if x.dtype is not torch.float32 else None


def _compared(chance: random.Random, x: Tensor) -> Any:
    if x.dtype is not torch.float32:
        return None
    return chance.choice((lambda x: torch.where(x > 0, x, -x), lambda x: x.masked_fill(x < 0, 2)))


KINDS: list[tuple[str, Function]] = [
    *[("conv1d", _conv1d), ("conv2d", _conv2d), ("conv2d", _conv2d), ("turned", _turned)],
    *[("pool2d", _pool2d), ("pool1d", _pool1d), ("adaptive", _adaptive), ("norm", _norm)],
    *[("linear", _linear), ("linear", _linear), ("attention", _attention)] * 2,
    *[("torch attention", _torch_attention), ("by number", _by_number), ("in place", _in_place)],
    *[("view", _view), ("move", _move), ("move", _move), ("move", _move), ("view", _view)],
    *[("reduced", _reduced), ("constant", _constant), ("constant", _constant)],
    *[("joined constant", _joined_constant), ("matrix", _matrix), ("binary", _binary)],
    *[("binary", _binary), ("cat", _cat), ("alpha", _alpha), ("embedding", _embedding)] * 2,
    *[("as float", _as_float), ("compared", _compared)],
]
