"""The work that events report, summed up."""

from collections.abc import Sequence
from dataclasses import dataclass

from devtools.profile.limits import Bound, Limits, find_bound
from devtools.profile.profile_types import Call, Event


@dataclass
class KnownWork:
    """The work of the events that report both the bytes they move and their operations: one of them
    alone does not show what bounds an event.

    Attributes:
        events: how many these are.
        time_ns: of these; some backends round it down to nothing.
        bytes_moved, operations: of these.
    """

    events: int = 0
    time_ns: int = 0
    bytes_moved: int = 0
    operations: int = 0

    def add(self, event: Event) -> None:
        if event.bytes_moved is not None and event.operations is not None:
            self.events += 1
            self.time_ns += event.duration_ns
            self.bytes_moved += event.bytes_moved
            self.operations += event.operations

    def typical_ns(self, calls: Sequence[Call], own_ns: int, call_ns: float) -> int:
        """The time of the work in all calls: as if each call were the typical one, if all do the
        same work; else the measured time.

        Args:
            own_ns: what all events took, those of unknown work too; call_ns: in the typical call.
        """
        if len({call.seq_len for call in calls}) > 1 or not own_ns:
            return self.time_ns
        return round(round(call_ns) * len(calls) * self.time_ns / own_ns)

    def bound(self, time_ns: int, limits: Limits | None) -> Bound | None:
        """What bounds the work if it takes time_ns; None if this is unknown."""
        return find_bound(time_ns, self.bytes_moved, self.operations, limits)
