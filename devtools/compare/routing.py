"""Tokens that a program gives to other experts than the quantized model does.

A router's scores follow what the layers before it round. Where two experts are almost equal, one
step of rounding decides which of them a token goes to.
"""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Flip:
    """One token of one layer.

    Attributes:
        position: of the token in the text.
        left, taken: numbers of the experts that only the quantized model chooses, and only the
            program.
        margin: how much higher the quantized model scores what it chooses than what the program
            does, at the closest.
        moved: the largest difference of the token's scores.
    """

    position: int
    left: tuple[int, ...]
    taken: tuple[int, ...]
    margin: float
    moved: float


@dataclass(frozen=True)
class LayerRouting:
    """The choices of one layer.

    Attributes:
        module_path: of its mixture of experts.
        tokens: how many were compared.
        deviation: of the quantized model's scores within a token, on average.
    """

    module_path: str
    tokens: int
    deviation: float
    flips: tuple[Flip, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_routing(
    path: str, where: Tensor, scores: tuple[Tensor, Tensor], chosen: tuple[Tensor, Tensor]
) -> LayerRouting:
    """Finds the tokens whose experts differ.

    Args:
        where: int64 (rows,), positions.
        scores: by which experts are chosen there, float32 (rows, num_experts): of the quantized
            model, and of the program.
        chosen: the experts, int64 (rows, num_experts_per_tok), likewise.
    """
    ours, theirs = scores
    flips = []
    for row, (mine, other) in enumerate(zip(*(each.tolist() for each in chosen), strict=True)):
        left, taken = sorted({*mine} - {*other}), sorted({*other} - {*mine})
        if left:
            margin = ours[row, left].min() - ours[row, taken].max()
            moved = (ours[row] - theirs[row]).abs().max()
            found = margin.item(), moved.item()
            flips.append(Flip(int(where[row]), tuple(left), tuple(taken), *found))
    deviation = ours.std(-1, correction=0).mean().item()
    return LayerRouting(path, len(where), deviation, tuple(flips))
