"""A profile summed up as plain data: what the inspect command prints and writes as JSON.

profile, etrecord    the files
note                 a sentence if the two are of different exports of one graph; else null
delegates            backends that had calls
dropped_calls        calls that did not fit into the recording
run                  what our runner recorded of the run: model, fingerprint, processor, threads,
                     runs_with (kernels and more), prompt, date; empty of other programs
coverage             delegate_time: time resolved to a line over the time of events inside delegate
                     calls; event_count: events resolved over events; call_time: events' time over
                     the calls' time; the numbers they are made of; unresolved: the rest, each with
                     name, backend, count, time_ns
limits               threads, bytes_per_s, operations_per_s; null without
phases               prefill and decode, or run, with the method ("run encode") unless that is
                     forward; each: calls, tokens (null where unknown), median_call_ns;
                     wall_ns = attributed_ns + unattributed_ns + delegate_overhead_ns +
                     runtime_overhead_ns; by: line, module (decoder layers taken together),
                     each_module, op and layer, each a list of rows
rows                 key, kind (events, unattributed or overhead), self_ns, total_ns, count,
                     median_ns (of its own in the median call), self_share (of wall_ns); shared_ns
                     (of self_ns, its shares of operators that other rows have a part in) and
                     shared_with (their keys); layers (how many a * in the key stands for); file,
                     line, function, text (of lines; else empty), also (other lines in the same
                     events); bytes_moved, operations, bound (memory or compute), share_of_limit,
                     verdict (a sentence), which are null where unknown
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from devtools.profile.limits import Limits
from devtools.profile.profile_types import Call, Coverage, Profile
from devtools.profile.rows import Row, View, make_rows


def make_report(profile: Profile, limits: Limits | None) -> dict[str, Any]:
    """
    Args:
        limits: of the machine that recorded; None: rows have no bounds.
    """
    phases = {name: _phase(calls, limits) for name, calls in profile.groups.items()}
    return {
        "profile": str(profile.etdump),
        "etrecord": str(profile.etrecord),
        "note": profile.note,
        "delegates": list(profile.delegates),
        "dropped_calls": profile.dropped_calls,
        "run": dict(profile.facts),
        "coverage": _coverage(profile.coverage),
        "limits": None
        if limits is None
        else {
            "threads": limits.threads,
            "bytes_per_s": limits.bytes_per_s,
            "operations_per_s": limits.operations_per_s,
        },
        "phases": phases,
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "delegate_time": coverage.delegate_time,
        "event_count": coverage.event_count,
        "call_time": coverage.call_time,
        "delegate_resolved_ns": coverage.delegate_resolved_ns,
        "delegate_ns": coverage.delegate_ns,
        "events_resolved": coverage.events_resolved,
        "events": coverage.events,
        "events_ns": coverage.events_ns,
        "calls_ns": coverage.calls_ns,
        "unresolved": [
            {
                "name": item.name,
                "backend": item.backend,
                "count": item.count,
                "time_ns": item.time_ns,
            }
            for item in coverage.unresolved
        ],
    }


def _phase(calls: Sequence[Call], limits: Limits | None) -> dict[str, Any]:
    wall = sum(call.wall_ns for call in calls)
    lengths = [call.seq_len for call in calls if call.seq_len is not None]
    return {
        "calls": len(calls),
        "tokens": sum(lengths) if len(lengths) == len(calls) else None,
        "median_call_ns": median(call.wall_ns for call in calls),
        "wall_ns": wall,
        "attributed_ns": sum(call.attributed_ns for call in calls),
        "unattributed_ns": sum(call.unattributed_ns for call in calls),
        "delegate_overhead_ns": sum(call.delegate_overhead_ns for call in calls),
        "runtime_overhead_ns": sum(call.runtime_overhead_ns for call in calls),
        "by": {
            str(view): [_row(row, calls, limits) for row in make_rows(calls, view)] for view in View
        },
    }


def _row(row: Row, calls: Sequence[Call], limits: Limits | None) -> dict[str, Any]:
    wall = sum(call.wall_ns for call in calls)
    work, known = row.work, row.work.events > 0
    bound = work.bound(work.typical_ns(calls, row.self_ns, row.median_ns), limits)
    return {
        "key": row.key,
        "kind": str(row.kind),
        "self_ns": row.self_ns,
        "total_ns": row.total_ns,
        "count": row.count,
        "median_ns": row.median_ns,
        "self_share": row.self_ns / wall if wall else 0.0,
        "shared_ns": row.shared_ns,
        "shared_with": list(row.shared_with),
        "layers": row.layers,
        "file": row.line.file if row.line else "",
        "line": row.line.number if row.line else None,
        "function": row.line.function if row.line else "",
        "text": row.line.text if row.line else "",
        "also": [line.location for line in row.also],
        "bytes_moved": work.bytes_moved if known else None,
        "operations": work.operations if known else None,
        "bound": str(bound.resource) if bound else None,
        "share_of_limit": bound.share if bound else None,
        "verdict": bound.text if bound else None,
    }
