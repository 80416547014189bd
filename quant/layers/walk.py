"""The one walk through a model's decoder layers, for all work on them.

Stored layers are loaded, moved to a device, processed and released one at a time: no two are floats
in memory. Meanwhile, hidden states (quant.layers.stream) go through them; what a layer takes
besides those is up to the model.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from quant.machine.device import HOST, move
from quant.machine.spill import Spill
from quant.protocols import CausalLM, WeightSource
from quant.rounding.nearest import require_finite

_WALKED = ("embed_tokens", "layers", "norm")


@dataclass(frozen=True)
class Stop:
    """A decoder layer at which a walk has stopped; its name is such as "model.layers.3"."""

    index: int
    name: str
    layer: nn.Module

    def load(
        self, weights: WeightSource, device: torch.device = HOST, matrices: bool = True
    ) -> None:
        """Makes the layer floats on a device.

        Args:
            matrices: whether to check them too; rounding checks its matrices itself.

        Raises:
            QuantError: a stored value is not finite.
        """
        load_finite(weights, self.layer, f"{self.name}.", matrices)
        move(self.layer, device)


def layers_of(model: CausalLM) -> list[nn.Module]:
    """The decoder layers, in the order of computation."""
    return list(model.model.get_submodule("layers").children())


def walk(model: CausalLM, backwards: bool = False) -> Iterator[Stop]:
    """The layers as they are in memory."""
    stops = [
        Stop(index, f"model.layers.{index}", layer) for index, layer in enumerate(layers_of(model))
    ]
    return reversed(stops) if backwards else iter(stops)


def outer_modules(model: CausalLM) -> Iterator[tuple[str, nn.Module]]:
    """The decoder's modules besides embedding, layers and last norm, by name."""
    for name, module in model.model.named_children():
        if name not in _WALKED:
            yield f"model.{name}", module


def float_walk(
    model: CausalLM, weights: WeightSource, device: torch.device = HOST, backwards: bool = False
) -> Iterator[Stop]:
    """The stored layers, each in float on a device while the walk stops there.

    Args:
        model: with its layers on the meta device, where they are left.

    Raises:
        QuantError: a stored value is not finite.
    """
    for stop in walk(model, backwards):
        stop.load(weights, device)
        yield stop
        stop.layer.to("meta")
        weights.release()


def filling_walk(model: CausalLM, weights: WeightSource, spill: Spill) -> Iterator[Stop]:
    """The layers as they are filled: each stays as the walk leaves it, in the CPU's memory or where
    `spill` puts it."""
    for stop in walk(model):
        yield stop
        move(stop.layer, HOST)
        spill.park(stop.layer)
        spill.release()
        weights.release()


def through_layers(
    model: CausalLM, hidden: Tensor, context: Any, release: Callable[[], None] = lambda: None
) -> Tensor:
    """Hidden states behind all layers of a model that is in memory.

    Args:
        hidden: float32 (windows, seq_len, hidden_size).
        context: `model.context(seq_len)`.
        release: is called after every layer, whose memory may then be released.
    """
    for stop in walk(model):
        hidden = stop.layer(hidden, context)
        release()
    return hidden


def load_finite(
    weights: WeightSource, module: nn.Module, prefix: str, matrices: bool = True
) -> None:
    """As `WeightSource.load_into`.

    Args:
        matrices: check them too; rounding checks its matrices itself.

    Raises:
        QuantError: a norm, a bias, a convolution or a matrix holds a value that is not finite.
    """
    weights.load_into(module, prefix)
    for name, parameter in module.named_parameters():
        if matrices or parameter.dim() != 2:
            require_finite(parameter, f"{prefix}{name}")
