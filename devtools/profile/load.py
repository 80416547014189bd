"""Puts a recorded run and the record of its export together."""

import re
import struct
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from devtools.errors import BadRequest
from devtools.profile.attribution import UNKNOWN, Attribution, Attributions
from devtools.profile.etdump import Record as Interval
from devtools.profile.etdump import Run, read_etdump
from devtools.profile.etrecord import Record, read_etrecord
from devtools.profile.profile_types import (
    FORWARD,
    PREPARING,
    Call,
    Coverage,
    DelegateCall,
    Event,
    Phase,
    Profile,
    Unresolved,
)
from devtools.profile.sharing import Sharing
from devtools.profile.sources import unchanged_sources
from devtools.profile.work import WorkCounter

CPU_BACKEND = "ThimbleCpuBackend"
_WHOLE = "ThimbleCpuBackend"  # runs all of its operators in every call
_EXECUTE = "Method::execute"
_OPERATOR, _DELEGATE = "OPERATOR_CALL", "DELEGATE_CALL"
_KERNEL_PREFIX = "native_call_"
_MOST_THREADS = 256  # of a team; more is damage
_BLOCK = re.compile(r"(prefill|decode|run) (\d+)(?: (\w+))?")
_DROPPED = re.compile(r"dropped (\d+)")
_FACT = re.compile(r"fact (\w+) (.*)", re.DOTALL)
_NUMBERED = re.compile(r"(.*) #(\d+)")
_WORK = struct.Struct(
    "<QQII"
)  # Work of the CPU delegate's schema: bytes, operations, rows, threads


def load_profile(etdump: Path, etrecord: Path) -> Profile:
    """Reads what a run recorded and gives every event its lines.

    A record of the same graph with other weights works as well: it has the same lines, shapes and
    bytes, if it came from the same source, and Profile.note says so.

    Args:
        etdump: what the runner's --etdump wrote.
        etrecord: what the exporter's --etrecord wrote beside the model that ran.

    Raises:
        BadRequest: a file cannot be read, is not what it should be, is cut, or the two are not of
            one model.
    """
    runs = read_etdump(etdump)
    executions = [run for run in runs if any(item.name == _EXECUTE for item in run.records)]
    if not executions:
        raise BadRequest(
            f"{etdump} has no call of a model; record a run that generates at least one token."
        )
    methods = [_method(run) for run in executions]
    records = {method: read_etrecord(etrecord, method) for method in dict.fromkeys(methods)}
    _check_same_model(executions, records, etdump, etrecord)
    readers = {method: _Reader(record) for method, record in records.items()}
    calls = tuple(
        replace(readers[method].call(index, run), method=method)
        for index, (method, run) in enumerate(zip(methods, executions, strict=True))
    )
    record = records[methods[0]]
    dropped = [int(match[1]) for run in runs if (match := _DROPPED.fullmatch(run.name))]
    return Profile(
        calls,
        measure_coverage(calls),
        etdump,
        etrecord,
        tuple(
            dict.fromkeys(delegate.backend for call in calls for delegate in call.delegate_calls)
        ),
        unchanged_sources(calls, ChainMap(*(dict(each.files) for each in records.values()))),
        sum(dropped),
        {match[1]: match[2] for run in runs if (match := _FACT.fullmatch(run.name))},
        record.fingerprint,
    )


def of_method(profile: Profile, method: str) -> Profile:
    """Returns a profile of the calls of one method alone.

    Raises:
        BadRequest: it has none.
    """
    if method not in profile.methods:
        held = " and ".join(profile.methods)
        raise BadRequest(f"{profile.etdump} has no call of the method {method}, only of {held}.")
    calls = tuple(call for call in profile.calls if call.method == method)
    return replace(profile, calls=calls, coverage=measure_coverage(calls))


def _method(run: Run) -> str:
    """The method that a block of our runner names; of another program's, the usual one."""
    named = _BLOCK.fullmatch(run.name)
    return named[3] or FORWARD if named else FORWARD


def measure_coverage(calls: Sequence[Call]) -> Coverage:
    """How much of these calls resolves to a line."""
    events = [event for call in calls for event in call.events]
    inside = [event for event in events if event.backend is not None]
    rest: dict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for event in events:
        if not event.lines:
            rest[event.name, event.backend].append(event)
    unresolved = [
        Unresolved(name, backend, len(some), _time(some)) for (name, backend), some in rest.items()
    ]
    return Coverage(
        _time(event for event in inside if event.lines),
        _time(inside),
        sum(bool(event.lines) for event in events),
        len(events),
        _time(events),
        sum(call.wall_ns for call in calls),
        tuple(sorted(unresolved, key=lambda item: -item.time_ns)),
    )


def _time(events: Iterable[Event]) -> int:
    return sum(event.duration_ns for event in events)


