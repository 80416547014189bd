"""Puts a profile into one HTML file that needs nothing else."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from devtools.files import replacing
from devtools.profile.limits import Limits
from devtools.profile.profile_types import Call, Profile
from devtools.profile.rows import without_layer
from devtools.report import numbers
from devtools.report.delegation import delegation_map
from devtools.report.facts import run_facts
from devtools.report.flame import flame
from devtools.report.memory import plan_timeline, workspaces
from devtools.report.program import Program
from devtools.report.roofline import roofline
from devtools.report.same_program import check_same_program
from devtools.report.source import SourceFile, SourceLine, anchor, annotate
from devtools.report.totals import Scope, Total, scopes, total_by, work_ns

_MOST_LINES = 15  # in the table of the slowest
_MOST_CALLS = 240  # bars of the chart of calls


def write_report(
    profile: Profile, out: Path, program: Program | None = None, limits: Limits | None = None
) -> int:
    """Writes the page, completely or not at all; returns its size in bytes.

    Args:
        program: of the `.pte`: with it the page shows memory, and why operators are not delegated.
        limits: of the machine: with it the page shows how close to its limits each line comes.

    Raises:
        BadRequest: the program is not the one that was recorded.
    """
    page = make_page(profile, program, limits).encode()
    with replacing(out) as temporary:
        temporary.write_bytes(page)
    return len(page)


def make_page(
    profile: Profile, program: Program | None = None, limits: Limits | None = None
) -> str:
    """The page's HTML; arguments and refusals as of write_report."""
    if program is not None:
        check_same_program(profile, program)
    shown = scopes(profile)
    sources = annotate(profile, shown)
    flames = {"merged": flame(profile, True), "apart": flame(profile, False)}
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(numbers.FILTERS)
    environment.globals.update(
        anchor=anchor,
        work_ns=work_ns,
        bound=lambda total, scope: _bound(total, scope, limits),
    )
    return environment.get_template("page.html").render(
        profile=profile,
        program=program,
        limits=limits,
        scopes=shown,
        sources=sources,
        slowest={scope.name: _slowest(sources, scope) for scope in shown},
        modules={scope.name: _modules(scope) for scope in shown},
        kinds=_kinds(shown),
        bars=_bars(profile, shown),
        facts=run_facts(profile),
        fuses=any(event.shares for call in profile.calls for event in call.events),
        roofline=roofline(shown, limits),
        delegation=delegation_map(profile, program),
        timeline=plan_timeline(program, profile) if program else None,
        workspaces=workspaces(program, profile) if program else [],
        flames=_script_data(flames),
        style=Markup(_read("page.css")),
        script=Markup(_read("page.js")),
    )


def _read(name: str) -> str:
    return files("devtools.report").joinpath(name).read_text(encoding="utf-8")


def _bound(total: Total, scope: Scope, limits: Limits | None) -> str:
    """Such as memory-bound, 92% of the limit; empty if this is unknown."""
    bound = total.work.bound(work_ns(total, scope), limits)
    return bound.text if bound else ""


def _script_data(value: Any) -> Markup:
    """JSON that cannot end the script element that contains it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _slowest(sources: Sequence[SourceFile], scope: Scope) -> list[tuple[str, SourceLine]]:
    lines = [
        (file.name, line)
        for file in sources
        for fold in file.folds
        for line in fold.lines
        if scope.name in line.totals and line.totals[scope.name].time_ns
    ]
    lines.sort(
        key=lambda item: (
            *_rank(item[1].totals[scope.name], scope),
            f"{item[0]}:{item[1].number}",
        )
    )
    return lines[:_MOST_LINES]


def _rank(total: Total, scope: Scope) -> tuple[int, int]:
    return -round(scope.in_call(total.per_call)), -total.time_ns


def _modules(scope: Scope) -> list[tuple[str, Total]]:
    """Time by module, decoder layers taken together."""
    totals = total_by(scope.calls, lambda event: without_layer(event.module_path, event.layer))
    return sorted(totals.items(), key=lambda item: _rank(item[1], scope))


def _kinds(shown: Sequence[Scope]) -> list[tuple[str, dict[str, int]]]:
    """Time of each kind of operator in every scope, and then that of none; by the whole run's."""
    times: dict[str, dict[str, int]] = {}
    for scope in shown:
        for kind, total in total_by(scope.calls, lambda event: event.op_kind).items():
            times.setdefault(kind, {})[scope.name] = total.time_ns
    listed = sorted(times.items(), key=lambda item: -max(item[1].values()))
    rest = {scope.name: max(0, scope.wall_ns - _events_ns(scope)) for scope in shown}
    return [*listed, ("overhead", rest)]


def _events_ns(scope: Scope) -> int:
    return sum(event.duration_ns for call in scope.calls for event in call.events)


def _bars(profile: Profile, shown: Sequence[Scope]) -> list[tuple[Call, float, bool]]:
    """The first calls, how long each took beside the longest of its phase, and whether it is an
    outlier in it."""
    longest: dict[str, int] = {}
    for call in profile.calls:
        longest[call.group] = max(longest.get(call.group, 1), call.wall_ns)
    groups = {scope.name: scope for scope in shown}
    return [
        (call, call.wall_ns / longest[call.group], groups[call.group].is_outlier(call))
        for call in profile.calls[:_MOST_CALLS]
    ]
