"""A user's module of operators that ExecuTorch or XNNPACK computes wrongly, and modules that cannot
be exported, each with a function that makes it."""

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

NAN, INF = float("nan"), float("inf")
ODD = torch.tensor(
    [[NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3e38, -3e38, 1e-40, 100.0, -100.0]]
)
STEPS = 3  # at which the state begins
LARGE = 2**53 + 1  # which no double is


def sums(halves: Tensor) -> Tensor:
    """The sum of a row of numbers, by operators that add."""
    count = halves.shape[1]
    ones, nothing = torch.ones_like(halves), torch.zeros_like(halves[0, :1])
    places = torch.zeros(count, dtype=torch.long)
    found = [
        F.linear(halves, ones, nothing)[0],
        torch.addmm(nothing[None], halves, ones.T)[0],
        F.conv1d(halves[:, :, None], ones[:, :, None]).flatten(),
        F.avg_pool1d(halves, count).flatten() * count,
        nothing.scatter_add(0, places, halves[0]),
    ]
    return torch.cat(found)


def on_integers(x: Tensor, by: int) -> Tensor:
    trunc, square = torch.div(x, by, rounding_mode="trunc"), x.square()
    return torch.stack((x % by, torch.fmod(x, -by), trunc, square, x**2, x.floor()))


class Traps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.full((1,), STEPS))
        self.register_buffer("memory", torch.full((1, 4), 0.5))
        self.convolution = nn.Conv2d(2, 4, 3, padding=1)
        self.normalization = nn.BatchNorm2d(4)
        self.exact = nn.Linear(4, 4)

    def forward(
        self, odd: Tensor, whole: Tensor, halves: Tensor, rows: Tensor, far: Tensor, picture: Tensor
    ) -> dict[str, Tensor]:
        self.steps.add_(1)
        whole.add_(1)  # a change of what the caller gave
        self.memory.copy_(torch.tanh(self.exact(self.memory)))
        features = F.relu(self.normalization(self.convolution(picture)))
        finite = odd.nan_to_num(0.0).clamp(-1e3, 1e3)
        return {
            "exp": torch.cat((odd.exp(), odd.neg().exp())),
            "steps": self.steps * 1,
            "memory": self.memory * 1.0,
            "remainder": whole % 3,
            "remainder_of_negative": torch.remainder(whole, -whole.abs().max()),
            "floor_division": whole // 3,
            "large": on_integers(whole + LARGE, 1000003),
            "ratio_to_zero": whole.float() // (whole.abs() * 0.0),
            "sign_and_powers": torch.stack((odd.sign(), odd**0.5, odd**-0.5)),
            "cumsum": halves.cumsum(-1),
            "variance": halves.var(-1),
            "sums": sums(halves),
            "half_layer_norm": F.layer_norm(rows, (300,)),
            "far_layer_norm": F.layer_norm(far, (128,)),
            "far_group_norm": F.group_norm(far[:, :, None, None] + picture.mean() * 0, 2),
            "maximum": torch.maximum(odd, torch.ones(())),
            "minimum": torch.minimum(odd, torch.ones(())),
            "square_root": odd.sqrt(),
            "inverse_square_root": odd.rsqrt(),
            "logarithm": odd.log(),
            "ceil": odd.ceil(),
            "sine": odd.sin(),
            "softplus": F.softplus(odd),
            "log_softmax": F.log_softmax(finite, -1),
            "gelu": F.gelu(finite, approximate="tanh"),
            "exact_gelu": F.gelu(finite),
            "pool_of_logarithm": F.max_pool2d(features.log(), 2),
            "pool": F.max_pool2d(features, 2),
            "pool_of_nan": F.max_pool2d(picture.sqrt(), 2),
            "pool_of_rows": F.max_pool1d(picture[:, 0].log(), 3, 2, 1),
            "pool_of_halves": F.max_pool1d(rows, 3),
            "places": F.max_pool2d(far[None, None], 2, return_indices=True)[0],
            "average": F.avg_pool2d(picture, 3, 2, 1, ceil_mode=True),
            "resized": F.interpolate(picture, scale_factor=2.5, mode="bilinear"),
            "doubled": F.interpolate(picture, scale_factor=2.0, mode="bilinear"),
            "cut": F.pad(picture, (-1, 2, 0, -3), value=2.0),
            "positions": torch.nonzero(whole > 3),
            "turned": picture.to(memory_format=torch.channels_last).permute(0, 2, 3, 1).flatten(1),
        }