def _check_same_model(
    executions: Sequence[Run], records: Mapping[str, Record], etdump: Path, etrecord: Path
) -> None:
    """
    Raises:
        BadRequest: a call has instructions, delegates or operators that the record does not.
    """
    for index, run in enumerate(executions):
        difference = _difference(run, records[_method(run)])
        if difference is None:
            continue
        if index:  # the calls before are of this program
            raise BadRequest(
                f"{etdump} is damaged in its call {index}: {difference}, by {etrecord}; copy it "
                "again, or record it again."
            )
        raise BadRequest(
            f"{etdump} was recorded from another program than that of {etrecord}: {difference}; "
            "give the ETRecord that was written with the .pte that ran."
        )


def _difference(run: Run, record: Record) -> str | None:
    """What a call has and the record does not, or the reverse; None if they agree."""
    difference = None
    seen: set[int] = set()
    ran: set[tuple[int, str]] = set()
    for item in run.records:
        number = item.instruction_id
        if item.name == _EXECUTE or item.chain < 0 and not _names_operator(item):
            continue
        seen.add(number)
        ran.add((number, str(item.delegate_debug_id)))
        delegate = record.delegates.get(number)
        if number not in record.instructions:
            difference = f"instruction {number} is not in it"
        elif item.name == _DELEGATE and delegate is None:
            difference = f"instruction {number} called a delegate that it does not have"
        elif item.name == _OPERATOR and delegate is not None:
            difference = f"instruction {number} is a call of {delegate.backend} in it"
        elif isinstance(item.delegate_debug_id, int) and (
            delegate is None or str(item.delegate_debug_id) not in delegate.handles
        ):
            difference = (
                f"instruction {number} ran an operator {item.delegate_debug_id} that its delegate "
                "does not have"
            )
        if difference is not None:
            break
    missing = sorted(set(record.delegates) - seen)
    if difference is None and missing:
        difference = f"the delegate's call at instruction {missing[0]} never ran"
    for number, delegate in record.delegates.items():
        idle = [name for name in delegate.handles if (number, name) not in ran]
        if difference is None and delegate.backend == _WHOLE and idle:
            difference = f"operator {idle[0]} of the delegate never ran"
    return difference


def _names_operator(item: Interval) -> bool:
    return item.name in (_OPERATOR, _DELEGATE) or item.delegate_debug_id is not None


