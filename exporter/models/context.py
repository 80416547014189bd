"""What decoder layers take as input besides hidden states. Only blocks read its fields."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from exporter.models.rotary_tables import Rope

# By layer, the keys and values that later layers attend to as well. A layer that has some adds
# them as it runs.
Kept = dict[int, tuple[Tensor, Tensor]]
# The layers' own inputs of each token, (batch, seq_len, layers * size); or, from a layer's index,
# those of one layer: (batch, seq_len, size).
LayerInputs = Tensor | Callable[[int], Tensor]


class Context(NamedTuple):
    """The context of complete sequences that begin at position 0.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
        kept: keys and values (batch, seq_len, num_key_value_heads, head_dim) of these sequences;
            None: no layer attends to another's.
        inputs: of these sequences; None: layers have no input of their own.
    """

    ropes: tuple[Rope, ...]
    kept: Kept | None = None
    inputs: LayerInputs | None = None


class CachedContext(NamedTuple):
    """The context of tokens that follow the positions in the caches.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
        start_pos: the position of the first token.
        kept: the caches of keys and of values; None: no layer attends to another's.
        inputs: of these tokens; None: layers have no input of their own.
    """

    ropes: tuple[Rope, ...]
    start_pos: int
    kept: Kept | None = None
    inputs: LayerInputs | None = None
