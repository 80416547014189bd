"""GPTQ of a mixture of experts: each expert is calibrated on the tokens that the router gives it.

The router works on what quantized layers compute, as at run time. An expert that sees few tokens
has a Hessian of few directions, on which GPTQ would overfit: its weights are rounded to nearest at
searched scales instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from quant.integers import dequantized_once
from quant.layers.block_solver import BlockSolver
from quant.layers.blocks import LayerBlock, weight_of
from quant.layers.nearest import round_part
from quant.layers.stream import Shards
from quant.protocols import Block, Mixture

_COLUMNS_PER_TOKEN = 8  # of an expert's input; with fewer tokens than that it is not calibrated


def gptq_experts(solver: BlockSolver) -> list[str]:
    """Quantizes a block of experts, and runs the streams through it in place.

    The float stream's inputs are those of the same tokens, whatever experts it takes itself.

    Returns:
        the experts, by their paths in the layer, that the text gave too few tokens.
    """
    block, streams = solver.block, solver.streams
    run = partial(block.run, context=None)  # which no expert reads
    experts = block.block.experts
    routed = _Routed(block, streams.hidden.shards)
    counts = streams.total(routed.counts(len(experts))).tolist()
    after = None
    if streams.reference is not None:
        # While the block is float.
        after = streams.keep(run, streams.reference.shards)
    undertrained = []
    for numbers in _groups(experts, routed.per_token):
        inputs = routed.rows(solver, streams.hidden.shards, numbers)
        reference: Sequence[Shards | None] = [None] * len(numbers)
        if streams.reference is not None:
            reference = routed.rows(solver, streams.reference.shards, numbers)
        for number, own, target in zip(numbers, inputs, reference, strict=True):
            expert = replace(solver, block=replace(block, block=experts[number]))
            tokens = int(counts[number])
            if tokens * _COLUMNS_PER_TOKEN < _columns(expert.block):
                undertrained.append(experts[number].module)
                _round(expert)
            else:
                _gptq_expert(expert, own, target, tokens)
    with dequantized_once(block.layer.get_submodule(block.block.module)):
        for shard in streams.hidden.shards:
            for index, x in enumerate(shard):
                shard[index] = run(x)
    if streams.reference is not None and after is not None:
        streams.reference.shards[:] = after
    return undertrained


class _Routed:
    """Which experts each token of the text goes to."""

    def __init__(self, block: LayerBlock, shards: Shards) -> None:
        self._block = block
        self._device = next(block.layer.parameters()).device
        mixture = cast(Mixture, block.layer.get_submodule(block.block.module))
        self._chosen = [  # of each shard, of each batch: (tokens, experts of a token)
            [mixture.chosen(block.normed(x)).flatten(0, -2) for x in shard] for shard in shards
        ]

    @property
    def per_token(self) -> int:
        """How many experts a token goes to; 1 where there are no tokens."""
        return next((chosen.shape[1] for shard in self._chosen for chosen in shard), 1)

    def counts(self, experts: int) -> Iterator[Tensor]:
        """How many tokens each expert has, for each shard: float32 (experts,)."""
        for shard in self._chosen:
            counts = torch.zeros(experts, device=self._device)
            for chosen in shard:
                counts += torch.bincount(chosen.flatten(), minlength=experts)
            yield counts

    def rows(self, solver: BlockSolver, shards: Shards, numbers: Sequence[int]) -> list[Shards]:
        """The normed inputs (tokens, hidden_size) of some experts, in one pass over a stream."""
        spill = solver.streams.spill
        rows = [[spill.keep(()) for _ in shards] for _ in numbers]
        for at, shard in enumerate(shards):
            for x, chosen in zip(shard, self._chosen[at], strict=True):
                normed = self._block.normed(x).flatten(0, -2)
                for number, batches in zip(numbers, rows, strict=True):
                    own = (chosen == number).any(dim=-1)
                    if own.any():
                        batches[at].append(normed[own])
        return rows


def _groups(experts: Sequence[Block], per_token: int) -> Iterator[Sequence[int]]:
    """The experts, so many together that their rows are about as many as the text's tokens."""
    size = max(1, len(experts) // per_token)
    return (range(len(experts))[first : first + size] for first in range(0, len(experts), size))


def _columns(expert: LayerBlock) -> int:
    return weight_of(expert.layer, expert.block.readers[0].linears[0]).shape[1]


def _gptq_expert(
    expert: BlockSolver, inputs: Shards, reference: Sequence[Iterable[Tensor]] | None, tokens: int
) -> None:
    """Quantizes one expert by its own inputs (tokens, hidden_size)."""
    block, keep = expert.block, expert.streams.keep
    described, reach = block.block, partial(block.reach, context=None)
    readers = [linear for part in described.readers for linear in part.linears]
    statistics = expert.statistics(readers, inputs, reference, tokens)
    reached = None
    if reference is not None:  # through the expert while it is float
        reached = keep(reach, cast(Shards, reference))
    for part in described.readers:
        expert.quantize(part, statistics, None)
    del statistics
    with dequantized_once(block.layer.get_submodule(described.module)):
        inputs = keep(lambda x: expert.kept(reach(x)), inputs)
    statistics = expert.statistics([described.end], inputs, reached, tokens)
    expert.quantize(described.last, statistics, None)


def _round(expert: BlockSolver) -> None:
    """Rounds one expert to nearest."""
    method = replace(expert.scheme.choice, rounding="nearest", scales="searched")
    scheme = replace(expert.scheme, method=method)
    for part in expert.block.block.parts:
        round_part(expert.block.layer, part, scheme, expert.name, expert.done)
