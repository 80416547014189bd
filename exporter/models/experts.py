"""The block of a mixture of experts: a router, and many small MLPs of which each row uses a few."""

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from exporter.models.context import CachedContext, Context
from exporter.models.experts_operator import Routing, mix, route
from exporter.models.mlp import MLP
from exporter.models.spec import ExpertsSpec, Norms
from quant.modules import QuantizedLinear
from quant.protocols import Block, Part


class Experts(nn.Module):
    """A sum over the experts that the router chooses, each times its weight."""

    def __init__(self, spec: ExpertsSpec, hidden_size: int) -> None:
        super().__init__()
        assert spec.expert.gated, "thimble::experts computes gated experts"
        self.routing = Routing(
            spec.num_experts_per_tok, spec.normalized, spec.sigmoid, spec.share_scale
        )
        self.activation, self.limit = spec.expert.activation, spec.expert.limit
        self.router = nn.Linear(hidden_size, spec.num_experts, spec.router_bias)
        self.choice_bias = nn.Parameter(torch.zeros(spec.num_experts)) if spec.choice_bias else None
        self.experts = nn.ModuleList(MLP(spec.expert, hidden_size) for _ in range(spec.num_experts))

    def forward(self, x: Tensor, context: Context | CachedContext) -> Tensor:
        scores = self.router(x)
        if isinstance(context, CachedContext):
            return self._captured(x, scores)
        weights, chosen = route(scores.flatten(0, 1), self.routing, self.choice_bias)
        calls = [partial(_call, expert, context) for expert in self.experts]
        return mix(x.flatten(0, 1), weights, chosen, calls).view_as(x)

    def chosen(self, x: Tensor) -> Tensor:
        """Returns the numbers of the experts that rows (..., hidden_size) go to: int64 (...,
        num_experts_per_tok)."""
        return route(self.router(x), self.routing, self.choice_bias)[1]

    def _captured(self, x: Tensor, scores: Tensor) -> Tensor:
        """The same as one operator."""
        linears: list[nn.Module] = [
            expert.get_submodule(name)
            for expert in self.experts
            for name in ("gate_proj", "up_proj", "down_proj")
        ]
        quantized = [linear for linear in linears if isinstance(linear, QuantizedLinear)]
        weights = [one.values for one in quantized]
        biases = [one.bias for one in linears if one.bias is not None]
        routing = self.routing
        of_sigmoid = (True, self.choice_bias, routing.share_scale) if routing.sigmoid else ()
        return torch.ops.thimble.experts(
            x,
            scores,
            weights or [linear.get_parameter("weight") for linear in linears],
            [linear.scales for linear in quantized],
            biases,
            *(_type(linear) for linear in linears[1:3]),
            routing.num_experts_per_tok,
            routing.normalized,
            self.activation,
            self.limit,
            *of_sigmoid,
        )

    def block(self, path: str, norms: Norms) -> Block:
        """Returns the description that quantization uses; `path` is the block's place in its
        layer."""
        within = f"{path}.experts"
        experts = [
            cast(MLP, expert).block(f"{within}.{i}", norms) for i, expert in enumerate(self.experts)
        ]
        return Block(
            module=path,
            norm=norms.before,
            readers=(_together(f"{within}.gate_up_proj", [one.readers[0] for one in experts]),),
            last=_together(f"{within}.down_proj", [one.last for one in experts]),
            after=norms.after,
            feeds_last=None,
            heads=None,
            router=f"{path}.router",
        )


def _together(name: str, parts: Sequence[Part]) -> Part:
    """The parts of all experts as one, whose weights are stored alike."""
    linears = tuple(linear for part in parts for linear in part.linears)
    return Part(name, linears, experts=len(parts), joins=True)


def _call(expert: nn.Module, context: Context | CachedContext, rows: Tensor) -> Tensor:
    return cast(Tensor, expert(rows, context))


def _type(linear: nn.Module) -> list[int]:
    if not isinstance(linear, QuantizedLinear):
        return []
    stored = linear.weight_type
    return [stored.bits, stored.group_size, stored.levels, linear.rotated]
