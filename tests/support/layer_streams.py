"""A layer that GPTQ rounds, and the hidden states that it takes through it."""

import copy

import torch
from support.ties import assert_close_but_for_ties
from support.unusual_models import UnusualModel
from torch import Tensor

from exporter.models.decoder import CausalLM
from quant.layers.block_solver import Streams
from quant.layers.blocks import blocks_of
from quant.layers.gptq import gptq_layer
from quant.layers.stream import Stream
from quant.method import Method
from quant.scheme import Scheme


def assert_streams_go_through_the_layer(
    model: CausalLM | UnusualModel, text: Tensor, drift: str
) -> None:
    """Those of the quantized model through the rounded layer, those of the float one through the
    layer as it was; and each linear is rounded once."""
    context = model.context(16)
    scheme = Scheme("gptq4", method=Method(drift=drift, descent=0))
    hidden, reference = (Stream(text, model.embed, context) for _ in range(2))
    for shard in hidden.shards:
        for index, x in enumerate(shard):
            shard[index] = x * 1.01  # they have drifted
    given, wanted = ([x.clone() for x in stream] for stream in (hidden, reference))
    before = model.model.layers[0]
    after = copy.deepcopy(before)
    streams = Streams(hidden, reference if scheme.choice.follows_float else None)
    done: list[str] = []
    rare = gptq_layer(after, scheme, "model.layers.0", streams, lambda name, _: done.append(name))
    assert not rare
    for x, y in zip(given, hidden, strict=True):
        assert_close_but_for_ties(y, after(x, context))
    if streams.reference is not None:
        for x, y in zip(wanted, reference, strict=True):
            torch.testing.assert_close(y, before(x, context))
    linears = [part.linears for block in blocks_of(before) for part in block.parts]
    assert sorted(done) == sorted(f"model.layers.0.{each}" for some in linears for each in some)
