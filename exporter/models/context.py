"""What decoder layers take as input besides hidden states. Only blocks read its fields."""

from typing import NamedTuple

from exporter.models.rope import Rope


class Context(NamedTuple):
    """The context of complete sequences that begin at position 0.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
    """

    ropes: tuple[Rope, ...]


class CachedContext(NamedTuple):
    """The context of tokens that follow the positions in the caches.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
        start_pos: the position of the first token.
    """

    ropes: tuple[Rope, ...]
    start_pos: int
