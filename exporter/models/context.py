"""What decoder layers take beside hidden states. Only blocks look inside."""

from typing import NamedTuple

from exporter.models.rope import Rope


class Context(NamedTuple):
    """Of whole sequences that begin at position 0.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
    """

    ropes: tuple[Rope, ...]


class CachedContext(NamedTuple):
    """Of tokens that follow what the caches hold.

    Attributes:
        ropes: each rotary table of the decoder, its rows of these positions.
        start_pos: the position of the first token.
    """

    ropes: tuple[Rope, ...]
    start_pos: int
