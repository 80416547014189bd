"""Sums over events: by line, by module, by kind, in each part of a run."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, median
from typing import TypeVar

from devtools.profile.known_work import KnownWork
from devtools.profile.profile_types import Call, Event, Profile

_OUTLIER = 2  # times the median call of its phase

Place = tuple[str, int]  # a line's file and number

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Scope:
    """A part of the run that the page can show: all of it, its prefills, its decoding, or the runs
    of a method.

    A phase is described by its median call, which a call that the system interrupted does not
    change; the complete run, whose calls are of two kinds, by their mean.

    Attributes:
        name: all, or that of a group of calls, such as prefill.
    """

    name: str
    calls: tuple[Call, ...]

    @property
    def wall_ns(self) -> int:
        return sum(call.wall_ns for call in self.calls)

    @property
    def tokens(self) -> int | None:
        """The tokens that went in; None if a call does not record them."""
        lengths = [call.seq_len for call in self.calls]
        known = [length for length in lengths if length is not None]
        return sum(known) if len(known) == len(lengths) else None

    @property
    def tokens_per_s(self) -> float | None:
        if not self.tokens or not self.call_ns:
            return None
        return self.tokens / len(self.calls) / self.call_ns * 1e9

    @property
    def call_name(self) -> str:
        return "a call" if self.name == "all" else "median call"

    @cached_property
    def call_ns(self) -> float:
        """Wall time of a call."""
        return self._typical([call.wall_ns for call in self.calls])

    @property
    def mean_ns(self) -> float:
        """Wall time of a call on average."""
        return self.wall_ns / len(self.calls)

    @cached_property
    def p90_ns(self) -> int:
        """The wall time that nine of ten calls do not exceed (the nearest rank)."""
        times = sorted(call.wall_ns for call in self.calls)
        return times[-(-9 * len(times) // 10) - 1]

    def is_outlier(self, call: Call) -> bool:
        """Whether a call took more than twice the median, as when the system interrupted it."""
        return call.wall_ns > _OUTLIER * self.call_ns

    @property
    def outliers(self) -> int:
        return sum(map(self.is_outlier, self.calls))

    def in_call(self, times: Mapping[int, int]) -> float:
        """Of something that took so much time in each call, by index: its time in a call."""
        return self._typical([times.get(call.index, 0) for call in self.calls])

    def share_of_call(self, times: Mapping[int, int]) -> float:
        """And the share of a call's wall time."""
        return self.in_call(times) / self.call_ns if self.call_ns else 0.0

    def share(self, time_ns: int) -> float:
        """Of the sum of all wall times."""
        return time_ns / self.wall_ns if self.wall_ns else 0.0

    def _typical(self, times: Sequence[int]) -> float:
        return mean(times) if self.name == "all" else median(times)


def scopes(profile: Profile) -> list[Scope]:
    """The whole run, then its phases and methods where it has several."""
    groups = [Scope(name, calls) for name, calls in profile.groups.items()]
    return [Scope("all", profile.calls), *groups] if len(groups) > 1 else groups


@dataclass
class Total:
    """
    Attributes:
        time_ns: of the events themselves; per_call: of those in each call, by its index.
        events: of which it has time; shared: whether others have a share of some.
        work: as far as the events report it.
        kinds, places, modules: what the events are, where they ran, what they belong to.
    """

    time_ns: int = 0
    per_call: Counter[int] = field(default_factory=Counter)
    events: int = 0
    work: KnownWork = field(default_factory=KnownWork)
    kinds: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)
    shared: bool = False

    def add(self, call: Call, event: Event) -> None:
        time = event.duration_ns
        self.per_call[call.index] += time
        self.time_ns += time
        self.work.add(event)
        for sums, key in (
            (self.kinds, event.kind),
            (self.places, event.backend or "runtime"),
            (self.modules, event.module_path),
        ):
            sums[key] = sums.get(key, 0) + time


def total_by(calls: Sequence[Call], key: Callable[[Event], _Key | None]) -> dict[_Key, Total]:
    """Events summed by what `key` says of their portions, those of None left out; the most time
    first."""
    totals: dict[_Key, Total] = {}
    for call in calls:
        for event in call.events:
            keys: dict[_Key, None] = {}
            for portion in event.portions:
                keys_of_portion = key(portion)
                if keys_of_portion is not None:
                    totals.setdefault(keys_of_portion, Total()).add(call, portion)
                    keys[keys_of_portion] = None
            for keys_of_portion in keys:
                totals[keys_of_portion].events += 1
                totals[keys_of_portion].shared |= len(keys) > 1
    return dict(sorted(totals.items(), key=lambda item: -item[1].time_ns))


def work_ns(total: Total, scope: Scope) -> int:
    """What the known work takes in all of the scope's calls, each as its typical one."""
    return total.work.typical_ns(scope.calls, total.time_ns, scope.in_call(total.per_call))


def place_of(event: Event) -> Place | None:
    """The file and the number of the event's line."""
    return (event.line.file, event.line.number) if event.line else None


def times_with_callees(calls: Sequence[Call]) -> dict[Place, Counter[int]]:
    """Time of each line and of all that it called, in each call by its index; a line that calls
    itself counts once."""
    times: dict[Place, Counter[int]] = {}
    for call in calls:
        for event in call.portions:
            for place in {(line.file, line.number) for line in event.stack or event.lines[:1]}:
                times.setdefault(place, Counter())[call.index] += event.duration_ns
    return times