def inputs(batch: int, seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator)

    return (
        ODD.clone(),
        torch.arange(-8, 7),
        torch.ones(1, 600, dtype=torch.bfloat16),
        normal(2, 300).half(),
        100 + 0.1 * normal(2, 128),
        normal(batch, 2, 9, 9),
    )


def make() -> tuple[nn.Module, tuple[Tensor, ...], object]:
    torch.manual_seed(0)
    given = inputs(2, seed=1)
    picture = given[-1].to(memory_format=torch.channels_last)
    shapes = (None, None, None, None, None, {0: Dim("batch", min=1, max=5)})
    return Traps(), (*given[:-1], picture), shapes


class Refused(nn.Module):
    """One of several modules that cannot be exported."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: Tensor) -> object:
        if self.what == "branch" and x.sum() > 0:
            return x
        if self.what == "size" and x.shape[0] == 2:
            return x + 1
        if self.what == "sort":
            return torch.sort(x).values
        if self.what == "inverse":
            return torch.linalg.inv(x)
        if self.what == "unbounded":
            return torch.bincount(x.long().flatten().abs())
        if self.what == "rrelu":
            return F.rrelu(x)
        if self.what == "convolution":
            return F.conv3d(x[None, None, None], torch.ones(1, 1, 1, 1, 1))
        if self.what == "random":
            return F.dropout(x)
        if self.what == "cut":
            return x[: int(x[0, 0].abs().item())]
        if self.what == "text":
            return x * 2, "y"
        if self.what == "number":
            return x, 3
        if self.what == "fails":
            return x @ x
        return x


def branch() -> object:
    return Refused("branch"), torch.randn(2, 3)


def size() -> object:
    return Refused("size"), torch.randn(2, 3), ({0: Dim("batch", min=1, max=8)},)


def sort() -> object:
    return Refused("sort"), torch.randn(2, 3)


def unbounded() -> object:
    return Refused("unbounded"), torch.randn(2, 3)


def without_end() -> object:
    return Refused(""), torch.randn(2, 3), ({1: Dim.AUTO, 0: Dim("batch")},)


def rrelu() -> object:
    return Refused("rrelu"), torch.randn(2, 3)


def inverse() -> object:
    return Refused("inverse"), torch.randn(3, 3)


def convolution() -> object:
    return Refused("convolution"), torch.randn(2, 3)


def random() -> object:
    return Refused("random"), torch.randn(2, 3)


def cut() -> object:
    return Refused("cut"), torch.randn(2, 3)


def out_of_range() -> object:
    return Refused(""), torch.randn(9, 3), {"x": {0: Dim("batch", max=8)}}


def recurrent() -> object:
    layers = nn.Sequential(nn.GRU(3, 4, batch_first=True))
    return layers, (torch.randn(2, 5, 3),), {"input": {1: Dim("time", max=8)}}


def text() -> object:
    return Refused("text"), torch.randn(2, 3)


def number() -> object:
    return Refused("number"), torch.randn(2, 3)


def fails() -> object:
    return Refused("fails"), torch.randn(2, 3)


def raises() -> object:
    raise ValueError("no weights here")


def ends() -> object:
    sys.exit(0)


def two_lines() -> object:
    raise ValueError("no weights\n  were found")


def complex_input() -> object:
    return Refused(""), torch.randn(2, dtype=torch.complex64)


def calibration_of_another_shape() -> object:
    return nn.Linear(3, 2), torch.randn(4, 3), None, [(torch.randn(4, 3),), (torch.randn(4, 2),)]


def of_torch_alone() -> object:
    first = nn.Linear(3, 2)
    net = nn.Sequential(
        first,
        nn.ReLU(),
    )
    return net, torch.randn(4, 3)


def no_inputs() -> object:
    return Refused("")


def no_module() -> object:
    return torch.relu, torch.randn(2)


def other_inputs() -> object:
    return Refused(""), (torch.randn(2), torch.randn(2))


def plain_number() -> object:
    return Refused(""), (3,)


def unknown_part() -> object:
    return {"module": Refused(""), "inputs": torch.randn(2), "shapes": None}
