"""The progress of a long run."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One report: what has just been done, and how much of the whole.

    Attributes:
        what: such as "model.layers.3.mlp.down_proj".
        done: units of work done, of `total`.
        seconds_left: a linear estimate, or None before anything is done.
    """

    what: str
    done: int
    total: int
    seconds_left: float | None


ProgressCallback = Callable[[Progress], None]


class ProgressMeter:
    """Counts units of work and reports each step with the time left."""

    def __init__(self, total: int, callback: ProgressCallback | None) -> None:
        self._total = total
        self._callback = callback
        self._done = self._done_before = 0
        self._started = self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def restart_estimate(self) -> None:
        """Estimates by what comes from now on: what came before was of another speed."""
        self._since, self._done_before = time.monotonic(), self._done

    def advance(self, what: str, units: int) -> None:
        """Reports that `units` more are done."""
        self._done += units
        if self._callback is None:
            return
        done = self._done - self._done_before
        seconds = time.monotonic() - self._since
        left = seconds / done * (self._total - self._done) if done else None
        self._callback(Progress(what, self._done, self._total, left))
