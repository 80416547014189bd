"""What a model has outside its layers besides its two ends, such as a table that makes an input of
each layer.

Its matrices are stored like the embedding, rounded to nearest; the rest stays floats.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from quant.layers.keep_integers import keep_weight
from quant.layers.walk import load_finite, outer_modules
from quant.machine.spill import IN_MEMORY, Spill
from quant.measure.size import Storage
from quant.method import Method
from quant.modules import QuantizedEmbedding, QuantizedWeight, set_weight
from quant.protocols import CausalLM, WeightSource
from quant.rounding.nearest import round_weight
from quant.scheme import KEEP, Scheme
from quant.weight_type import WeightType

PIECE = 1 << 26  # numbers of a matrix that are rounded at once, where it lies on disk


@dataclass(frozen=True)
class OuterPart:
    """A matrix outside the layers.

    Attributes:
        name: such as "model.layer_inputs.embedding".
        module: a linear or an embedding.
    """

    name: str
    module: nn.Module

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, before it is quantized."""
        rows, columns = self.module.get_parameter("weight").shape
        return rows, columns

    @property
    def is_table(self) -> bool:
        return isinstance(self.module, nn.Embedding)

    def bytes(self, scheme: Scheme, storage: Storage) -> int:
        """What it takes in a file."""
        (rows, columns), type = self.shape, scheme.type_of(self.name)
        if type is None:
            return storage.float_bytes * rows * columns
        bytes_of = storage.table_bytes if self.is_table else storage.weight_bytes
        return bytes_of(rows, type.padded(columns), type)


def outer_parts(model: CausalLM) -> list[OuterPart]:
    """Its matrices, not yet quantized, in the order of the modules."""
    return [
        OuterPart(f"{name}.{path}", submodule)
        for name, module in outer_modules(model)
        for path, submodule in module.named_modules()
        if isinstance(submodule, nn.Linear | nn.Embedding)
    ]


def outer_tensors(model: CausalLM) -> list[str]:
    """The names of all of its parameters."""
    return [
        f"{name}.{path}"
        for name, module in outer_modules(model)
        for path, _ in module.named_parameters()
    ]


def fill_outer(
    model: CausalLM, scheme: Scheme, weights: WeightSource, spill: Spill = IN_MEMORY
) -> None:
    """Loads and quantizes it.

    Args:
        spill: where the integers and scales are kept; with a directory, a matrix is rounded some
            rows at a time, and never whole in memory.

    Raises:
        QuantError: a stored value is not finite.
    """
    for part in outer_parts(model):
        type, name = scheme.type_of(part.name), f"{part.name}.weight"
        if type is None:
            load_finite(weights, part.module, f"{part.name}.")
            continue
        if scheme.name == KEEP:
            quantized = keep_weight(weights, name, type, scheme)
        else:
            quantized = _rounded(weights, name, type, scheme.choice, spill)
        weights.release()
        parent, _, own = part.name.rpartition(".")
        owner = cast(nn.Module, model).get_submodule(parent)
        if part.is_table:
            owner.add_module(own, QuantizedEmbedding(quantized, part.shape[1]))
        else:
            set_weight(owner, own, quantized)
        if scheme.name == KEEP:
            spill.park(owner.get_submodule(own))
    for name, module in outer_modules(model):
        for path, submodule in module.named_modules():
            if any(submodule.named_parameters(recurse=False)) and not isinstance(
                submodule, nn.Linear | nn.Embedding
            ):
                load_finite(weights, submodule, f"{name}.{path}." if path else f"{name}.")


def _rounded(
    weights: WeightSource, name: str, type: WeightType, method: Method, spill: Spill
) -> QuantizedWeight:
    weight = weights.tensor(name)
    if spill.directory is None:
        return round_weight(weight, type, name, method)

    def pieces() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in weight.split(max(1, PIECE // weight.shape[1])):
            piece = round_weight(rows, type, name, method)
            weights.release()
            yield piece.values, piece.scales

    values, scales = spill.stack(pieces(), len(weight))
    return QuantizedWeight(values, scales, type)
