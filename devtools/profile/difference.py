"""What became slower between two programs, line by line, and what is only noise.

The samples of a line are its times in the calls of a phase. A line changed if three things hold:

- the Mann-Whitney U test (1947; two-sided, with its correction for ties, and exact where there are
  few calls) tells the samples apart at 5%, by Holm's method (1979) for all lines together;
- the medians of both sides differ by more than the noise: what a side's own median moved by, from
  the first half of a run's calls to the second and from one run to another, since calls of one run
  share the state of the machine. One run alone does not show how much runs differ, so a side of one
  run is assumed to move by 5%, and where both sides are one run, a change is only called possible;
- and it is at least the resolution: a nanosecond clock's for most, but XNNPACK's profiler counts
  whole microseconds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from statistics import median

from devtools.format_numbers import counted
from devtools.profile.profile_types import Call, Line, Phase, Profile
from devtools.profile.rows import Kind, Row, View, make_rows

_SIGNIFICANCE = 0.05
_FEWEST = 4  # calls on a side: with fewer, no difference is beyond chance
_EXACT = 12  # calls on a side, up to which the test counts all arrangements
_RESOLUTION_NS = 1000
_FACTS = {"processor": "processor", "runs_with": "with", "adapter": "adapter"}  # of a run
_LONE_RUN = 0.05  # of its median: what runs of one program differ by on an idle machine


class Verdict(StrEnum):
    """How a line's time changed from A to B."""

    SLOWER = "slower"
    FASTER = "faster"
    MAYBE_SLOWER = "perhaps slower"
    MAYBE_FASTER = "perhaps faster"
    SAME = "same"
    TOO_FEW = "too few calls"
    ONLY_A = "only in A"
    ONLY_B = "only in B"


@dataclass(frozen=True)
class Change:
    """One row's time in both.

    Attributes:
        key: as in B, where it is there.
        line: of the view by line.
        a_ns, b_ns: medians of a call; None where it is absent.
        noise_ns: the most that a side's median moved by itself, or is assumed to.
        p: the test's probability of such samples from one source; None where there was none.
    """

    key: str
    kind: Kind
    line: Line | None
    a_ns: float | None
    b_ns: float | None
    noise_ns: float
    p: float | None
    verdict: Verdict

    @property
    def change_ns(self) -> float | None:
        """The median of B less that of A; None where the row is absent from one."""
        return None if self.a_ns is None or self.b_ns is None else self.b_ns - self.a_ns


@dataclass(frozen=True)
class PhaseDifference:
    """The changes of a phase, the largest first.

    Attributes:
        phase: its name, with that of a method (Call.group).
        calls: that were compared on each side: (A, B).
        whole: of the calls themselves.
    """

    phase: str
    calls: tuple[int, int]
    whole: Change
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Difference:
    """Of two sides, and sentences on what could not be compared."""

    phases: tuple[PhaseDifference, ...]
    notes: tuple[str, ...]


# Times of one row in the calls of each run.
_Samples = list[list[float]]


@dataclass
class _Track:
    row: Row
    samples: _Samples


def compare_profiles(a: Sequence[Profile], b: Sequence[Profile], view: View) -> Difference:
    """
    Args:
        a, b: the runs of either side, of one program each.
    """
    phases, notes = [], _conditions(a, b)
    for phase in _groups(a, b):
        runs_a = [profile.groups.get(phase, ()) for profile in a]
        runs_b = [profile.groups.get(phase, ()) for profile in b]
        if phase == Phase.PREFILL and _tokens(runs_a) != _tokens(runs_b):
            notes.append(
                f"prefill is not compared: {_said(runs_a)} in A, {_said(runs_b)} in B; record both "
                "with the same prompt"
            )
            continue
        # Later calls attend to more positions: as many of each run as the shortest has.
        length = min(len(run) for run in (*runs_a, *runs_b))
        if not length:
            notes.append(_absent(phase, a, b))
            continue
        runs_a, runs_b = ([run[:length] for run in runs] for runs in (runs_a, runs_b))
        if phase == Phase.DECODE and _usual(runs_a) != _usual(runs_b):
            notes.append(
                f"calls of decode differ in their tokens, {_usual(runs_a):g} in A and "
                f"{_usual(runs_b):g} in B: the times are those of calls, not of tokens"
            )
        phases.append(_compare_phase(phase, runs_a, runs_b, view))
    lone = [name for name, runs in (("A", a), ("B", b)) if len(runs) == 1]
    if phases and lone:
        doubt = ", and a change beyond it is only possible" if len(lone) == 2 else ""
        notes.append(
            f"{' and '.join(lone)} {'is' if len(lone) == 1 else 'are'} one run only, which does "
            f"not show how much runs differ by themselves: {_LONE_RUN:.0%} is assumed{doubt}; to "
            "measure it, record three runs or more of each side and add them with --again-a and "
            "--again-b"
        )
    return Difference(tuple(phases), tuple(notes))


