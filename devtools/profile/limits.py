"""The limits of a machine, and how close to them a piece of work came (the roofline model:
Williams, Waterman and Patterson, 2009)."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from devtools.errors import BadRequest


@dataclass(frozen=True)
class Limits:
    """The limits of one machine with so many threads; None: not probed.

    Attributes:
        bytes_per_s: read from memory.
        operations_per_s: multiplications and additions of int8 products.
    """

    threads: int
    bytes_per_s: float | None
    operations_per_s: float | None


class Resource(StrEnum):
    """What bounds a piece of work."""

    MEMORY = "memory"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Bound:
    """The resource that a piece of work needs longest, and that time over the time it took."""

    resource: Resource
    share: float

    @property
    def text(self) -> str:
        """As "memory-bound, 92% of the limit". More than the limit of memory means that what was
        counted as moved stayed in a cache."""
        if self.share > 1 and self.resource is Resource.MEMORY:
            return f"read from caches at {self.share:.1f} times the memory's rate"
        return f"{self.resource}-bound, {self.share:.0%} of the limit"


def find_bound(
    time_ns: int, bytes_moved: int | None, operations: int | None, limits: Limits | None
) -> Bound | None:
    """What bounds work that took time_ns; None if this is unknown.

    Args:
        bytes_moved, operations: of the work; None where unknown.
    """
    if limits is None or time_ns <= 0:
        return None
    needed = {}
    if bytes_moved and limits.bytes_per_s:
        needed[Resource.MEMORY] = bytes_moved / limits.bytes_per_s
    if operations and limits.operations_per_s:
        needed[Resource.COMPUTE] = operations / limits.operations_per_s
    if not needed:
        return None
    resource = max(needed, key=lambda name: needed[name])
    return Bound(resource, needed[resource] / (time_ns * 1e-9))


def load_limits(path: Path, threads: int | None) -> Limits:
    """The limits in a file that `devtools bench --json` wrote.

    Args:
        threads: how many the profiled run used; None if the profile does not contain it: the file
            must then hold exactly one entry.

    Raises:
        BadRequest: there is no such file, it has no limits, or none for so many threads.
    """
    try:
        limits = json.loads(path.read_text(encoding="utf-8"))["limits"]
        entries = [_entry(item) for item in limits]
        if not entries:
            raise ValueError("no entries")
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({error.strerror}); name another file.") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRequest(
            f"{path} has no limits of a machine; give what thimble-devtools bench --json wrote."
        ) from error
    return choose_limits(entries, threads, str(path))


def choose_limits(entries: Sequence[Limits], threads: int | None, source: str) -> Limits:
    """
    Raises:
        BadRequest: none of the entries is for so many threads.
    """
    counts = ", ".join(str(entry.threads) for entry in entries) or "none"
    if threads is None:
        if len(entries) == 1:
            return entries[0]
        raise BadRequest(
            f"The profile does not contain the number of threads, and {source} has limits for "
            f"{counts}; choose with --threads."
        )
    for entry in entries:
        if entry.threads == threads:
            return entry
    raise BadRequest(
        f"{source} has limits for {counts} thread{'' if counts == '1' else 's'}, but the run used "
        f"{threads}; measure them with thimble-devtools bench --threads {threads}."
    )


def _entry(item: dict[str, Any]) -> Limits:
    threads = item["threads"]
    if not isinstance(threads, int):
        raise ValueError("the number of threads is not an integer")
    return Limits(threads, _rate(item["read_bytes_per_s"]), _rate(item["int8_operations_per_s"]))


def _rate(value: float | None) -> float | None:
    """A rate per second; both 0 and None mean that it was not probed."""
    if value is None or value == 0:
        return None
    if not 1 <= value <= sys.float_info.max:  # nor is a NaN
        raise ValueError(f"{value} is not a rate")
    return value
