"""What a profile is: calls of a model, the events inside them, and the lines that caused those.

All times are integer nanoseconds of the clock of the machine that recorded. In each call they
reconcile exactly::

    wall = attributed + unattributed + delegate_overhead + runtime_overhead

where attributed and unattributed are the events with and without a line, delegate overhead is the
time of delegate calls outside their events, and runtime overhead that of the call outside its
instructions. Both overheads may fall below zero where a backend rounds its times up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from devtools.errors import BadRequest

FORWARD = "forward"  # the method of a program that has one
PREPARING = " (preparing its input)"  # behind a name: the part before a product or attention


class Phase(StrEnum):
    """What a call of the model is for."""

    PREFILL = "prefill"
    DECODE = "decode"
    RUN = "run"  # of a program of tensors


@dataclass(frozen=True)
class Line:
    """A line of the Python that was exported.

    Attributes:
        file: as the exporting machine knew it; shortened to the part below its import root where
            that is known, such as exporter/models/mlp.py.
        number: 1 for the file's first line.
        function: the function that it is in, such as forward.
        text: the line's code, stripped; empty if the file was not available.
    """

    file: str
    number: int
    function: str = ""
    text: str = ""

    @property
    def location(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Share:
    """What one of the computations that an event fuses has of it.

    Attributes:
        lines: its own line first, then those that come along with it.
        stack, module_path, layer: as of an event.
        time, bytes_moved, operations: relative to those of the event's other shares.
    """

    lines: tuple[Line, ...]
    stack: tuple[Line, ...]
    module_path: str
    layer: int | None
    time: int
    bytes_moved: int
    operations: int


@dataclass(frozen=True)
class Event:
    """One recorded piece of work; events never contain one another.

    Attributes:
        name: what the backend or the runtime calls it; unique only together with its call.
        op_kind: what it computes, in words that all backends share, such as linear.
        part: prepare or compute, where a backend records an operator in two parts; else empty.
        start_ns, end_ns: on the recording machine's clock.
        backend: the delegate that ran it; None for an operator of the runtime itself.
        instruction_id: the instruction of the program that it belongs to.
        delegate_debug_id: its id inside the delegate, a number or a name; None outside delegates
            and where the delegate gives none.
        debug_handles: of the graph nodes that it computes; empty where it does not resolve.
        nodes: the names of these nodes in the graph.
        lines: the innermost line of the model's own for each of these nodes, without repetition;
            first that of the node that gives the event its name.
        stack: the frames that lead to the first of the lines, the outermost first and that line
            last.
        module_path: the module of the first line's node, such as model.layers.0.self_attn.q_proj;
            empty where it is the model itself.
        layer: the number of the decoder layer in the module path; None outside of the layers.
        bytes_moved: read from and written to memory; None where unknown.
        operations: multiplications and additions; None where unknown.
        threads: that worked on it; None where unknown.
        shape: of the output of the first line's node; sizes that vary between calls by name.
        dtype: of that output, such as float32.
        shares: of the lines and modules that the event fuses (see devtools/profile/sharing.py), the
            first line's first; empty where all of it is the first line's.
    """

    name: str
    op_kind: str
    start_ns: int
    end_ns: int
    part: str = ""
    backend: str | None = None
    instruction_id: int | None = None
    delegate_debug_id: int | str | None = None
    debug_handles: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    stack: tuple[Line, ...] = ()
    module_path: str = ""
    layer: int | None = None
    bytes_moved: int | None = None
    operations: int | None = None
    threads: int | None = None
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    shares: tuple[Share, ...] = ()

    @cached_property
    def portions(self) -> tuple["Event", ...]:
        """The event cut into one for each share, one after the other: their times, bytes and
        operations add up to the event's exactly. Without shares it is the event itself."""
        if not self.shares:
            return (self,)
        times = _divide(self.duration_ns, [share.time for share in self.shares])
        moved = _divide(self.bytes_moved, [share.bytes_moved for share in self.shares])
        operations = _divide(self.operations, [share.operations for share in self.shares])
        portions, at = [], self.start_ns
        for share, time, own_bytes, own_operations in zip(
            self.shares, times, moved, operations, strict=True
        ):
            portions.append(
                replace(
                    self,
                    start_ns=at,
                    end_ns=at + (time or 0),
                    lines=share.lines,
                    stack=share.stack,
                    module_path=share.module_path,
                    layer=share.layer,
                    bytes_moved=own_bytes,
                    operations=own_operations,
                    shares=(),
                )
            )
            at += time or 0
        return tuple(portions)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def kind(self) -> str:
        """Such as linear, or `linear (preparing its input)` for what comes before the product."""
        return self.op_kind + PREPARING if self.part == "prepare" else self.op_kind

    @property
    def line(self) -> Line | None:
        """The line whose time this is."""
        return self.lines[0] if self.lines else None