def _groups(a: Sequence[Profile], b: Sequence[Profile]) -> list[str]:
    """The names of the calls to compare: those of a language model's phases, or of each method."""
    held = dict.fromkeys(name for profile in (*a, *b) for name in profile.groups)
    of_tensors = [name for name in held if name.startswith(Phase.RUN)]
    return of_tensors or [str(phase) for phase in Phase if phase is not Phase.RUN]


def _conditions(a: Sequence[Profile], b: Sequence[Profile]) -> list[str]:
    """A note on each fact in which the runs of the sides differ, besides their program."""
    notes = []
    for fact, name in _FACTS.items():
        facts = [
            " and ".join(sorted({profile.facts.get(fact, "none") for profile in side}))
            for side in (a, b)
        ]
        if facts[0] != facts[1]:
            notes.append(f"A and B did not run alike: {name} {facts[0]} in A, {facts[1]} in B")
    return notes


def _usual(runs: Sequence[Sequence[Call]]) -> float:
    """The median of the tokens of calls."""
    return median(call.seq_len or 1 for run in runs for call in run)


def _absent(phase: str, a: Sequence[Profile], b: Sequence[Profile]) -> str:
    """The sentence on runs that have no calls of a phase."""
    held = [
        f"{profile.etdump} holds only "
        + " and ".join(f"{other} ({len(calls)})" for other, calls in profile.groups.items())
        for profile in (*a, *b)
        if phase not in profile.groups
    ]
    return f"{phase} is not compared: {', '.join(dict.fromkeys(held))}"


def _tokens(runs: Sequence[Sequence[Call]]) -> set[tuple[int | None, ...]]:
    return {tuple(call.seq_len for call in run) for run in runs}


def _said(runs: Sequence[Sequence[Call]]) -> str:
    lengths = sorted(sum(call.seq_len or 0 for call in run) for run in runs if run)
    return " and ".join(counted(length, "token") for length in dict.fromkeys(lengths)) or "none"


def _compare_phase(
    phase: str, runs_a: Sequence[Sequence[Call]], runs_b: Sequence[Sequence[Call]], view: View
) -> PhaseDifference:
    tracks_a, tracks_b = _tracks(runs_a, view), _tracks(runs_b, view)
    changes = [_change(tracks_a.get(name), tracks_b.get(name)) for name in {**tracks_b, **tracks_a}]
    lone = len(runs_a) == len(runs_b) == 1
    changes = _holm(changes, lone)
    undecided = Verdict.SAME, Verdict.TOO_FEW
    changes.sort(key=lambda item: (item.verdict in undecided, -abs(_size(item))))
    walls = [[[float(call.wall_ns) for call in run] for run in runs] for runs in (runs_a, runs_b)]
    whole = _judge(f"{phase}, whole calls", Kind.EVENTS, None, walls[0], walls[1])
    calls = (sum(map(len, runs_a)), sum(map(len, runs_b)))
    return PhaseDifference(phase, calls, _holm([whole], lone)[0], tuple(changes))


def _size(change: Change) -> float:
    if change.change_ns is not None:
        return change.change_ns
    return change.b_ns or -(change.a_ns or 0.0)


def _tracks(runs: Sequence[Sequence[Call]], view: View) -> dict[str, _Track]:
    """The rows of all calls, by a name that outlives moved lines."""
    calls = [call for run in runs for call in run]
    rows = {row.key: row for row in make_rows(calls, view) if row.count or row.self_ns}
    tracks = {key: _Track(row, []) for key, row in rows.items()}
    for run in runs:
        times = [{row.key: row.self_ns for row in make_rows([call], view)} for call in run]
        for key, track in tracks.items():
            track.samples.append([float(by_key.get(key, 0)) for by_key in times])
    return _named(tracks)


