"""A user's module of convolutions and linears, and functions that make it with calibration
inputs."""

import torch
import torch.nn.functional as F
from support.module_nets import Block
from torch import Tensor, nn
from torch.export import Dim


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 32, 1)
        self.normalization = nn.BatchNorm2d(32)
        self.head = nn.Linear(32, 10)
        self.after_log = nn.Linear(10, 10)

    def forward(self, picture: Tensor) -> Tensor:
        x = F.relu6(self.depthwise(F.relu(self.stem(picture))))
        x = F.relu(self.normalization(self.pointwise(x)))
        x = self.head(x.mean((2, 3)))
        return x + 0.01 * self.after_log(x.log()).nan_to_num(0.0)


def picture(batch: int, seed: int) -> Tensor:
    return torch.randn(batch, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def make() -> tuple[nn.Module, tuple[Tensor, ...], object, list[Tensor]]:
    torch.manual_seed(0)
    shapes = ({0: Dim("batch", min=1, max=4)},)
    return Net(), (picture(2, seed=0),), shapes, [picture(2, seed) for seed in range(1, 9)]


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(40, 96)
        self.down = nn.Linear(96, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(x)))


def make_wide() -> tuple[nn.Module, tuple[Tensor, ...], None, list[Tensor]]:
    torch.manual_seed(0)
    return Wide(), (torch.randn(3, 40),), None, [torch.randn(3, 40) for _ in range(40)]


class Reading(nn.Module):
    """Reads a weight of its own linear by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.back = nn.Linear(8, 6), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.up(x), self.back.weight.T)


def make_reading() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Reading(), (torch.randn(3, 8),)


def make_layer() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return layer, (torch.randn(1, 7, 32),)


def no_layers() -> tuple[nn.Module, Tensor]:
    return nn.ReLU(), torch.randn(2)


def nan_calibration() -> tuple[object, ...]:
    given = [torch.zeros(2, 3), torch.full((2, 3), float("nan"))]
    return nn.Sequential(nn.Linear(3, 2)), given[0], None, [(one,) for one in given]


def make_attending() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return nn.Sequential(Block(32, 2)), (torch.randn(1, 150, 32),)


class Joining(nn.Module):
    """Convolutions of what others have joined, padded and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (nn.Conv2d(3, count, 3, padding=1) for count in (8, 5))
        self.thin = nn.Conv2d(13, 13, 3, padding=1, groups=13)
        self.after = nn.Conv2d(13, 4, 3)

    def forward(self, picture: Tensor) -> Tensor:
        joined = torch.cat([F.relu(self.left(picture)), self.right(picture)], 1)
        return self.after(F.max_pool2d(F.pad(self.thin(joined), (1, 1, 1, 1)), 2))


def make_joining() -> tuple[nn.Module, tuple[Tensor, ...], None, list[Tensor]]:
    torch.manual_seed(0)
    return Joining(), (picture(1, seed=0),), None, [picture(1, seed) for seed in range(1, 7)]


def make_pooling() -> tuple[nn.Sequential, tuple[Tensor, ...], None, list[Tensor]]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))
    return net, (picture(1, seed=0),), None, [picture(1, seed) for seed in range(1, 7)]


def make_averaging() -> tuple[nn.Module, tuple[Tensor, ...], object, list[Tensor]]:
    """A mean over all places, of as many pictures as a call has."""
    torch.manual_seed(0)
    convolution, pooling = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.AdaptiveAvgPool2d(1)
    net = nn.Sequential(convolution, nn.ReLU(), pooling, nn.Flatten(), nn.Linear(16, 10))
    given = [picture(1, seed) for seed in range(1, 7)]
    return net, (picture(2, seed=0),), ({0: Dim("batch", min=1, max=6)},), given