class _Reader:
    """Makes calls of runs, with the lines of one record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._attributions = Attributions(record)
        self._counter = WorkCounter(record)
        self._sharing = Sharing(self._attributions, self._counter)

    def call(self, index: int, run: Run) -> Call:
        whole = next(item for item in run.records if item.name == _EXECUTE)
        phase, seq_len = self._phase(index, run)
        events: list[Event] = []
        delegate_calls: list[DelegateCall] = []
        inner: list[Interval] = []  # of the instruction that is still to end
        for item in run.records:
            if item is whole:
                continue
            if item.name == _OPERATOR:
                events.append(self._operator(item, inner, seq_len))
                inner = []
            elif item.name == _DELEGATE:
                backend = self._record.delegates[item.instruction_id].backend
                delegate_calls.append(
                    DelegateCall(backend, item.instruction_id, item.start, item.end)
                )
                events.extend(self._delegated(item, backend, inner, seq_len))
                inner = []
            else:
                inner.append(item)
        return Call(
            index,
            phase,
            seq_len,
            whole.start,
            whole.end,
            tuple(sorted(events, key=lambda event: event.start_ns)),
            tuple(delegate_calls),
        )

    def _phase(self, index: int, run: Run) -> tuple[Phase, int | None]:
        named = _BLOCK.fullmatch(run.name)
        if named:
            phase = Phase(named[1])
            return phase, None if phase is Phase.RUN else int(named[2])
        rows = Counter[int | str]()
        for item in run.records:
            if item.delegate_debug_id is not None and len(item.metadata) == _WORK.size:
                rows[item.delegate_debug_id] += _WORK.unpack(item.metadata)[2]
        if rows:
            seq_len = max(rows.values())
            return Phase.DECODE if seq_len == 1 and index else Phase.PREFILL, seq_len
        return Phase.DECODE if index else Phase.PREFILL, None

    def _operator(self, item: Interval, inner: Sequence[Interval], seq_len: int | None) -> Event:
        handles = self._record.instructions.get(item.instruction_id, ())
        attribution = self._attributions.of(handles)
        name = next((kernel.name for kernel in inner), "").removeprefix(_KERNEL_PREFIX)
        if not name and attribution.node is not None:
            name = attribution.node.operator
        name = name or f"instruction {item.instruction_id}"
        event = self._event(item, name, attribution, handles, seq_len)
        return self._with_counted_work(event, attribution, seq_len)

    def _delegated(
        self, call: Interval, backend: str, inner: Sequence[Interval], seq_len: int | None
    ) -> list[Event]:
        """A delegate that records nothing is one event, whose line is known if all its nodes have
        the same."""
        number = call.instruction_id
        if not inner:
            handles = self._record.instructions.get(number, ())
            attribution = self._attributions.of(handles)
            if len(attribution.lines) != 1:
                attribution, handles = UNKNOWN, ()
            event = self._event(call, backend, attribution, handles, None)
            return [replace(event, backend=backend)]
        uncertain = _uncertain(inner, self._record.delegates[number].handles)
        events = []
        for item in inner:
            key = str(item.delegate_debug_id)
            handles = (
                () if key in uncertain else self._record.delegates[number].handles.get(key, ())
            )
            attribution = self._attributions.of(handles)
            follows = set(self._follows(item))
            own = tuple(handle for handle in handles if handle not in follows)
            if own:  # the preparation also holds the product's node, but is named after its own
                attribution = self._attributions.of(own)
            name = item.name or (key if isinstance(item.delegate_debug_id, str) else "")
            event = self._event(
                item, name or _title(attribution, key), attribution, handles, seq_len
            )
            event = replace(event, backend=backend, delegate_debug_id=item.delegate_debug_id)
            events.append(self._with_work(event, item, attribution, seq_len))
        return events

    def _event(
        self,
        item: Interval,
        name: str,
        attribution: Attribution,
        handles: tuple[int, ...],
        seq_len: int | None,
    ) -> Event:
        output = attribution.node.output if attribution.node is not None else None
        return Event(
            name,
            attribution.op_kind or name,
            item.start,
            item.end,
            instruction_id=item.instruction_id,
            debug_handles=tuple(dict.fromkeys(handles)),
            nodes=tuple(node.name for node in attribution.nodes),
            lines=attribution.lines,
            stack=attribution.stack,
            module_path=attribution.module_path,
            layer=attribution.layer,
            shape=output.sizes if output else None,
            dtype=output.dtype if output else None,
            shares=self._sharing.of(attribution, seq_len),
        )

    def _with_work(
        self, event: Event, item: Interval, attribution: Attribution, seq_len: int | None
    ) -> Event:
        if event.backend != CPU_BACKEND:
            return self._with_counted_work(event, attribution, seq_len)
        part, kind = self._part(item, attribution)
        if len(item.metadata) == _WORK.size:
            moved, operations, _, threads = _WORK.unpack(item.metadata)
            known = threads if 0 < threads <= _MOST_THREADS else None
            event = replace(event, bytes_moved=moved, operations=operations, threads=known)
        name = event.name if part != "prepare" else event.name + PREPARING
        return replace(event, part=part, op_kind=kind, name=name)

    def _with_counted_work(
        self, event: Event, attribution: Attribution, seq_len: int | None
    ) -> Event:
        if attribution.node is None:
            return event
        moved, operations = self._counter.of(attribution.node, seq_len)
        return replace(event, bytes_moved=moved, operations=operations)

    def _part(self, item: Interval, attribution: Attribution) -> tuple[str, str]:
        """Which half of an operator of the CPU delegate this is, and the operator's kind: a
        preparation has the id before that of the product or attention that reads it."""
        following = self._attributions.of(self._follows(item))
        if following.is_heavy:
            made = {node.name for node in attribution.nodes}
            read = {name for node in following.nodes for name in (node.name, *node.inputs)}
            if not attribution.is_heavy and made & read or attribution.node is following.node:
                return "prepare", following.op_kind
        return "compute", attribution.op_kind

    def _follows(self, item: Interval) -> tuple[int, ...]:
        """The handles of the debug id behind an event's; none where ids are names."""
        if not isinstance(item.delegate_debug_id, int):
            return ()
        handles = self._record.delegates[item.instruction_id].handles
        return handles.get(str(item.delegate_debug_id + 1), ())


def _title(attribution: Attribution, key: str) -> str:
    return attribution.module_path or attribution.op_kind or f"operator {key}"


def _uncertain(inner: Sequence[Interval], handles: Iterable[str]) -> set[str]:
    """Numbered events of a name of which there are more or fewer than expected: one was fused or
    split, and it is unknown which."""
    expected, recorded = Counter[str](), Counter[str]()
    for key in handles:
        if match := _NUMBERED.fullmatch(key):
            expected[match[1]] += 1
    keys = [item.delegate_debug_id for item in inner if isinstance(item.delegate_debug_id, str)]
    for key in keys:
        if match := _NUMBERED.fullmatch(key):
            recorded[match[1]] += 1
    return {
        key
        for key in keys
        if (match := _NUMBERED.fullmatch(key)) and recorded[match[1]] != expected[match[1]]
    }
