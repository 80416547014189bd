"""Our operator of a mixture of experts in a captured program: routes rows, runs each through its
experts, and adds what these return.

A delegate that does not know it replaces it by its decomposition into ATen, in which every expert
computes all rows. Eager mode runs an expert only on the rows that it gets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import cast, get_args

import torch
from torch import Tensor
from torch._decomp import register_decomposition
from torch.nn import functional as F

import quant.operators  # noqa: F401  (defines torch.ops.thimble.linear)
from exporter.models.mlp import ACTIVATIONS, clamped
from exporter.models.spec import Activation

_library = torch.library.Library("thimble", "FRAGMENT")
_library.define(
    "experts(Tensor input, Tensor scores, Tensor[] weights, Tensor[] scales, Tensor[] biases, "
    "int[] up_type, int[] down_type, int num_experts_per_tok, bool normalized, str activation, "
    "float? limit=None, bool sigmoid=False, Tensor? choice_bias=None, float share_scale=1.0) "
    "-> Tensor"
)

_LEAST_SUM = 1e-6  # what is added to a sum of sigmoids
Expert = Callable[[Tensor], Tensor]  # rows (count, hidden_size) to rows of the same shape


@dataclass(frozen=True)
class Routing:
    """How experts are chosen and weighed, as ExpertsSpec says."""

    num_experts_per_tok: int
    normalized: bool
    sigmoid: bool = False
    share_scale: float = 1.0


def route(
    scores: Tensor, routing: Routing, choice_bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Chooses the experts with the highest scores.

    Args:
        scores: float32 (..., num_experts), of the router.
        choice_bias: float32 (num_experts,); None: there is none.

    Returns:
        Their weights, float32, and their numbers, int64, both (..., num_experts_per_tok).
    """
    count = routing.num_experts_per_tok
    if not routing.sigmoid:
        if routing.normalized:
            highest, chosen = scores.topk(count, dim=-1)
            return highest.softmax(-1), chosen
        weights, chosen = scores.softmax(-1).topk(count, dim=-1)
        return weights, chosen
    given = scores.sigmoid()
    chosen = routed_by(scores, routing, choice_bias).topk(count, dim=-1)[1]
    weights = given.gather(-1, chosen)
    if routing.normalized:
        weights = weights / (weights.sum(-1, keepdim=True) + _LEAST_SUM)
    return weights * routing.share_scale, chosen


def routed_by(scores: Tensor, routing: Routing, choice_bias: Tensor | None = None) -> Tensor:
    """What experts are chosen by, the highest first: float32 of the scores' shape."""
    if not routing.sigmoid:
        return scores
    given = scores.sigmoid()
    return given if choice_bias is None else given + choice_bias


def mix(x: Tensor, weights: Tensor, chosen: Tensor, experts: Sequence[Expert]) -> Tensor:
    """Adds the outputs of each row's experts times their weights, in the order of the experts.

    Args:
        x: float32 (rows, hidden_size).
        weights, chosen: of `route`, (rows, num_experts_per_tok).
        experts: each is called with its rows, if it has any.

    Returns:
        float32 (rows, hidden_size).
    """
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, place = torch.where(chosen == number)
        if len(rows):
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
    return out


def experts(
    input: Tensor,
    scores: Tensor,
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    biases: Sequence[Tensor],
    up_type: Sequence[int],
    down_type: Sequence[int],
    num_experts_per_tok: int,
    normalized: bool,
    activation: str,
    limit: float | None = None,
    sigmoid: bool = False,
    choice_bias: Tensor | None = None,
    share_scale: float = 1.0,
) -> Tensor:
    """A mixture of gated feed-forward parts, down(activation(gate(x)) * up(x)).

    Args:
        input: float32 (..., hidden_size).
        scores: float32 (..., num_experts), of the router.
        weights: gate, up and down of the first expert, then those of the next, and so on: float32,
            or int8 as `thimble::linear` has them.
        scales: of these weights; empty for floats.
        biases: likewise; empty where there are none.
        up_type: bits, group_size, levels and rotated of gate and up; empty for floats.
        down_type: the same of down.
        num_experts_per_tok, normalized, sigmoid, share_scale: as in ExpertsSpec.
        activation, limit: as in MlpSpec.
        choice_bias: as in `route`.

    Returns:
        float32 (..., hidden_size).
    """
    parts = _experts(weights, scales, biases, up_type, down_type, activation, limit)
    routing = Routing(num_experts_per_tok, normalized, sigmoid, share_scale)
    shares, chosen = route(scores.flatten(0, -2), routing, choice_bias)
    return mix(input.flatten(0, -2), shares, chosen, parts).view_as(input)


def every_expert(
    input: Tensor,
    scores: Tensor,
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    biases: Sequence[Tensor],
    up_type: Sequence[int],
    down_type: Sequence[int],
    num_experts_per_tok: int,
    normalized: bool,
    activation: str,
    limit: float | None = None,
    sigmoid: bool = False,
    choice_bias: Tensor | None = None,
    share_scale: float = 1.0,
) -> Tensor:
    """The same in operators whose shapes do not depend on the routing: each expert computes all
    rows, with a weight of 0 where it was not chosen."""
    parts = _experts(weights, scales, biases, up_type, down_type, activation, limit)
    routing = Routing(num_experts_per_tok, normalized, sigmoid, share_scale)
    shares, chosen = route(scores, routing, choice_bias)
    shares = (scores * 0.0).scatter(-1, chosen, shares)
    outputs = (part(input) * shares.narrow(-1, number, 1) for number, part in enumerate(parts))
    return reduce(torch.add, outputs)


@dataclass(frozen=True)
class _Expert:
    """One expert, of the operator's arguments; without scales of floats, each without biases."""

    weights: Sequence[Tensor]
    scales: Sequence[Tensor]
    biases: Sequence[Tensor]
    up_type: Sequence[int]
    down_type: Sequence[int]
    activation: Activation
    limit: float | None

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self._linear(x, 0, self.up_type), self._linear(x, 1, self.up_type)
        gate, up = clamped(gate, up, self.limit)
        return self._linear(ACTIVATIONS[self.activation](gate) * up, 2, self.down_type)

    def _linear(self, x: Tensor, which: int, type: Sequence[int]) -> Tensor:
        bias = self.biases[which] if self.biases else None
        if not self.scales:
            return F.linear(x, self.weights[which], bias)
        bits, group_size, levels, rotated = type
        weight, scales = self.weights[which], self.scales[which]
        return cast(
            Tensor,
            torch.ops.thimble.linear(x, weight, scales, bias, bits, group_size, levels, rotated),
        )


def _experts(
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    biases: Sequence[Tensor],
    up_type: Sequence[int],
    down_type: Sequence[int],
    activation: str,
    limit: float | None,
) -> list[_Expert]:
    assert activation in get_args(Activation), activation
    return [
        _Expert(
            weights[first : first + 3],
            scales[first : first + 3],
            biases[first : first + 3],
            up_type,
            down_type,
            cast(Activation, activation),
            limit,
        )
        for first in range(0, len(weights), 3)
    ]


_library.impl("experts", experts, "CompositeExplicitAutograd")
register_decomposition(torch.ops.thimble.experts.default)(every_expert)


@torch.library.register_fake("thimble::experts", lib=_library)
def _experts_fake(input: Tensor, *_: object) -> Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)
