"""When each planned tensor is needed, and at which step, by which line, the most memory is."""

from collections.abc import Mapping
from dataclasses import dataclass

from devtools.profile.profile_types import Event, Line, Profile
from devtools.report.op_list import OpList
from devtools.report.program import Planned, Program

_MOST_LISTED = 12  # tensors alive at the peak


@dataclass(frozen=True)
class Step:
    """One step of a program, and what is known of it.

    Attributes:
        label: an operator or a delegate's name.
        line: that took the most of its time; None where none is known.
        lines: how many lines it stands for.
        live: bytes that are needed during it.
    """

    label: str
    line: Line | None
    lines: int
    live: int


@dataclass(frozen=True)
class Tenant:
    """A tensor of the plan, and the steps between which, both included, it must be kept.

    Attributes:
        role: input, output, buffer or activation.
        line: of the step that writes it first; None for inputs and buffers.
    """

    planned: Planned
    first: int
    last: int
    role: str
    line: Line | None


@dataclass(frozen=True)
class Timeline:
    """A memory plan over the steps of a program.

    Attributes:
        size: bytes that are allocated.
        peak: the step during which the most of them is needed.
        at_peak: what is needed then, the largest first, and how many more there are.
    """

    size: int
    steps: tuple[Step, ...]
    tenants: tuple[Tenant, ...]
    peak: int
    at_peak: tuple[Tenant, ...]
    more_at_peak: int

    @property
    def ranked(self) -> list[tuple[int, Step]]:
        """The steps and their numbers, those that need the most first."""
        return sorted(enumerate(self.steps), key=lambda item: -item[1].live)


def plan_timeline(program: Program, profile: Profile) -> Timeline | None:
    """The runtime's own memory; None if nothing of it is planned.

    A buffer of the module, such as a cache, is kept from the first step to the last; it is
    recognised because a kernel reads it before anything wrote it. Lines come from the profile's
    events.
    """
    if not program.planned or not program.instructions:
        return None
    events = _events_by_instruction(profile)
    seen: dict[int, list[int]] = {}
    for index, instruction in enumerate(program.instructions):
        for value in dict.fromkeys(instruction.values):
            seen.setdefault(value, []).append(index)
    end = len(program.instructions) - 1
    tenants = []
    for planned in program.planned:
        steps = seen.get(planned.value)
        if not steps:
            continue
        first = program.instructions[steps[0]]
        line = _slowest(events.get(steps[0], []))
        if planned.value in program.inputs:
            tenants.append(Tenant(planned, 0, steps[-1], "input", None))
        elif first.operator and first.values[-1] != planned.value:
            tenants.append(Tenant(planned, 0, end, "buffer", None))
        elif planned.value in program.outputs:
            tenants.append(Tenant(planned, steps[0], end, "output", line))
        else:
            tenants.append(Tenant(planned, steps[0], steps[-1], "activation", line))
    steps_of = []
    for index, instruction in enumerate(program.instructions):
        own = events.get(index, [])
        number = instruction.delegate
        label = instruction.operator or (
            program.delegates[number].backend if number is not None else "control"
        )
        lines = len({line for event in own for line in event.lines})
        live = _union([item.planned for item in tenants if item.first <= index <= item.last])
        steps_of.append(Step(label, _slowest(own), lines, live))
    peak = max(range(len(steps_of)), key=lambda index: steps_of[index].live)
    needed = [item for item in tenants if item.first <= peak <= item.last]
    needed.sort(key=lambda item: -item.planned.size)
    return Timeline(
        size=sum(program.arenas.values()),
        steps=tuple(steps_of),
        tenants=tuple(tenants),
        peak=peak,
        at_peak=tuple(needed[:_MOST_LISTED]),
        more_at_peak=max(0, len(needed) - _MOST_LISTED),
    )


def _events_by_instruction(profile: Profile) -> dict[int, list[Event]]:
    events: dict[int, list[Event]] = {}
    for call in profile.calls:
        for event in call.events:
            if event.instruction_id is not None:
                events.setdefault(event.instruction_id, []).append(event)
    return events


def _slowest(events: list[Event]) -> Line | None:
    """The line with most of the events' time."""
    times: dict[Line, int] = {}
    for event in events:
        if event.line is not None:
            times[event.line] = times.get(event.line, 0) + event.duration_ns
    return max(times, key=lambda line: times[line]) if times else None


def _union(planned: list[Planned]) -> int:
    """Bytes of all the places together; views share theirs."""
    total, arena, end = 0, -1, 0
    for item in sorted(planned, key=lambda item: (item.arena, item.offset)):
        if item.arena != arena:
            arena, end = item.arena, 0
        stop = item.offset + item.size
        total += max(0, stop - max(end, item.offset))
        end = max(end, stop)
    return total


@dataclass(frozen=True)
class WorkspaceStep:
    """One operator of the CPU delegate.

    Attributes:
        weight, cache: bytes in the file and in the cache that it reads at most.
        live: bytes of activations that are needed during it, of one token.
    """

    name: str
    kind: str
    line: Line | None
    weight: int
    cache: int
    live: int


@dataclass(frozen=True)
class Workspace:
    """The CPU delegate's own memory, according to its list of operators.

    Attributes:
        row_bytes: of all slots together, of one token; a call runs several tokens together.
        peak: the operator during which the most of them is needed.
    """

    weight_bytes: int
    cache_bytes: int
    cache_type: str
    row_bytes: int
    steps: tuple[WorkspaceStep, ...]
    peak: int


def workspace(op_list: OpList, lines: Mapping[int, Line]) -> Workspace:
    """
    Args:
        lines: of the recorded events, by their debug id.
    """
    steps = []
    for operator, live in zip(op_list.operators, op_list.live(), strict=True):
        line = next((lines[number] for number in operator.debug_ids if number in lines), None)
        steps.append(
            WorkspaceStep(
                name=operator.name,
                kind=operator.kind,
                line=line,
                weight=sum(op_list.weights[weight].size for weight in operator.weights),
                cache=operator.cache_bytes,
                live=sum(op_list.slots[slot] for slot in live if slot not in op_list.one_row),
            )
        )
    return Workspace(
        weight_bytes=op_list.weight_bytes,
        cache_bytes=op_list.cache_bytes,
        cache_type=op_list.cache_type,
        row_bytes=sum(
            size for slot, size in enumerate(op_list.slots) if slot not in op_list.one_row
        ),
        steps=tuple(steps),
        peak=max(range(len(steps)), key=lambda index: steps[index].live),
    )


def workspaces(program: Program, profile: Profile) -> list[Workspace]:
    """One for each call of the CPU delegate, in the program's order."""
    sizes = []
    for index, instruction in enumerate(program.instructions):
        if instruction.delegate is None:
            continue
        op_list = program.delegates[instruction.delegate].op_list
        if op_list is None or not op_list.operators:
            continue
        lines: dict[int, Line] = {}
        for call in profile.calls:
            for event in call.events:
                number = event.delegate_debug_id
                if event.instruction_id == index and isinstance(number, int) and event.line:
                    lines.setdefault(number, event.line)
        sizes.append(workspace(op_list, lines))
    return sizes
