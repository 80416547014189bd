"""The blocks of a decoder layer, as the layer lists them, and how hidden states go through one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from quant.layers.walk import walk
from quant.modules import QuantizedWeight, set_weight
from quant.protocols import Block, CausalLM, DecoderLayer, Part


def blocks_of(layer: nn.Module) -> Sequence[Block]:
    """In the order of computation."""
    return cast(DecoderLayer, layer).blocks()


def mixtures_of(layer: nn.Module) -> list[Block]:
    """The blocks with experts."""
    return [block for block in blocks_of(layer) if block.router is not None]


def parts_of_layer(layer: nn.Module) -> Iterator[Part]:
    """All parts of a layer that are quantized, in the order of computation."""
    return (part for block in blocks_of(layer) for part in block.parts)


def part_names(model: CausalLM) -> list[list[str]]:
    """The parts of each layer by their names in it."""
    return [[part.name for part in parts_of_layer(stop.layer)] for stop in walk(model)]


def weight_of(layer: nn.Module, linear: str) -> Tensor:
    """The float weight (rows, columns) of the linear of that path."""
    return layer.get_parameter(f"{linear}.weight")


def shape_of(layer: nn.Module, linear: str) -> tuple[int, int]:
    """Rows and columns of the float linear of that path."""
    rows, columns = weight_of(layer, linear).shape
    return rows, columns


def linear_weights(layer: nn.Module) -> int:
    """How many numbers the linears hold that are to be quantized."""
    linears = [linear for part in parts_of_layer(layer) for linear in part.linears]
    return sum(weight_of(layer, linear).numel() for linear in linears)


def quantize_linear(layer: nn.Module, linear: str, weight: QuantizedWeight) -> None:
    """Replaces the linear of that path by a quantized one."""
    parent, _, name = linear.rpartition(".")
    set_weight(layer.get_submodule(parent), name, weight)


@dataclass(frozen=True)
class LayerBlock:
    """A block in its layer.

    Its parts may be quantized meanwhile: each method runs them as they are when it is called.
    Between two blocks that read the same, the hidden states are the sum so far and, behind it, what
    both read.
    """

    layer: nn.Module
    block: Block

    def normed(self, hidden: Tensor) -> Tensor:
        """Returns the module's input, from the hidden states before the block."""
        if self.block.branch == "closes":
            hidden = hidden.chunk(2, dim=-1)[1]
        return hidden if self.block.norm is None else self._call(self.block.norm, hidden)

    def before(self, hidden: Tensor) -> Tensor:
        """Returns what the block adds to, of the hidden states before it."""
        return hidden.chunk(2, dim=-1)[0] if self.block.branch == "closes" else hidden

    def after(self, hidden: Tensor) -> Tensor:
        """Returns the sum, of the hidden states after the block."""
        return hidden.chunk(2, dim=-1)[0] if self.block.branch == "opens" else hidden

    def reach(self, x: Tensor, context: Any) -> Tensor:
        """Returns the last linear's input, if the module's is x; `context` is what the module
        takes besides it."""

        def stop(module: nn.Module, inputs: tuple[Tensor]) -> None:
            raise _Reached(inputs[0])

        hook = self.layer.get_submodule(self.block.end).register_forward_pre_hook(stop)
        try:
            self.layer.get_submodule(self.block.module)(x, context)
        except _Reached as reached:
            return reached.input
        finally:
            hook.remove()
        raise RuntimeError(f"{self.block.module} never calls its {self.block.end}")

    def add(self, hidden: Tensor, given: Tensor) -> Tensor:
        """Returns the hidden states after the block, if its last linear's input is `given`."""
        return self._sum(hidden, self._call(self.block.end, given))

    def run(self, hidden: Tensor, context: Any) -> Tensor:
        """Returns the hidden states after the block."""
        module = self.layer.get_submodule(self.block.module)
        return self._sum(hidden, module(self.normed(hidden), context))

    def _sum(self, hidden: Tensor, output: Tensor) -> Tensor:
        total = self.before(hidden) + self._behind(output)
        if self.block.times is not None:
            total = total * self.layer.get_parameter(self.block.times)
        if self.block.sum_norm is not None:
            total = self._call(self.block.sum_norm, total)
        return torch.cat((total, hidden), dim=-1) if self.block.branch == "opens" else total

    def _behind(self, output: Tensor) -> Tensor:
        return output if self.block.after is None else self._call(self.block.after, output)

    def _call(self, path: str, x: Tensor) -> Tensor:
        module: Callable[[Tensor], Tensor] = self.layer.get_submodule(path)
        return module(x)


class _Reached(Exception):
    """Carries the input of the linear at which a block was stopped."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.input = x
