"""A profile's report as tables: the coverage first, then each phase."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from devtools.format_numbers import counted
from devtools.profile.profile_types import Phase
from devtools.profile.rows import Kind, View

HEADINGS = {
    View.LINE: "line",
    View.MODULE: "module",
    View.EACH_MODULE: "module",
    View.OP: "operator",
    View.LAYER: "layer",
}
_MOST_UNRESOLVED = 5  # names in the list
_MEANING = "self and total are shares of all calls' time; the median is of one call."
_OVERHEAD = (
    "overhead: a delegate's time outside its operators, and the runtime's outside of operators and "
    "delegates."
)
_ALSO = "with: lines whose work the same operators do, without time of their own."
_SHARING = (
    "shares with: one operator computes these together. Its time is divided by the bytes of their "
    "weights in calls of one token, by their operations in longer ones and in norms."
)


def show(
    report: dict[str, Any], view: View, phases: Sequence[Phase], top: int, console: Console
) -> None:
    """Prints the coverage and a table for each phase.

    Args:
        top: rows of events in a table; 0: all.
    """
    for line in coverage_lines(report):
        console.print(line, markup=False)
    run = _run_line(report["run"])
    if run:
        console.print(run, markup=False)
    limits = report["limits"]
    if limits is not None:
        console.print(_limits_line(limits), markup=False)
    asked = {name: item for name, item in report["phases"].items() if is_of(name, phases)}
    if not asked:
        console.print(_absent_line(report, phases), markup=False)
    for name, summary in asked.items():
        console.print()
        console.print(_phase_line(name, summary), markup=False)
        console.print(_table(summary, view, top, limits is not None))
    rows = [row for summary in asked.values() for row in _shown(summary["by"][view], top)]
    notes = [_MEANING, _OVERHEAD] if rows else []
    notes += [_ALSO] if any(row["also"] for row in rows) else []
    notes += [_SHARING] if any(row["shared_with"] for row in rows) else []
    for note in ("", *notes) if notes else ():
        console.print(note, markup=False)


def is_of(group: str, phases: Sequence[Phase]) -> bool:
    """Whether calls of such a name, as "run encode", are of one of the phases."""
    return group.partition(" ")[0] in phases


def coverage_lines(report: dict[str, Any]) -> list[str]:
    """Returns the three figures at the top of every report, and what has no line."""
    coverage = report["coverage"]
    inside = " and ".join(report["delegates"])
    lines = [
        f"coverage: the line is known of {_share(coverage['delegate_time'])} of the time inside "
        f"{inside or 'delegates'} and of {_share(coverage['event_count'])} of the events "
        f"({coverage['events_resolved']} of {coverage['events']}). Events are "
        f"{_share(coverage['call_time'])} of the calls' time"
    ]
    for item in coverage["unresolved"][:_MOST_UNRESOLVED]:
        where = f" in {item['backend']}" if item["backend"] else ""
        lines.append(
            f"  without a line: {item['name']}{where}, {item['count']} times, "
            f"{_milliseconds(item['time_ns'])} ms"
        )
    if report["note"]:
        lines.insert(0, report["note"])
    hidden = len(coverage["unresolved"]) - _MOST_UNRESOLVED
    if hidden > 0:
        lines.append(f"  and {hidden} more; --json lists them")
    if report["dropped_calls"]:
        lines.append(f"  {report['dropped_calls']} further calls did not fit the recording")
    return lines


def _absent_line(report: dict[str, Any], phases: Sequence[Phase]) -> str:
    held = " and ".join(
        f"{name} ({summary['calls']})" for name, summary in report["phases"].items()
    )
    return f"The recording has no {' or '.join(phases)} calls, only {held}."


def _run_line(run: dict[str, str]) -> str:
    parts = [run.get("runs_with", ""), f"adapter {run['adapter']}" if run.get("adapter") else ""]
    known = ", ".join(filter(None, parts))
    return f"run: {known}" if known else ""


def _limits_line(limits: dict[str, Any]) -> str:
    line = f"limits, {counted(limits['threads'], 'thread')}:"
    if limits["bytes_per_s"]:
        line += f" reads {limits['bytes_per_s'] / 1e9:.1f} GB/s"
    if limits["operations_per_s"]:
        line += f", multiplies int8 at {limits['operations_per_s'] / 1e9:.0f} GOPS"
    return line


def _phase_line(name: str, summary: dict[str, Any]) -> str:
    what = f"{name}: {counted(summary['calls'], 'call')}"
    if summary["tokens"] is not None and name == Phase.PREFILL:
        what += f" of {counted(summary['tokens'], 'token')}"
    wall = summary["wall_ns"]
    parts = {
        "operators with a line": summary["attributed_ns"],
        "without": summary["unattributed_ns"],
        "delegates' overhead": summary["delegate_overhead_ns"],
        "the runtime's overhead": summary["runtime_overhead_ns"],
    }
    shares = ", ".join(f"{name} {_share(time / wall)}" for name, time in parts.items() if time)
    return f"{what}, median {_milliseconds(summary['median_call_ns'])} ms ({shares})"


def _table(summary: dict[str, Any], view: View, top: int, has_limits: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("self", justify="right")
    table.add_column("median, ms", justify="right")
    table.add_column("total", justify="right")
    table.add_column("events", justify="right")
    table.add_column(HEADINGS[view], overflow="fold")
    if view is View.LINE:
        table.add_column("code", overflow="ellipsis", no_wrap=True, max_width=60)
    if has_limits:
        table.add_column("MB/call", justify="right")
        table.add_column("Mop/call", justify="right")
        table.add_column("bound", no_wrap=True)
    rows = summary["by"][str(view)]
    shown = _shown(rows, top)
    hidden = [row for row in rows if row["kind"] == Kind.EVENTS][len(shown) :]
    rest = [row for row in rows if row["kind"] != Kind.EVENTS]
    for row in [*shown, *_others(hidden), *rest]:
        cells = [
            _share(row["self_share"]),
            _milliseconds(row["median_ns"]),
            _share(row["total_ns"] / summary["wall_ns"]),
            str(row["count"]),
            escape(_key(row)),
        ]
        if view is View.LINE:
            cells.append(escape(row["text"]))
        if has_limits:
            for amount in (row["bytes_moved"], row["operations"]):
                cells.append("" if amount is None else f"{amount / summary['calls'] / 1e6:.3f}")
            cells.append(row["verdict"] or "")
        table.add_row(*cells, style=None if row["kind"] == Kind.EVENTS else "dim")
    return table


def _shown(rows: list[dict[str, Any]], top: int) -> list[dict[str, Any]]:
    """Returns those of events with the largest shares, in their order, which is the median's."""
    events = [row for row in rows if row["kind"] == Kind.EVENTS]
    if top == 0:
        return events
    chosen = sorted(range(len(events)), key=lambda i: -events[i]["self_ns"])[:top]
    return [events[i] for i in sorted(chosen)]


