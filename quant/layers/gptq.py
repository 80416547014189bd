"""Quantizes one decoder layer by GPTQ: each linear is calibrated on its inputs at run time."""

from torch import nn

from quant.integers import dequantized_once
from quant.layers.block_solver import BlockSolver, Streams
from quant.layers.blocks import LayerBlock, blocks_of
from quant.layers.experts import gptq_experts
from quant.layers.nearest import Done
from quant.layers.stream import through
from quant.machine.products import fast_products
from quant.scheme import Scheme


@fast_products()
def gptq_layer(
    layer: nn.Module, scheme: Scheme, name: str, streams: Streams, done: Done
) -> list[str]:
    """Quantizes a layer, one linear after the other, and runs the streams through it in place.

    Returns:
        the experts, by their paths in the layer, that the text gave too few tokens.
    """
    undertrained: list[str] = []
    for described in blocks_of(layer):
        block = LayerBlock(layer, described)
        solver = BlockSolver(block, scheme, name, streams, done)
        if described.router is None:
            _gptq_block(solver)
        else:
            undertrained += gptq_experts(solver)
    return undertrained


def _gptq_block(solver: BlockSolver) -> None:
    """Quantizes a block all of whose linears see all tokens."""
    block, streams, described = solver.block, solver.streams, solver.block.block
    inputs = streams.keep(block.normed, streams.hidden.shards)
    normed = None
    if streams.reference is not None:
        normed = [map(block.normed, shard) for shard in streams.reference.shards]
    readers = [linear for part in described.readers for linear in part.linears]
    statistics = solver.statistics(readers, inputs, normed)
    reached = solver.follow()  # goes through the block while that is float
    for part in described.readers:
        solver.quantize(part, statistics, None)
    del statistics

    with dequantized_once(block.layer.get_submodule(described.module)):
        inputs = through(
            lambda x, context: solver.kept(block.reach(x, context)),
            inputs,
            streams.hidden.contexts,
            streams.spill,
        )
    statistics = solver.statistics([described.end], inputs, reached)
    del reached
    solver.quantize(described.last, statistics, solver.wanted(inputs, statistics))
    del statistics
    with dequantized_once(block.layer.get_submodule(described.end)):
        for shard, reaching in zip(streams.hidden.shards, inputs, strict=True):
            for index, x in enumerate(reaching):
                shard[index] = block.add(shard[index], x)
