"""Which nodes of the exported graph the logged outputs of a program are.

An instruction of the program, or an operator inside a delegate, runs some nodes of the graph. Those
of them that are read outside are its sinks. An operator with several sinks in one tensor has them
side by side, in the order of the graph.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from devtools.compare.logged import Log, Rows, Stored, has_rows
from devtools.compare.recording import Place, operator_name
from devtools.profile.etrecord import Node, Record
from devtools.profile.profile_types import Line

_Operator = tuple[int, str | None]  # an instruction, and what it is inside of its delegate
_FLOAT = "float32"
# An operator that changes some of its arguments: these come behind its own result.
_FUNCTIONALIZED = "auto_functionalized"
_VIEWS = {"view", "slice", "split_with_sizes", "cat", "unsqueeze", "permute", "expand", "getitem"}


@dataclass(frozen=True)
class Sink:
    """One value that a program passes from one of its operators to others.

    Attributes:
        place: where the model computes it.
        lines: the lines of the nodes that its operator runs, its own first.
        modules: the modules of these nodes, each with the last line that calls it.
        backend: of the delegate; None for an operator of the runtime.
        at_boundary: whether it is the output of the complete delegate call, not of one operator.
        width: numbers for each token.
        order: in the graph.
        handle: the debug handle of its node.
        handles: those of all that its operator runs.
        behind: further outputs of its operator, which the runtime shows after it.
    """

    place: Place
    lines: tuple[Line, ...]
    modules: tuple[tuple[str, Line], ...]
    backend: str | None
    at_boundary: bool
    width: int
    order: int
    handle: int | None
    handles: frozenset[int]
    behind: int = 0


@dataclass
class LoggedRows:
    """What a program computed for a sink.

    Attributes:
        calls: rows of its width for each call that computed it, by the call's number.
    """

    sink: Sink
    calls: dict[int, Rows]


class Collector:
    """Finds the sinks of a program's values as it computes them, and keeps those in a log.

    Args:
        record: of the same export.
        log: where values go.
    """

    def __init__(self, record: Record, log: Log) -> None:
        self._record = record
        self._log = log
        self._graph = _Graph(record)
        self._sinks: dict[_Operator, list[Sink]] = {}
        self._stored: dict[_Operator, dict[int, list[Stored]]] = defaultdict(dict)
        self._inside: set[int] = set()  # instructions whose delegate shows its operators
        self._call = 0
        self._arguments: tuple[_Operator, deque[bytes]] | None = None  # of the last instruction

    def begin_call(self, call: int) -> None:
        """Starts a call: the values that are taken from now on belong to it."""
        self._keep_outputs()
        self._call = call

    def take(self, instruction: int, debug_id: str | None, values: memoryview) -> None:
        """Takes one value, in the order in which the program computes them.

        Args:
            debug_id: of the operator inside the delegate; None for an argument of the instruction.
            values: the bytes of float32 numbers.
        """
        operator = (instruction, debug_id)
        if self._arguments is not None and self._arguments[0] != operator:
            self._keep_outputs()
        if debug_id is not None:
            self._inside.add(instruction)
        elif instruction in self._inside:
            return  # the call's own arguments: its operators showed more
        if operator not in self._sinks:
            self._sinks[operator] = self._find_sinks(instruction, debug_id)
        sinks = self._sinks[operator]
        if debug_id is not None:
            if sinks:
                calls = self._stored[operator]
                calls.setdefault(self._call, []).append(self._log.append(values))
            return
        if self._arguments is None:  # after the inputs come the outputs
            outputs = len(sinks) + sum(sink.behind for sink in sinks)
            self._arguments = operator, deque(maxlen=outputs)
        self._arguments[1].append(bytes(values) if sinks else b"")

    def rows(self) -> list[LoggedRows]:
        """What each sink got, in the order of the graph."""
        self._keep_outputs()
        logged: list[LoggedRows] = []
        for operator, calls in self._stored.items():
            logged += self._rows(operator, calls)
        return sorted(logged, key=lambda rows: rows.sink.order)

    @property
    def is_empty(self) -> bool:
        """Whether no value was taken at all."""
        return not self._sinks

    def _find_sinks(self, instruction: int, debug_id: str | None) -> list[Sink]:
        delegate = self._record.delegates.get(instruction)
        if debug_id is not None:
            handles = delegate.handles.get(debug_id, ()) if delegate else ()
        else:
            handles = self._record.instructions.get(instruction, ())
        backend = delegate.backend if delegate else None
        return self._graph.sinks(handles, backend, bool(delegate) and debug_id is None)

    def _keep_outputs(self) -> None:
        if self._arguments is None:
            return
        operator, values = self._arguments
        self._arguments = None
        if values:
            self._stored[operator][self._call] = [self._log.append(value) for value in values]

    def _rows(
        self, operator: "_Operator", calls: Mapping[int, Sequence[Stored]]
    ) -> list[LoggedRows]:
        sinks = self._sinks[operator]
        logged = [LoggedRows(sink, {}) for sink in sinks]
        whole = sum(sink.width for sink in sinks)
        firsts = accumulate((sink.width for sink in sinks), initial=0)
        for index, (rows, first) in enumerate(zip(logged, firsts, strict=False)):
            width = rows.sink.width
            for call, parts in calls.items():
                if operator[1] is not None:  # side by side
                    if has_rows(parts, whole):
                        rows.calls[call] = Rows(self._log, parts, whole, first, width)
                elif has_rows(parts[index : index + 1], width):
                    rows.calls[call] = Rows(self._log, parts[index : index + 1], width, 0, width)
        return [rows for rows in logged if rows.calls]


class _Graph:
    def __init__(self, record: Record) -> None:
        self._nodes = record.nodes
        self._by_handle: dict[int, list[int]] = defaultdict(list)
        self._readers: dict[str, list[int]] = defaultdict(list)
        self._places: list[Place | None] = []
        counts: Counter[Place] = Counter()
        self._computed = set(record.arguments)  # names of what depends on a call's inputs
        live = {handle for handles in record.instructions.values() for handle in handles}
        for delegate in record.delegates.values():
            live.update(handle for handles in delegate.handles.values() for handle in handles)
        for index, node in enumerate(record.nodes):
            if node.debug_handle is not None:
                self._by_handle[node.debug_handle].append(index)
            if not self._computed.isdisjoint(node.inputs):
                self._computed.update(node.outputs)
            if node.debug_handle is None or node.debug_handle in live:
                for name in node.inputs:
                    self._readers[name].append(index)
            place = _place(node)
            self._places.append(place and Place(*_fields(place), counts[place]))
            if place is not None:
                counts[place] += 1

    def sinks(self, handles: Iterable[int], backend: str | None, at_boundary: bool) -> list[Sink]:
        ran = frozenset(handles)
        indices = sorted({index for handle in ran for index in self._by_handle[handle]})
        inside = set(indices)
        nodes = [self._nodes[index] for index in indices]
        lines = tuple(dict.fromkeys(node.stack[-1] for node in nodes if node.stack))
        modules = tuple({node.module_path: node.stack[-1] for node in nodes if node.stack}.items())
        sinks = []
        for index in indices:
            node, place = self._nodes[index], self._places[index]
            results = node.outputs[:1] if _FUNCTIONALIZED in node.target else node.outputs
            readers = [reader for name in results for reader in self._readers[name]]
            if readers and inside.issuperset(readers):
                continue
            if self._computed.isdisjoint(node.outputs):
                continue  # weights made float: no line of the model computes these
            width = _width(node)
            if width is None or place is None:
                continue
            if backend is None and place.operator in _VIEWS:
                continue
            own = (node.stack[-1], *(line for line in lines if line != node.stack[-1]))
            behind = 0 if backend else len(results) - 1
            known = place, own, modules, backend, at_boundary, width, index
            sinks.append(Sink(*known, node.debug_handle, ran, behind))
        return sinks


def _place(node: Node) -> Place | None:
    if not node.stack:
        return None
    line = node.stack[-1]
    return Place(node.module_path, line.file, line.number, operator_name(node.operator), 0)


def _fields(place: Place) -> tuple[str, str, int, str]:
    return place.module_path, place.file, place.line, place.operator


def _width(node: Node) -> int | None:
    """How many numbers a node makes for each token; None if it does not make float rows."""
    output = node.output
    if output is None or output.dtype != _FLOAT or not output.sizes:
        return None
    width = 1
    for size in output.sizes:
        if isinstance(size, int):
            width *= size
    return width


def positions(
    rows: Mapping[int, Rows], starts: Sequence[int], lengths: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Reads all rows of a value with the positions in the text that they stand for.

    A call that computed fewer rows than it has tokens did so for its last ones.

    Args:
        rows: by call.
        starts, lengths: of every call, in tokens.

    Returns:
        int64 (rows,), float32 (rows, width).
    """
    where, what = [], []
    for call, logged in sorted(rows.items(), key=lambda item: item[0]):
        values = logged.read()
        end = starts[call] + lengths[call]
        where.append(torch.arange(end - min(len(values), lengths[call]), end))
        what.append(values[-lengths[call] :])
    return torch.cat(where), torch.cat(what)