def _divide(amount: int | None, weights: Sequence[int]) -> list[int | None]:
    """Integers in proportion to the weights, whose sum is the amount; None if the amount is."""
    if amount is None:
        return [None] * len(weights)
    whole = sum(weights)
    if not whole:
        return [amount, *(0 for _ in weights[1:])]
    ends = [amount * sum(weights[: end + 1]) // whole for end in range(len(weights))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class DelegateCall:
    """One instruction that calls a delegate; its events have its instruction_id."""

    backend: str
    instruction_id: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Call:
    """One execution of a method.

    Attributes:
        index: from 0, in the order in which they were recorded.
        phase: prefill or decode; run, of a program of tensors.
        seq_len: tokens that went in; None if the profile does not contain it.
        start_ns, end_ns: of the whole call.
        events: in the order in which they started.
        delegate_calls: in the same order.
    """

    index: int
    phase: Phase
    seq_len: int | None
    start_ns: int
    end_ns: int
    events: tuple[Event, ...]
    delegate_calls: tuple[DelegateCall, ...]
    method: str = FORWARD

    @property
    def group(self) -> str:
        """What it is summed up with: its phase, and its method unless that is `forward`."""
        return self.phase.value if self.method == FORWARD else f"{self.phase.value} {self.method}"

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def portions(self) -> Iterator[Event]:
        """The portions of all events, in their order."""
        return (portion for event in self.events for portion in event.portions)

    @cached_property
    def attributed_ns(self) -> int:
        """Time of events that have a line."""
        return sum(event.duration_ns for event in self.events if event.lines)

    @cached_property
    def unattributed_ns(self) -> int:
        """Time of events that have none."""
        return sum(event.duration_ns for event in self.events if not event.lines)

    @cached_property
    def delegate_overhead_ns(self) -> int:
        """Time of delegate calls outside their events."""
        inside = sum(event.duration_ns for event in self.events if event.backend is not None)
        return sum(call.duration_ns for call in self.delegate_calls) - inside

    @cached_property
    def runtime_overhead_ns(self) -> int:
        """Time of the call outside its operators and delegate calls."""
        operators = sum(event.duration_ns for event in self.events if event.backend is None)
        return self.wall_ns - operators - sum(call.duration_ns for call in self.delegate_calls)


@dataclass(frozen=True)
class Unresolved:
    """Events of one name for which no line was found."""

    name: str
    backend: str | None
    count: int
    time_ns: int


@dataclass(frozen=True)
class Coverage:
    """How much of a profile resolves to a line of source.

    Attributes:
        delegate_resolved_ns: time inside delegate calls whose events have a line.
        delegate_ns: time of all events inside delegate calls.
        events_resolved: events with a line, inside delegate calls and outside.
        events: all of them.
        events_ns: their time.
        calls_ns: time of the calls of the model.
        unresolved: the rest, the most time first.
    """

    delegate_resolved_ns: int
    delegate_ns: int
    events_resolved: int
    events: int
    events_ns: int
    calls_ns: int
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def delegate_time(self) -> float:
        """Time resolved over time of events inside delegate calls; 1 where there are none."""
        return self.delegate_resolved_ns / self.delegate_ns if self.delegate_ns else 1.0

    @property
    def event_count(self) -> float:
        """Events resolved over events; 1 where there are none."""
        return self.events_resolved / self.events if self.events else 1.0

    @property
    def summary(self) -> str:
        """The first two figures, as the end of a sentence."""
        return (
            f"the line is known of {self.delegate_time:.1%} of delegate time and of "
            f"{self.event_count:.1%} of events"
        )

    @property
    def call_time(self) -> float:
        """Events' time over the calls' time; 1 where there are none."""
        return self.events_ns / self.calls_ns if self.calls_ns else 1.0


@dataclass(frozen=True)
class Profile:
    """What was recorded of one run, with its lines.

    Attributes:
        calls: in order; the ones that load the program are not among them.
        coverage: of all calls.
        etdump, etrecord: the files that it was read from.
        delegates: names of the backends that had calls.
        sources: the text of the files that lines are in, by Line.file, as it was when exported;
            only those that are available on this machine and have not changed.
        dropped_calls: calls that were not recorded, because the recording was full.
        facts: of the run, as our runner records them: model (its path), fingerprint (of its file),
            processor, threads, runs_with, prompt (its first kilobyte), date (UTC). Other programs
            record none.
        written_with: the fingerprint of the `.pte` that the ETRecord was written with; empty where
            it does not tell.
    """

    calls: tuple[Call, ...]
    coverage: Coverage
    etdump: Path
    etrecord: Path
    delegates: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    dropped_calls: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    written_with: str = ""

    @property
    def note(self) -> str | None:
        """What is to be known of a run of another export than the ETRecord's, which has the same
        operators; None if it is of this one, or if one of the files does not tell."""
        if not self.written_with or self.facts.get("fingerprint", "") in ("", self.written_with):
            return None
        return (
            f"note: {self.etdump} ran another export than that of {self.etrecord}. Lines and "
            "shapes are right only if both came from the same source: give the ETRecord that was "
            "written with the .pte that ran."
        )

    @property
    def threads(self) -> int | None:
        """The most that worked on any event, or those of the run; None if this is unknown."""
        counts = (event.threads for call in self.calls for event in call.events)
        most = max((count for count in counts if count is not None), default=None)
        number = self.facts.get("threads", "")
        return int(number) if most is None and number.isdecimal() else most

    def threads_or(self, asked: int | None) -> int | None:
        """Those of the run, else those that the user gives.

        Raises:
            BadRequest: the user gives another number than the run's.
        """
        number = self.facts.get("threads", "")
        if asked is not None and number.isdecimal() and int(number) != asked:
            raise BadRequest(
                f"{self.etdump} was recorded with --threads {number}, not {asked}; leave it out."
            )
        return asked or self.threads

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that were called, in that order."""
        return tuple(dict.fromkeys(call.method for call in self.calls))

    def calls_of(self, phase: Phase) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.phase is phase)

    @property
    def groups(self) -> dict[str, tuple[Call, ...]]:
        """The calls of each phase and method that there are, by Call.group."""
        names = dict.fromkeys(call.group for phase in Phase for call in self.calls_of(phase))
        return {name: tuple(call for call in self.calls if call.group == name) for name in names}
