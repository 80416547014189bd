"""How delegates store numbers: the sizes of weights in their files, and of caches at run time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

FLOAT_BITS = 32  # of a weight that is not quantized, whatever the delegate stores it as


class StoredAs(Protocol):
    """How a weight is stored, by the arguments of `thimble::linear` (quant/weight_type.py)."""

    @property
    def bits(self) -> int: ...

    @property
    def group_size(self) -> int:
        """The group size; 0 if a row has one scale."""

    @property
    def levels(self) -> int: ...


@dataclass(frozen=True)
class FileSizes:
    """The sizes of what a delegate's files store.

    Attributes:
        weight_bytes: (rows, columns, type) to bytes of a matrix; None for XNNPACK's.
        table_bytes: the same for an embedding; None for that of ExecuTorch's own operators.
        float_bytes: bytes of a number that is not quantized.
        shares_tied: the widths in which tied ends are stored once.
        alignment: bytes, to which each stored part is aligned.
        rotary_numbers: stored for each position and dimension of a head.
        layer_bytes: the most bytes of a program besides its weights, for each layer.
        tensor_bytes: the same for each tensor of a layer, where that is less.
        graph_bytes: the most bytes of a program without layers.
    """

    weight_bytes: Callable[[int, int, StoredAs], int] | None = None
    table_bytes: Callable[[int, int, StoredAs], int] | None = None
    float_bytes: int = 4
    shares_tied: tuple[int, ...] = ()
    alignment: int = 128
    rotary_numbers: int = 2
    layer_bytes: int = 1 << 15
    tensor_bytes: int = 1 << 15
    graph_bytes: int = 1 << 15


def all_positions(window: int, context: int, seq_len: int) -> int:
    """For a delegate whose caches keep the whole context."""
    return context


def float32_bytes(bits: int, fit: bool) -> int:
    """For a delegate that keeps keys and values in float32, whatever the weights' bits."""
    return 4


def float16_bytes(bits: int, fit: bool) -> int:
    """For a delegate that keeps keys and values in float16, whatever the weights' bits."""
    return 2


def bytes_as_weights(bits: int, fit: bool) -> int:
    """For a delegate that keeps them in float32 beside floats, in int8 beside weights of fewer
    bits, if the keys fit, else in float16."""
    if bits == FLOAT_BITS:
        return 4
    return 1 if bits < 8 and fit else 2


def bytes_without_int8(bits: int, fit: bool) -> int:
    """The same for a delegate that does not multiply int8 keys and values."""
    return max(2, bytes_as_weights(bits, fit))
