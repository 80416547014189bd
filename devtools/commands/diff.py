"""The diff command: what became slower between two recorded runs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.markup import escape
from rich.table import Table

from devtools.commands.failing import failing
from devtools.commands.inspect_tables import HEADINGS, is_of
from devtools.commands.output import wide_console
from devtools.commands.requests import DiffRequest
from devtools.errors import BadRequest
from devtools.files import check_outputs, replacing
from devtools.format_numbers import counted
from devtools.profile.difference import (
    Change,
    Difference,
    PhaseDifference,
    Verdict,
    compare_profiles,
)
from devtools.profile.load import load_profile
from devtools.profile.profile_types import Profile
from devtools.profile.rows import View

_STYLES = {Verdict.SLOWER: "red", Verdict.FASTER: "green"}


@failing()
def run_diff(request: DiffRequest) -> None:
    """Compares, writes the requested file, prints the tables.

    Exits with 0 no matter what changed, with 2 for unusable files or options, with 1 if the work
    failed.
    """
    inputs = (*request.runs_a, *request.runs_b, request.etrecord, request.record_b)
    check_outputs((request.json,), inputs)
    for side in (request.runs_a, request.runs_b):
        twice = next((path for path in side if side.count(path) > 1), None)
        if twice is not None:
            raise BadRequest(
                f"{twice} is given twice for one side; runs must be others, or their noise is 0."
            )
    a = [load_profile(path, request.etrecord) for path in request.runs_a]
    b = [load_profile(path, request.record_b) for path in request.runs_b]
    difference = compare_profiles(a, b, request.view)
    others = tuple(dict.fromkeys(profile.note for profile in (*a, *b) if profile.note))
    difference = replace(difference, notes=(*others, *difference.notes))
    if request.json is not None:
        with replacing(request.json) as temporary:
            text = json.dumps(_plain(difference, a, b), indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
    console = wide_console()
    for name, profiles in (("A", a), ("B", b)):
        console.print(_side_line(name, profiles), markup=False)
    for note in difference.notes:
        console.print(note, markup=False)
    for phase in difference.phases:
        if is_of(phase.phase, request.phases):
            console.print()
            console.print(_phase_line(phase), markup=False)
            console.print(_table(phase, request.view, request.top))


def _side_line(name: str, profiles: Sequence[Profile]) -> str:
    runs = ", ".join(str(profile.etdump) for profile in profiles)
    coverage = min(profile.coverage.delegate_time for profile in profiles)
    events = min(profile.coverage.event_count for profile in profiles)
    time = min(profile.coverage.call_time for profile in profiles)
    return (
        f"{name}: {runs}; coverage {coverage:.1%} of the time inside delegates, {events:.1%} of "
        f"events, which are {time:.1%} of the calls' time"
    )


def _phase_line(phase: PhaseDifference) -> str:
    whole = phase.whole
    a, b = phase.calls
    sides = f"{counted(a, 'call')} on each side" if a == b else f"{a} and {b} calls"
    times = f"{_milliseconds(whole.a_ns)} -> {_milliseconds(whole.b_ns)} ms a call"
    if whole.verdict is Verdict.TOO_FEW:
        return f"{phase.phase}: {times} ({sides}: too few to judge)"
    return f"{phase.phase}: {times} ({whole.verdict}, {_change_text(whole)}; {sides})"


def _change_text(change: Change) -> str:
    a, b = _shown(change.a_ns), _shown(change.b_ns)
    if a is None or b is None or not a:
        return "no ratio"
    return f"{(b - a) / a:+.1%}, where the noise of a side is {change.noise_ns / 1e6 / a:.1%}"


def _percent(change: Change) -> str:
    a, b = _shown(change.a_ns), _shown(change.b_ns)
    return "-" if a is None or b is None or not a else f"{(b - a) / a:+.1%}"


def _shown(time_ns: float | None) -> float | None:
    """Returns a time in milliseconds, rounded as printed. Differences are computed from these, so
    that readers get the same results."""
    return None if time_ns is None else float(_milliseconds(time_ns))


def _table(phase: PhaseDifference, view: View, top: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("verdict")
    for name in ("A, ms", "B, ms", "change", "noise, ms"):
        table.add_column(name, justify="right")
    table.add_column(HEADINGS[view], overflow="fold")
    if view is View.LINE:
        table.add_column("code", overflow="ellipsis", no_wrap=True, max_width=60)
    for change in phase.changes[: top or None]:
        cells = [
            str(change.verdict),
            _milliseconds(change.a_ns),
            _milliseconds(change.b_ns),
            _percent(change),
            _milliseconds(change.noise_ns),
            escape(change.key),
        ]
        if view is View.LINE:
            cells.append(escape(change.line.text if change.line else ""))
        table.add_row(*cells, style=_STYLES.get(change.verdict))
    hidden = len(phase.changes) - len(phase.changes[: top or None])
    if hidden:
        table.add_row("", "", "", "", "", f"{hidden} more")
    return table


def _milliseconds(time_ns: float | None) -> str:
    return "-" if time_ns is None else f"{time_ns / 1e6:.6f}"


def _plain(difference: Difference, a: Sequence[Profile], b: Sequence[Profile]) -> dict[str, Any]:
    return {
        "a": [str(profile.etdump) for profile in a],
        "b": [str(profile.etdump) for profile in b],
        "coverage": {
            name: min(profile.coverage.delegate_time for profile in side)
            for name, side in (("a", a), ("b", b))
        },
        "notes": list(difference.notes),
        "phases": {str(phase.phase): _plain_phase(phase) for phase in difference.phases},
    }


def _plain_phase(phase: PhaseDifference) -> dict[str, Any]:
    return {
        "phase": phase.phase,
        "calls": phase.calls,
        "whole": _plain_change(phase.whole),
        "changes": [_plain_change(change) for change in phase.changes],
    }


def _plain_change(change: Change) -> dict[str, Any]:
    moved = change.change_ns
    share = moved / change.a_ns if moved is not None and change.a_ns else None
    return {**asdict(change), "change_ns": moved, "change_share": share}
