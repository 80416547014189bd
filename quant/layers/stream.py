"""Hidden states of a text between two layers."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from quant.machine.device import HOST
from quant.machine.products import fast_products
from quant.machine.ranks import ALONE, SHARDS, Ranks
from quant.machine.spill import IN_MEMORY, Batches, Spill
from quant.modules import dequantized_once

STREAM_TOKENS = 2048  # that go through a layer together

Shards = list[Batches]


class States:
    """Hidden states of a short text, in memory as one tensor.

    Attributes:
        hidden: float32 (windows, seq_len, hidden_size).
        context: what layers take besides it.
    """

    def __init__(self, hidden: Tensor, context: Any, together: int | None = None) -> None:
        """together: how many windows go through a layer at once; None takes all."""
        self.hidden = hidden
        self.context = context
        self._together = together or len(hidden)

    def advance(self, layer: nn.Module) -> None:
        """Runs them through a layer, in place."""
        with dequantized_once(layer):
            for x in self.hidden.split(self._together):
                x.copy_(layer(x, self.context))


class Stream:
    """Hidden states (windows, seq_len, hidden_size) of the calibration text: this rank's shards of
    them, in batches.

    Attributes:
        shards: a batch holds some windows.
        tokens: of the whole text, the other ranks' too.
        context: what layers take besides them.
    """

    def __init__(
        self,
        text: Tensor,
        embed: Callable[[Tensor], Tensor],
        context: Any,
        spill: Spill = IN_MEMORY,
        ranks: Ranks = ALONE,
        device: torch.device = HOST,
    ) -> None:
        """
        Args:
            text: int64 (windows, seq_len).
            embed: tokens to float32 hidden states.
            context: on the device.
            device: on which the batches are returned; they are stored in the CPU's memory.
        """
        windows, self.seq_len = text.shape
        self.tokens = text.numel()
        self.context = context
        self.shards: Shards = []
        for shard in ranks.shards():
            part = text[shard * windows // SHARDS : (shard + 1) * windows // SHARDS]
            parts = part.split(max(1, STREAM_TOKENS // self.seq_len)) if len(part) else ()
            self.shards.append(spill.keep(embed(tokens).to(device) for tokens in parts))

    def __iter__(self) -> Iterator[Tensor]:
        """All batches."""
        return (x for shard in self.shards for x in shard)

    @fast_products()
    def advance(self, layer: nn.Module) -> None:
        """Runs the hidden states through a layer."""
        with dequantized_once(layer):
            for shard in self.shards:
                for index, x in enumerate(shard):
                    shard[index] = layer(x, self.context)
