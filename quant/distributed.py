"""The ranks that torchrun has started: `torchrun --nproc-per-node N -m quant run ...`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist

from quant.ranks import ALONE, Ranks

_PATIENCE = timedelta(hours=12)  # of one rank for another that works; one that died is noticed


@contextmanager
def joined() -> Iterator[Ranks]:
    """This process among those of its torchrun; alone where there is none.

    Raises:
        QuantError: a number of processes that cannot share the work.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    ranks = Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    dist.init_process_group("gloo", timeout=_PATIENCE)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
