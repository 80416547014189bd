"""The ranks that torchrun has started: `torchrun --nproc-per-node N -m quant run ...`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from quant.errors import QuantError
from quant.machine.device import find_device
from quant.machine.ranks import ALONE, Ranks

_PATIENCE = timedelta(hours=12)  # of a rank that waits for one at work; a dead one is noticed


def own_device(name: str) -> torch.device:
    """The device of that name for this process; several on one machine have a GPU each.

    Raises:
        QuantError: as `quant.machine.device.find_device`.
    """
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    return find_device(name, rank, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """This process among those of its torchrun; alone where there is none.

    Args:
        device: of this process; GPUs exchange what they have by NCCL, CPUs by gloo.

    Raises:
        QuantError: a number of processes that cannot share the work, or no NCCL for GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    ranks = Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device)
    if device.type == "cuda":
        if not dist.is_nccl_available():
            raise QuantError(
                f"PyTorch {torch.__version__} has no NCCL, by which GPUs share work; take "
                "--device cpu, or start one process."
            )
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=_PATIENCE, device_id=device)
    else:
        dist.init_process_group("gloo", timeout=_PATIENCE)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