def _named(tracks: Mapping[str, _Track]) -> dict[str, _Track]:
    """Lines by their file and code, counted where the same code stands in several."""
    named: dict[str, _Track] = {}
    counts: dict[str, int] = {}
    for key, track in sorted(tracks.items(), key=lambda item: _number(item[1])):
        line = track.row.line
        if line is not None and line.text:
            name = f"{line.file}: {line.text}"
            counts[name] = counts.get(name, 0) + 1
            key = f"{name} ({counts[name]})"
        named[key] = track
    return named


def _number(track: _Track) -> int:
    return track.row.line.number if track.row.line else 0


def _change(a: _Track | None, b: _Track | None) -> Change:
    if a is None or b is None:
        there = b or a
        assert there is not None
        time = median(value for run in there.samples for value in run)
        row = there.row
        verdict = Verdict.ONLY_B if a is None else Verdict.ONLY_A
        a_ns, b_ns = (None, time) if a is None else (time, None)
        return Change(row.key, row.kind, row.line, a_ns, b_ns, 0.0, None, verdict)
    return _judge(b.row.key, b.row.kind, b.row.line, a.samples, b.samples)


def _judge(key: str, kind: Kind, line: Line | None, a: _Samples, b: _Samples) -> Change:
    """A change whose verdict is that of the test alone, until all are looked at together."""
    all_a, all_b = [x for run in a for x in run], [x for run in b for x in run]
    noise = max(_noise(a), _noise(b))
    enough = min(len(all_a), len(all_b)) >= _FEWEST
    p = mann_whitney(all_a, all_b) if enough else None
    verdict = Verdict.SAME if enough else Verdict.TOO_FEW
    return Change(key, kind, line, median(all_a), median(all_b), noise, p, verdict)


def _noise(runs: _Samples) -> float:
    """What the median moves by from half to half of a run, and from run to run."""
    moves = [0.0]
    for run in runs:
        half = len(run) // 2
        if half:
            moves.append(abs(median(run[:half]) - median(run[half:])))
    medians = [median(run) for run in runs if run]
    moves.append(max(medians) - min(medians) if len(medians) > 1 else _LONE_RUN * medians[0])
    return max(moves)


def _holm(changes: Sequence[Change], lone: bool) -> list[Change]:
    """Verdicts at one significance for all: from the smallest p on, each against its share.

    Args:
        lone: each side is one run.
    """
    tested = sorted(
        (change for change in changes if change.p is not None), key=lambda change: change.p or 0.0
    )
    certain: set[str] = set()
    for rank, change in enumerate(tested):
        if (change.p or 0.0) > _SIGNIFICANCE / (len(tested) - rank):
            break
        certain.add(change.key)
    return [_decided(change, lone) if change.key in certain else change for change in changes]


def _decided(change: Change, lone: bool) -> Change:
    moved = change.change_ns or 0.0
    if abs(moved) <= change.noise_ns or abs(moved) < _RESOLUTION_NS and _is_coarse(change):
        return change
    slower, faster = Verdict.SLOWER, Verdict.FASTER
    if lone:
        slower, faster = Verdict.MAYBE_SLOWER, Verdict.MAYBE_FASTER
    return replace(change, verdict=slower if moved > 0 else faster)


def _is_coarse(change: Change) -> bool:
    """Whether its times look like whole microseconds."""
    return all(value % _RESOLUTION_NS == 0 for value in (change.a_ns or 0.0, change.b_ns or 0.0))


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p of the Mann-Whitney U test."""
    ranked = sorted((value, side) for side, some in enumerate((a, b)) for value in some)
    ranks, ties, at = [0.0, 0.0], 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        for _, side in ranked[at:end]:
            ranks[side] += (at + 1 + end) / 2
        ties += float(end - at) ** 3 - (end - at)
        at = end
    n, m = len(a), len(b)
    u = ranks[0] - n * (n + 1) / 2
    u = min(u, n * m - u)
    if not ties and max(n, m) <= _EXACT:
        ways = sum(_arrangements(n, m, smaller) for smaller in range(int(u) + 1))
        return min(1.0, 2 * ways / math.comb(n + m, n))
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, n * m / 2 - u - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


@cache
def _arrangements(n: int, m: int, u: int) -> int:
    """In how many orders of n and m values the first side's U is u (Mann and Whitney, eq. 3)."""
    if u < 0:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return _arrangements(n - 1, m, u - m) + _arrangements(n, m - 1, u)
