"""Results stored in a cache, the folder (forked.py); run by tests/quant/test_faults.py."""

from pathlib import Path

import torch
from forked import run_forked

from quant.cache.store import Cache

STORED = 4


def store(folder: Path) -> str:
    """Returns what the cache says of a disk that refuses more."""
    said: list[str] = []
    cache = Cache(folder, note=said.append)
    for number in range(STORED):
        cache.store(f"new{number}", {"weight": torch.full((64, 64), float(number))}, "layer")
    return "\n".join(said)


if __name__ == "__main__":
    run_forked(store)