def _others(hidden: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what the table leaves out as one row, so that the column still adds up."""
    if not hidden:
        return []
    return [
        {
            "key": f"{len(hidden)} more",
            "kind": Kind.OVERHEAD,
            "median_ns": sum(row["median_ns"] for row in hidden),
            "total_ns": sum(row["self_ns"] for row in hidden),
            "self_share": sum(row["self_share"] for row in hidden),
            "count": sum(row["count"] for row in hidden),
            "text": "",
            "also": [],
            "shared_with": [],
            "layers": 0,
            "bytes_moved": None,
            "operations": None,
            "verdict": None,
        }
    ]


def _key(row: dict[str, Any]) -> str:
    """Returns the row's name, and in brackets what it shares."""
    key, remarks = str(row["key"]), []
    if row["layers"]:
        remarks.append(f"{row['layers']} layer" + "s" * (row["layers"] > 1))
    if row["shared_with"]:
        remarks.append(f"shares with {_in_short(row['shared_with'], key)}")
    if row["also"]:
        remarks.append(f"with {_in_short(row['also'], key)}")
    return f"{key} ({'; '.join(remarks)})" if remarks else key


def _in_short(places: list[str], beside: str) -> str:
    """Shortens lines of the same file to numbers, modules of the same parent to their last
    names."""
    mark = ":" if ":" in beside else "."
    home = beside.rpartition(mark)[0]
    return ", ".join(
        place.rpartition(mark)[2] if place.rpartition(mark)[0] == home else place
        for place in places
    )


def _share(value: float) -> str:
    return f"{value:.1%}"


def _milliseconds(time_ns: float) -> str:
    value = time_ns / 1e6
    return f"{value:.1f}" if value >= 100 else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"
