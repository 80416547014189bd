"""The model's source with what each line took, folded where nothing happens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from devtools.profile.profile_types import Line, Profile
from devtools.report.totals import Place, Scope, Total, place_of, times_with_callees, total_by

_AROUND = 3  # lines shown before and after one with time


@dataclass(frozen=True)
class SourceLine:
    """
    Attributes:
        totals: of the line's own events, by scope; empty if it has none.
        with_callees: time of the line and of what it calls in each call, by scope.
    """

    number: int
    text: str
    anchor: str
    totals: Mapping[str, Total]
    with_callees: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Fold:
    """Lines in a row; folded: nothing happens in them."""

    lines: tuple[SourceLine, ...]
    folded: bool


@dataclass(frozen=True)
class SourceFile:
    """
    Attributes:
        complete: the whole text is there; else only the lines that have time.
        time_ns: of its lines' own events.
    """

    name: str
    complete: bool
    time_ns: int
    folds: tuple[Fold, ...]


def anchor(file: str, number: int) -> str:
    """The id of a line in the page."""
    kept = (character if character.isalnum() else "-" for character in file)
    return f"{''.join(kept)}-{number}"


def annotate(profile: Profile, scopes: Sequence[Scope]) -> list[SourceFile]:
    """Every file that a line with time is in, the most time first."""
    own = {scope.name: total_by(scope.calls, place_of) for scope in scopes}
    called = {scope.name: times_with_callees(scope.calls) for scope in scopes}
    known: dict[str, dict[int, Line]] = {}
    for call in profile.calls:
        for event in call.portions:
            for line in (*event.stack, *event.lines[:1]):
                known.setdefault(line.file, {}).setdefault(line.number, line)
    totals: dict[Place, dict[str, Total]] = {}
    for scope in scopes:
        for place, total in own[scope.name].items():
            totals.setdefault(place, {})[scope.name] = total
    whole = scopes[0].name if scopes else ""
    files = []
    for name, lines in known.items():
        text = profile.sources.get(name)
        code: Iterable[tuple[int, str]] = (
            enumerate(text.splitlines(), start=1)
            if text is not None
            else ((number, lines[number].text) for number in sorted(lines))
        )
        listed = [
            SourceLine(
                number,
                line_text,
                anchor(name, number),
                totals.get((name, number), {}),
                {
                    scope.name: called[scope.name][name, number]
                    for scope in scopes
                    if (name, number) in called[scope.name]
                },
            )
            for number, line_text in code
        ]
        time = sum(line.totals[whole].time_ns for line in listed if whole in line.totals)
        folds = _fold(listed) if text is not None else [Fold(tuple(listed), False)]
        files.append(SourceFile(name, text is not None, time, tuple(folds)))
    return sorted(files, key=lambda file: -file.time_ns)


def _fold(lines: list[SourceLine]) -> list[Fold]:
    shown = [False] * len(lines)
    for index, line in enumerate(lines):
        if line.with_callees:
            for near in range(max(0, index - _AROUND), min(len(lines), index + _AROUND + 1)):
                shown[near] = True
    folds: list[Fold] = []
    start = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or shown[index] != shown[start]:
            part = tuple(lines[start:index])
            # A fold's own line takes as much room as one of the source's.
            folds.append(Fold(part, not shown[start] and len(part) > 1))
            start = index
    return folds
