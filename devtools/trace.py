"""A profile as a trace that Perfetto and chrome://tracing open.

The format is JSON by Google's "Trace Event Format": complete events ("X") that nest by time on each
thread, metadata ("M") that names the tracks, and flow events ("s", "t", "f") that draw an arrow
through the slices they lie in. Times are microseconds, with decimals, from the first call on.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devtools.files import replacing
from devtools.profile.profile_types import PREPARING, Call, DelegateCall, Event, Phase, Profile

TraceEvent = dict[str, Any]

_PROCESS = 1
_CALLER = 1  # the thread that called the model; the other threads of a delegate's team follow
_FLOW = "tokens"


def write_trace(profile: Profile, out: Path) -> int:
    """Writes the trace to a JSON file, completely or not at all; returns its number of events."""
    trace = make_trace(profile)
    with replacing(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(trace, file, ensure_ascii=False, separators=(",", ":"))
    return len(trace["traceEvents"])


def make_trace(profile: Profile) -> dict[str, Any]:
    """The trace as JSON's own types.

    A track for the thread that called the model: its calls, in them the delegate calls, in those
    the delegate's operators; operators of the runtime lie in the call itself. A track for every
    other thread of a delegate's team, with the operators that it took part in: what is recorded of
    them is the caller's time, from the start to the moment when all are done. The calls of one
    sequence of tokens are steps of one flow, from a prefill to the last token decoded.
    """
    origin = min((call.start_ns for call in profile.calls), default=0)
    events = list(_tracks(profile))
    for call in profile.calls:
        # A slice comes after the one that it lies in.
        events += sorted(_call(call, origin), key=lambda item: (item["ts"], -item["dur"]))
    events += _flows(profile, origin)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "profile": profile.etdump.name,
            "delegates": ", ".join(profile.delegates) or "none",
            "delegate time whose line is known": f"{profile.coverage.delegate_time:.1%}",
            "events whose line is known": f"{profile.coverage.event_count:.1%}",
        },
    }


def _tracks(profile: Profile) -> Iterator[TraceEvent]:
    yield _named("process_name", 0, profile.etdump.name)
    threads = max(
        (event.threads or 1 for call in profile.calls for event in call.events), default=1
    )
    for thread in range(threads):
        name = "calling thread" if thread == 0 else f"delegate's thread {thread + 1}"
        yield _named("thread_name", _CALLER + thread, name)
        yield {
            "name": "thread_sort_index",
            "ph": "M",
            "pid": _PROCESS,
            "tid": _CALLER + thread,
            "args": {"sort_index": thread},
        }


def _named(kind: str, thread: int, name: str) -> TraceEvent:
    return {"name": kind, "ph": "M", "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _call(call: Call, origin: int) -> Iterator[TraceEvent]:
    tokens = {} if call.seq_len is None else {"tokens": call.seq_len}
    whole = (call.start_ns, call.end_ns)
    yield _slice(call_name(call), "call", whole, origin, {"call": call.index, **tokens})
    delegates = {item.instruction_id: item for item in call.delegate_calls}
    for item in call.delegate_calls:
        arguments = {"instruction_id": item.instruction_id}
        inside = _clip((item.start_ns, item.end_ns), whole)
        yield _slice(item.backend, "delegate", inside, origin, arguments)
    ends: dict[int | None, int] = {}  # of the last operator in each parent
    for event in call.events:
        parent = _parent(event, delegates)
        limits = (parent.start_ns, parent.end_ns) if parent else whole
        limits = _clip(limits, whole)
        key = event.instruction_id if parent else None
        start = max(event.start_ns, ends.get(key, limits[0]))
        times = _clip((start, max(start, event.end_ns)), limits)
        ends[key] = times[1]
        for thread in range(event.threads or 1):
            yield _operator(event, times, origin, thread)


def call_name(call: Call) -> str:
    """Such as `decode`, `prefill of 128`, or `run encode` of the method encode."""
    if call.phase is Phase.DECODE or call.seq_len is None:
        return call.group
    return f"{call.phase.value} of {call.seq_len}"


def _parent(event: Event, delegates: dict[int, DelegateCall]) -> DelegateCall | None:
    if event.backend is None or event.instruction_id is None:
        return None
    return delegates.get(event.instruction_id)


def _clip(times: tuple[int, int], limits: tuple[int, int]) -> tuple[int, int]:
    """Backends that round to microseconds may end an operator after the call that it is in."""
    start = min(max(times[0], limits[0]), limits[1])
    return start, min(max(times[1], start), limits[1])


def _operator(event: Event, times: tuple[int, int], origin: int, thread: int) -> TraceEvent:
    name = event.module_path or event.name
    if event.part == "prepare":
        name += PREPARING
    category = event.backend or "runtime"
    return _slice(name, category, times, origin, _arguments(event), _CALLER + thread)


def _arguments(event: Event) -> dict[str, Any]:
    """What Perfetto shows of an operator when it is clicked; what is unknown is left out."""
    line = event.line
    rate = event.duration_ns or None  # a nanosecond's bytes are GB/s
    known = {
        "line": line.location if line else None,
        "code": line.text if line else None,
        "op": event.op_kind,
        "event": event.name,
        "module": event.module_path or None,
        "layer": event.layer,
        "shape": list(event.shape) if event.shape is not None else None,
        "dtype": event.dtype,
        "bytes": event.bytes_moved,
        "operations": event.operations,
        "GB/s": round(event.bytes_moved / rate, 3) if event.bytes_moved and rate else None,
        "Gop/s": round(event.operations / rate, 3) if event.operations and rate else None,
        "threads": event.threads,
        "duration_ns": event.duration_ns,
        "shares_ns": _shares(event),
        "instruction_id": event.instruction_id,
        "delegate_debug_id": event.delegate_debug_id,
        "debug_handles": list(event.debug_handles) or None,
    }
    return {name: value for name, value in known.items() if value is not None and value != ""}


def _shares(event: Event) -> dict[str, int] | None:
    """The share of each line and module in an operator that fuses several; None for another."""
    if not event.shares:
        return None
    return {
        ", ".join(filter(None, (portion.module_path, portion.lines[0].location))): (
            portion.duration_ns
        )
        for portion in event.portions
    }


def _slice(
    name: str,
    category: str,
    times: tuple[int, int],
    origin: int,
    arguments: dict[str, Any],
    thread: int = _CALLER,
) -> TraceEvent:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": (times[0] - origin) / 1000,
        "dur": (times[1] - times[0]) / 1000,
        "pid": _PROCESS,
        "tid": thread,
        "args": arguments,
    }


def _flows(profile: Profile, origin: int) -> Iterator[TraceEvent]:
    """An arrow through the calls of each sequence; a sequence of one call has none."""
    for number, calls in enumerate(sequences(profile), start=1):
        if len(calls) < 2:
            continue
        for place, call in enumerate(calls):
            phase = "s" if place == 0 else "f" if place == len(calls) - 1 else "t"
            flow: TraceEvent = {
                "name": _FLOW,
                "cat": _FLOW,
                "ph": phase,
                "id": number,
                "ts": (call.start_ns - origin) / 1000,
                "pid": _PROCESS,
                "tid": _CALLER,
                "args": {"step": place},
            }
            if phase == "f":
                flow["bp"] = "e"  # to the slice around it, not to the one that comes next
            yield flow


def sequences(profile: Profile) -> list[list[Call]]:
    """Groups the calls by sequence of tokens: a sequence ends when a prefill follows a decode."""
    calls: list[list[Call]] = []
    before: Call | None = None
    for call in profile.calls:
        starts = call.phase is Phase.PREFILL and (before is None or before.phase is Phase.DECODE)
        if starts or not calls:
            calls.append([])
        calls[-1].append(call)
        before = call
    return calls
