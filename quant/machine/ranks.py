"""The processes that quantize one model together; alone, there is one.

Sums over the calibration text are bit-identical for any number of ranks: the text is always cut
into the same eight shards, and their sums are added as a tree whose form does not depend on which
rank holds which shard.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from quant.errors import QuantError
from quant.machine.device import HOST
from quant.machine.spill import IN_MEMORY, Batches, Spill

SHARDS = 8  # of the calibration text; a power of two


class Ranks:
    """This process among `count`; collective calls are made by all of them in one order."""

    def __init__(self, rank: int = 0, count: int = 1, device: torch.device = HOST) -> None:
        """
        Args:
            device: where the tensors lie that they exchange.

        Raises:
            QuantError: a number of ranks that does not divide the shards.
        """
        if SHARDS % count:
            raise QuantError(
                f"{count} processes cannot share the work; it must be 1, 2, 4 or 8 of them."
            )
        self.rank = rank
        self.count = count
        self._device = device
        self._turn = 0

    @property
    def first(self) -> bool:
        """Whether this is the one that reports and writes."""
        return self.rank == 0

    def shards(self) -> range:
        """Which shards are this rank's."""
        size = SHARDS // self.count
        return range(self.rank * size, (self.rank + 1) * size)

    def sum(self, terms: Iterable[Tensor], spill: Spill = IN_MEMORY) -> Tensor:
        """The sum over all shards of all ranks, from a term for each of this rank's. Terms have one
        shape and are overwritten. Sums that wait for another, at most log2(8), are kept by
        `spill`."""
        waiting: list[tuple[int, Batches]] = []
        for total in terms:
            level = 0
            while waiting and waiting[-1][0] == level:
                total, level = waiting.pop()[1][0].add_(total), level + 1
            if level < _levels(len(self.shards())):
                waiting.append((level, spill.keep((total,))))
        assert not waiting, "a term for each shard"
        step = 1
        while step < self.count:
            total.add_(self._swapped(total, self.rank ^ step))
            step *= 2
        return total

    def next_owner(self) -> int:
        """Which rank does the next piece of work, in turn; all ranks ask in the same order."""
        turn = self._turn
        self._turn = (turn + 1) % self.count
        return turn

    def share(self, tensor: Tensor, owner: int) -> None:
        """Sends the owner's numbers to all ranks, in place."""
        if self.count > 1:
            with self._together():
                dist.broadcast(tensor, owner)

    def agree(self, flags: list[bool]) -> list[bool]:
        """The first rank's flags."""
        if self.count == 1:
            return flags
        tensor = torch.tensor(flags, dtype=torch.uint8).to(self._device)
        self.share(tensor, 0)
        return [bool(flag) for flag in tensor.tolist()]

    def _swapped(self, tensor: Tensor, other: int) -> Tensor:
        """Exchanges this tensor with another rank; returns that rank's."""
        theirs = torch.empty_like(tensor)
        tensor = tensor.contiguous()
        sending = dist.P2POp(dist.isend, tensor, other)
        receiving = dist.P2POp(dist.irecv, theirs, other)
        with self._together():
            for work in dist.batch_isend_irecv([sending, receiving]):
                work.wait()
        return theirs

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turns the failure of an exchange into a QuantError."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise QuantError(
                f"another of the {self.count} processes has ended ({reason}); start them again: "
                "finished layers are in the cache."
            ) from None


def _levels(count: int) -> int:
    return count.bit_length() - 1


ALONE = Ranks()
