"""How many positions the cache of a sliding window keeps."""

from delegates.op_list.layout import round_up

_BLOCK, _TILE = 16, 64  # positions, as in runtime/cpp/kernels/shared/cache.h
_LEAST_CHUNK, _CHUNK = 8, 256  # tokens that the executor runs together


def kept_positions(window: int, context: int, tokens: int) -> int:
    """Returns the number of positions that a sliding window's cache keeps; see ring_rows."""
    return ring_rows(window, context, tokens) or context


def ring_rows(window: int, context: int, tokens: int) -> int:
    """Returns the number of positions that a sliding window's cache keeps; 0: all, because a ring
    would not be smaller.

    They are the positions that the first token of a chunk sees, from the start of a block of 16
    on, and the chunk's own, rounded up to tiles of 64.

    Args:
        window: positions that a query sees; 0 for all.
        context: positions of the model's context.
        tokens: the most of a call.
    """
    rows = window + _BLOCK - 2 + max(_LEAST_CHUNK, min(tokens, _CHUNK))
    rows = round_up(rows, _TILE)
    return rows if window > 0 and rows < context else 0
