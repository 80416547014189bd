"""Hash tables laid out at export, probed in place by runtime/cpp/tokenizer/hash_tables.h."""

import numpy as np
import numpy.typing as npt

EMPTY = 0xFFFFFFFF

_Words = npt.NDArray[np.uint32]


def merge_table(merges: list[tuple[int, int, int, int]]) -> tuple[_Words, int]:
    """Lays out (left, right, rank, merged) rows for lookups by (left, right).

    Returns:
        The slots, uint32 (slots * 4,), and the number of home slots.
    """
    rows = np.array(merges, dtype=np.uint32).reshape(-1, 4)
    homes = _homes_for(len(rows))
    slots, order = _place(_scale(_hash_pairs(rows[:, 0], rows[:, 1]), homes))
    table = np.full((_table_size(slots), 4), EMPTY, dtype=np.uint32)
    table[slots] = rows[order]
    return table.reshape(-1), homes


def word_table(words: dict[bytes, int]) -> tuple[_Words, int]:
    """Lays out tokens for lookups by their bytes.

    Returns:
        The slots, each a token id, uint32 (slots,), and the number of home slots.
    """
    homes = _homes_for(len(words))
    slots, order = _place(_scale(_hash_bytes(list(words)), homes))
    table = np.full(_table_size(slots), EMPTY, dtype=np.uint32)
    table[slots] = np.array(list(words.values()), dtype=np.uint32)[order]
    return table, homes


def _homes_for(entries: int) -> int:
    return max(1, entries * 3 // 2)


def _table_size(slots: npt.NDArray[np.int64]) -> int:
    """Returns one more than the last used slot, so that every probe ends at an empty slot."""
    return int(slots[-1]) + 2 if len(slots) else 1


def _mix(hashes: _Words) -> _Words:
    hashes = hashes ^ (hashes >> np.uint32(15))
    hashes = hashes * np.uint32(0x2C1B3C6D)
    hashes = hashes ^ (hashes >> np.uint32(12))
    return hashes


def _hash_pairs(left: _Words, right: _Words) -> _Words:
    return _mix(left * np.uint32(0x9E3779B1) + right * np.uint32(0x85EBCA77))


def _hash_bytes(words: list[bytes]) -> _Words:
    """Returns the FNV-1a hash of each word, computed one byte position at a time for all words."""
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(words), dtype=np.uint8)
    hashes = np.full(len(words), 0x811C9DC5, dtype=np.uint32)
    for position in range(int(lengths.max(initial=0))):
        live = np.flatnonzero(lengths > position)
        hashes[live] = (hashes[live] ^ data[starts[live] + position]) * np.uint32(0x01000193)
    return _mix(hashes)


def _scale(hashes: _Words, homes: int) -> npt.NDArray[np.int64]:
    return ((hashes.astype(np.uint64) * np.uint64(homes)) >> np.uint64(32)).astype(np.int64)


def _place(homes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Probes linearly for all entries at once: sorted by home, each takes the first free slot.

    Returns:
        The slots, ascending, and the entry of each.
    """
    order = np.argsort(homes, kind="stable")
    rank = np.arange(len(homes))
    slots = np.maximum.accumulate(homes[order] - rank) + rank
    return slots, order
