"""How many bytes a model's weights take."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from torch import nn

from quant.layers.walk import outer_modules
from quant.modules import QuantizedEmbedding, QuantizedLinear
from quant.protocols import CausalLM, Part
from quant.weight_type import FLOAT_BITS, WeightType


def stock_bytes(rows: int, columns: int, type: WeightType) -> int:
    """What a matrix takes as XNNPACK stores it.

    int4: half a byte a weight, padded groups included, and a bfloat16 scale per group; int8: a
    byte and a float32 scale per row.
    """
    if not type.in_groups:
        return rows * (columns + 4)
    stored = type.padded(columns)
    return rows * (stored * type.bits // 8 + 2 * stored // type.group_size)


def stock_table_bytes(rows: int, columns: int, type: WeightType) -> int:
    """What an embedding takes as ExecuTorch's own operators read it, with float32 scales."""
    if not type.in_groups:
        return rows * (columns + 4)
    stored = type.padded(columns)
    return rows * (stored * type.bits // 8 + 4 * stored // type.group_size)


@dataclass(frozen=True)
class Storage:
    """How a delegate's files store weights.

    Attributes:
        weight_bytes: (rows, columns, type) to the bytes of a matrix.
        table_bytes: the same for an embedding.
        float_bytes: of a number that is not quantized.
        shares_tied: the widths, 32 for floats, in which tied ends are stored once; else once each.
        widths: of the integers that a budget may choose.
    """

    weight_bytes: Callable[[int, int, WeightType], int] = stock_bytes
    table_bytes: Callable[[int, int, WeightType], int] = stock_table_bytes
    float_bytes: int = 4
    shares_tied: Collection[int] = ()
    widths: Collection[int] = (4, 8)


STOCK = Storage()


def round_up(size: int, alignment: int) -> int:
    """Bytes with the padding behind them."""
    return -(-size // alignment) * alignment


def part_bytes(
    part: Part,
    shapes: Sequence[tuple[int, int]],
    type: WeightType | None,
    storage: Storage,
    alignment: int = 1,
) -> int:
    """What the linears of a layer's part take in a file.

    Args:
        shapes: rows and columns of each of `part.linears`.
        type: None for floats.
        alignment: bytes, to a multiple of which each matrix is filled up.
    """
    sizes = [
        storage.float_bytes * rows * columns
        if type is None
        else storage.weight_bytes(rows, type.padded(columns), type)
        for rows, columns in shapes
    ]
    if part.joins:
        return round_up(sum(sizes), alignment)
    return sum(round_up(size, alignment) for size in sizes)


@dataclass(frozen=True)
class StoredSize:
    """Bytes of the weights as a delegate stores them.

    Attributes:
        weights: how many numbers the checkpoint holds, tied ones once.
        linear_weights: how many of them are in the decoder layers' linears.
        linears: bytes of the decoder layers' linears.
        embedding: bytes of the token embedding.
        outer: bytes of other matrices outside the layers.
        head: bytes of `lm_head`; 0 where it is stored as the embedding.
        rest: bytes of norms and biases.
    """

    weights: int
    linear_weights: int
    linears: int
    embedding: int
    outer: int
    head: int
    rest: int

    @property
    def bits_per_weight(self) -> float:
        """All stored bits over all weights of the model."""
        ends = self.embedding + self.outer + self.head
        return 8 * (self.linears + ends + self.rest) / self.weights

    @property
    def linear_bits_per_weight(self) -> float:
        """The same of the decoder layers' linears alone: 4.5 at 4 bits in groups of 32."""
        return 8 * self.linears / self.linear_weights


def stored_size(
    model: CausalLM, layers: Sequence[nn.Module], tied: bool, storage: Storage = STOCK
) -> StoredSize:
    """Counts a model after it was quantized; `tied` says what its checkpoint stored once."""
    linears = [module for layer in layers for module in layer.modules() if _is_linear(module)]
    linear_weights = sum(module.in_features * module.out_features for module in linears)
    small = [module for layer in layers for module in layer.modules() if not _is_linear(module)]
    small.append(model.model.get_submodule("norm"))
    modules = [module for _, outer in outer_modules(model) for module in outer.modules()]
    matrices = [module for module in modules if _is_linear(module) or _is_table(module)]
    small += [module for module in modules if module not in matrices]
    rest = sum(p.numel() for module in small for p in module.parameters(recurse=False))
    rest += sum(module.bias.numel() for module in linears if module.bias is not None)
    table = model.lm_head.in_features * model.lm_head.out_features
    shared = tied and _bits(model.lm_head) in storage.shares_tied
    return StoredSize(
        weights=linear_weights + rest + sum(map(_numbers, matrices)) + (1 if tied else 2) * table,
        linear_weights=linear_weights,
        linears=sum(_linear_bytes(module, storage) for module in linears),
        embedding=_embedding_bytes(model.model.get_submodule("embed_tokens"), storage),
        outer=sum(
            _linear_bytes(module, storage)
            if _is_linear(module)
            else _embedding_bytes(module, storage)
            for module in matrices
        ),
        head=0 if shared else _linear_bytes(model.lm_head, storage),
        rest=storage.float_bytes * rest,
    )


def _is_linear(module: nn.Module) -> TypeGuard[nn.Linear | QuantizedLinear]:
    return isinstance(module, nn.Linear | QuantizedLinear)


def _is_table(module: nn.Module) -> TypeGuard[nn.Embedding | QuantizedEmbedding]:
    return isinstance(module, nn.Embedding | QuantizedEmbedding)


def _numbers(matrix: nn.Module) -> int:
    """How many numbers a linear or an embedding has, without padding."""
    match matrix:
        case QuantizedEmbedding():
            return len(matrix.values) * matrix.embedding_dim
        case QuantizedLinear():
            return matrix.out_features * matrix.in_features
    return matrix.get_parameter("weight").numel()


def _bits(linear: nn.Module) -> int:
    return linear.weight_type.bits if isinstance(linear, QuantizedLinear) else FLOAT_BITS


def _linear_bytes(linear: nn.Module, storage: Storage) -> int:
    if isinstance(linear, QuantizedLinear):
        rows, columns = linear.values.shape
        return storage.weight_bytes(rows, columns, linear.weight_type)
    return storage.float_bytes * linear.get_parameter("weight").numel()


def _embedding_bytes(embedding: nn.Module, storage: Storage) -> int:
    if isinstance(embedding, QuantizedEmbedding):
        rows, columns = embedding.values.shape
        return storage.table_bytes(rows, columns, embedding.weight_type)
    return storage.float_bytes * embedding.get_parameter("weight").numel()
