"""Who runs what: the program as a strip of steps, and the operators that no delegate took."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from devtools.profile.profile_types import Call, Profile
from devtools.report.program import Program

_UNKNOWN = "not recorded in the file; pass --pte of a model exported with reasons"


@dataclass(frozen=True)
class Cell:
    """One step of the program, as a call ran it.

    Attributes:
        place: the backend, or runtime.
        events: recorded in it.
    """

    place: str
    title: str
    time_ns: int
    events: int


@dataclass(frozen=True)
class Share:
    """What one place did: steps of a call, events in them, and time of the whole run."""

    place: str
    steps: int
    events: int
    time_ns: int
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Left:
    """An operator of one line that the runtime runs itself.

    Attributes:
        time_ns: of the whole run; None where the profile has no such operator there.
        reason: why no delegate has them.
    """

    operator: str
    location: str
    count: int
    time_ns: int | None
    reason: str


@dataclass(frozen=True)
class DelegationMap:
    """
    Attributes:
        cells: of the last call.
        refused: the sentence of each delegate that was tried and took nothing, or not everything.
    """

    cells: tuple[Cell, ...]
    shares: tuple[Share, ...]
    left: tuple[Left, ...]
    refused: tuple[tuple[str, str], ...]


def delegation_map(profile: Profile, program: Program | None) -> DelegationMap:
    """From the profile; reasons from the report that the exporter wrote into the `.pte`."""
    report = program.report.get("delegation", {}) if program is not None else {}
    refused = tuple(
        (part["delegate"], part["refused"])
        for part in report.get("parts") or ()
        if part.get("refused")
    )
    cells = _cells(profile.calls[-1]) if profile.calls else ()
    return DelegationMap(cells, _shares(profile, cells), _left(profile, report), refused)


def _cells(call: Call) -> tuple[Cell, ...]:
    cells: list[tuple[int, Cell]] = []
    for item in call.delegate_calls:
        inside = [event for event in call.events if event.instruction_id == item.instruction_id]
        modules = list(dict.fromkeys(event.module_path for event in inside if event.module_path))
        title = f"{item.backend}: {len(inside)} events"
        if modules:
            title += f", {modules[0]}" + (f" … {modules[-1]}" if len(modules) > 1 else "")
        cells.append((item.start_ns, Cell(item.backend, title, item.duration_ns, len(inside))))
    for event in call.events:
        if event.backend is None:
            title = event.name + (f", {event.line.location}" if event.line else "")
            cells.append((event.start_ns, Cell("runtime", title, event.duration_ns, 1)))
    return tuple(cell for _, cell in sorted(cells, key=lambda item: item[0]))


def _shares(profile: Profile, cells: tuple[Cell, ...]) -> tuple[Share, ...]:
    times: dict[str, int] = {}
    kinds: dict[str, dict[str, int]] = {}
    for call in profile.calls:
        for item in call.delegate_calls:
            times[item.backend] = times.get(item.backend, 0) + item.duration_ns
        for event in call.events:
            place = event.backend or "runtime"
            if event.backend is None:
                times[place] = times.get(place, 0) + event.duration_ns
            of_place = kinds.setdefault(place, {})
            of_place[event.op_kind] = of_place.get(event.op_kind, 0) + event.duration_ns
    return tuple(
        Share(
            place,
            sum(cell.place == place for cell in cells),
            sum(cell.events for cell in cells if cell.place == place),
            time,
            tuple(sorted(kinds.get(place, {}), key=lambda kind: -kinds[place][kind])),
        )
        for place, time in sorted(times.items(), key=lambda item: -item[1])
    )


def _left(profile: Profile, report: Mapping[str, Any]) -> tuple[Left, ...]:
    """What the exporter noted, with the time that it took here; else what ran in the recording."""
    kernels = [
        (call, event, event.line.location if event.line else "no line")
        for call in profile.calls
        for event in call.events
        if event.backend is None
    ]
    noted = report.get("lines")
    if noted is None:
        times = _summed((event.op_kind, place, event.duration_ns) for _, event, place in kernels)
        counts = Counter(
            (event.op_kind, place) for call, event, place in kernels if call is profile.calls[-1]
        )
        left = [Left(*key, count, times[key], _UNKNOWN) for key, count in counts.items()]
    else:
        times = _summed(
            (_bare(event.name), place, event.duration_ns) for _, event, place in kernels
        )
        left = [
            Left(operator, place, count, times.get((_bare(operator), place)), reason)
            for (operator, place), (count, reason) in _together(noted).items()
        ]
    return tuple(sorted(left, key=lambda item: -(item.time_ns or 0)))


def _together(noted: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[int, str]]:
    """Count and reason of each operator at a line; where it has several reasons, all of them: the
    time is known of the operator alone."""
    groups: dict[tuple[str, str], tuple[int, str]] = {}
    for item in noted:
        key, count, reason = (item["operator"], item["line"]), item["count"], item["reason"]
        if key in groups:
            count, reason = groups[key][0] + count, f"{groups[key][1]}; {reason}"
        groups[key] = count, reason
    return groups


def _summed(items: Iterable[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    """Time by operator and line."""
    times = Counter[tuple[str, str]]()
    for operator, place, time in items:
        times[operator, place] += time
    return times


def _bare(name: str) -> str:
    """Such as mean for mean.out, aten.mean.dim and aten::mean: exporter and runtime differ here."""
    parts = name.rpartition("::")[2].split(".")
    return parts[1] if len(parts) > 2 else parts[0]
