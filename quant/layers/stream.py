"""Hidden states of a text between two layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quant.integers import dequantized_once
from quant.machine.device import HOST, context_on
from quant.machine.products import fast_products
from quant.machine.ranks import ALONE, SHARDS, Ranks
from quant.machine.spill import IN_MEMORY, Batches, Spill
from quant.protocols import CausalLM, WeightSource

STREAM_TOKENS = 2048  # that go through a layer together

Shards = list[Batches]


@dataclass(frozen=True)
class Contexts:
    """What layers take besides the hidden states.

    Attributes:
        shared: by any text of that length.
        of_text: from tokens (windows, seq_len) and hidden states in front of the first layer to
            what layers take of these; None: nothing but what is shared.
    """

    shared: Any
    of_text: Callable[[Tensor, Tensor], Any] | None = None

    def of(self, tokens: Tensor, hidden: Tensor) -> Any:
        """What layers take of a text."""
        return self.shared if self.of_text is None else self.of_text(tokens, hidden)


def contexts_on(
    device: torch.device, model: CausalLM, seq_len: int, weights: WeightSource | None = None
) -> Contexts:
    """The contexts of texts on a device.

    Args:
        weights: where what is outside the layers is read, as floats; None: the model's own.
    """
    shared = context_on(device, model, seq_len)
    if not model.reads_text:
        return Contexts(shared)
    return Contexts(
        shared, lambda tokens, hidden: model.text_context(shared, tokens, hidden, weights)
    )


def through(
    make: Callable[[Tensor, Any], Tensor],
    shards: Shards,
    contexts: Sequence[Sequence[Any]],
    spill: Spill,
) -> Shards:
    """Applies `make` to each tensor with its context, and keeps the results."""
    return [spill.keep(map(make, shard, own)) for shard, own in zip(shards, contexts, strict=True)]


class States:
    """Hidden states of a short text, in memory as one tensor.

    Attributes:
        hidden: float32 (windows, seq_len, hidden_size).
        contexts: what layers take besides it, of the windows that go through a layer at once.
    """

    def __init__(
        self, hidden: Tensor, contexts: Contexts, tokens: Tensor, together: int | None = None
    ) -> None:
        """
        Args:
            tokens: int64 (windows, seq_len), the text.
            together: how many windows go through a layer at once; None takes all.
        """
        self.hidden = hidden
        self._together = together or len(hidden)
        parts = zip(tokens.split(self._together), self.split(hidden), strict=True)
        self.contexts = [contexts.of(text, x) for text, x in parts]

    def split(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Such states of the windows that go through a layer at once."""
        return hidden.split(self._together)

    def advance(self, layer: nn.Module) -> None:
        """Runs them through a layer, in place."""
        with dequantized_once(layer):
            for x, context in zip(self.split(self.hidden), self.contexts, strict=True):
                x.copy_(layer(x, context))


class Stream:
    """Hidden states (windows, seq_len, hidden_size) of the calibration text: this rank's shards of
    them, in batches.

    Attributes:
        shards: a batch holds some windows.
        tokens: of the whole text, the other ranks' too.
        contexts: of each batch of each shard, what layers take besides its hidden states.
    """

    def __init__(
        self,
        text: Tensor,
        embed: Callable[[Tensor], Tensor],
        contexts: "Contexts | Any",
        spill: Spill = IN_MEMORY,
        ranks: Ranks = ALONE,
        device: torch.device = HOST,
    ) -> None:
        """
        Args:
            text: int64 (windows, seq_len).
            embed: tokens to float32 hidden states.
            contexts: on the device; or one context for any text.
            device: on which the batches are returned; they are stored in the CPU's memory.
        """
        windows, self.seq_len = text.shape
        self.tokens = text.numel()
        contexts = contexts if isinstance(contexts, Contexts) else Contexts(contexts)
        self.shards: Shards = []
        self.contexts: list[list[Any]] = []
        for shard in ranks.shards():
            part = text[shard * windows // SHARDS : (shard + 1) * windows // SHARDS]
            parts = part.split(max(1, STREAM_TOKENS // self.seq_len)) if len(part) else ()
            own: list[Any] = []

            def embedded(tokens: Tensor, own: list[Any] = own) -> Tensor:
                hidden = embed(tokens).to(device)
                own.append(contexts.of(tokens, hidden))
                return hidden

            self.shards.append(spill.keep(map(embedded, parts)))
            self.contexts.append(own)

    def __iter__(self) -> Iterator[Tensor]:
        """All batches."""
        return (x for shard in self.shards for x in shard)

    @fast_products()
    def advance(self, layer: nn.Module) -> None:
        """Runs the hidden states through a layer."""
        with dequantized_once(layer):
            for shard, contexts in zip(self.shards, self.contexts, strict=True):
                for index, (x, context) in enumerate(zip(shard, contexts, strict=True)):
                    shard[index] = layer(x, context)
