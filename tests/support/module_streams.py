"""Modules with a state that operators read and that is returned, and functions that make them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim


class Streaming(nn.Module):
    """A convolution over a sound that comes in parts, of which it keeps the last two places."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(4, 6, 3)
        self.register_buffer("last", torch.zeros(1, 4, 2))

    def forward(self, x: Tensor) -> Tensor:
        whole = torch.cat([self.last, x], -1)
        self.last.copy_(whole[:, :, -2:])
        return self.convolution(whole)


class Cell(nn.Module):
    """A step of a recurrent layer, which adds to its state as well."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.linear = nn.GRUCell(5, 7), nn.Linear(7, 7)
        self.register_buffer("state", torch.zeros(1, 7))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.state.copy_(self.cell(x, self.state))
        return self.linear(self.state), self.state.add_(1)


class Ring(nn.Module):
    """The last numbers, as they are kept and as they are returned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.last.copy_(torch.cat([self.last[1:], x]))
        return self.last.clone()


class Viewing(nn.Module):
    """Views a convolution's output, which channels-last strides do not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(1, 6, 5), nn.Linear(96, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.max_pool2d(self.convolution(x), 2).view(-1, 96))


class Variable(nn.Module):
    """Takes any number of inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)

    def forward(self, picture: Tensor, *added: Tensor) -> Tensor:
        return self.convolution(picture).mean((2, 3)) + added[0] - added[1]


def make_thin() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Convolutions of one channel, and of channels by themselves, with one output each or more."""
    sides = [(1, 4, 5, 1), (4, 8, 3, 4), (8, 8, 1, 8), (8, 16, 1, 8), (16, 1, 1, 1), (1, 1, 3, 1)]
    layers = [nn.Conv2d(*side[:3], groups=side[3]) for side in sides]
    net = nn.Sequential(*layers, nn.Conv2d(1, 3, 1), nn.Conv2d(3, 6, 3))
    return net, (torch.randn(1, 1, 20, 20),)


def make_variable() -> tuple[nn.Module, tuple[Tensor, ...], object]:
    inputs = torch.randn(2, 3, 8, 8), torch.randn(2, 5), torch.randn(2, 5)
    return Variable(), inputs, ({0: Dim("batch", min=1, max=4)},) * 3


def make_streaming() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Streaming(), (torch.randn(1, 4, 5),)


def make_cell() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Cell(), (torch.randn(1, 5),)


def make_ring() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Ring(), (torch.randn(1),)


def make_viewing() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Viewing(), (torch.randn(1, 1, 12, 12),)
