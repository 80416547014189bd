"""Which nodes of the exported graph the logged outputs of a program are.

An instruction of the program, or an operator inside a delegate, runs some nodes of the graph and
leaves behind what others read: those among its nodes that somebody outside reads, its sinks. An
operator that leaves several in one tensor has them side by side, in the order of the graph.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from devtools.compare.logged import Output, joined
from devtools.compare.recording import Place, operator_name
from devtools.profile.etrecord import Node, Record
from devtools.profile.model import Line

_FLOAT = "float32"
_VIEWS = {"view", "slice", "split_with_sizes", "cat", "unsqueeze", "permute", "expand", "getitem"}


@dataclass(frozen=True)
class Sink:
    """One value that a program hands from one of its operators to others.

    Attributes:
        place: where the model computes it.
        lines: the lines of the nodes that its operator runs, its own first.
        modules: the modules of these nodes, each with the last line that calls it.
        backend: of the delegate; None for an operator of the runtime.
        at_boundary: whether only the whole delegate call gave its output, not each operator.
        width: numbers for each token.
        order: in the graph.
    """

    place: Place
    lines: tuple[Line, ...]
    modules: tuple[tuple[str, Line], ...]
    backend: str | None
    at_boundary: bool
    width: int
    order: int


@dataclass
class LoggedRows:
    """What a program computed for a sink, by call.

    Attributes:
        calls: float32 (rows, width) for each call that computed it, by the call's number.
    """

    sink: Sink
    calls: dict[int, Tensor]


def logged_rows(outputs: Sequence[Output], record: Record) -> list[LoggedRows]:
    """Finds the sink of every output, in the order of the graph.

    Args:
        outputs: as a program logged them.
        record: of the same export.
    """
    graph = _Graph(record)
    by_operator: dict[tuple[int, str | None], dict[int, list[Tensor]]] = defaultdict(dict)
    for output in outputs:
        key = (output.instruction_id, output.delegate_debug_id)
        by_operator[key].setdefault(output.call, []).append(output.value)
    inside = {instruction for instruction, debug_id in by_operator if debug_id is not None}
    found: list[LoggedRows] = []
    for (instruction, debug_id), values in by_operator.items():
        delegate = record.delegates.get(instruction)
        if debug_id is None and instruction in inside:
            continue  # the call's own arguments: its operators said more
        if debug_id is not None:
            handles = delegate.handles.get(debug_id, ()) if delegate else ()
        else:
            handles = record.instructions.get(instruction, ())
        backend = delegate.backend if delegate else None
        sinks = graph.sinks(handles, backend, at_boundary=bool(delegate) and debug_id is None)
        found += _rows(sinks, values, side_by_side=debug_id is not None)
    return sorted(found, key=lambda rows: rows.sink.order)


def _rows(
    sinks: list[Sink], values: Mapping[int, list[Tensor]], side_by_side: bool
) -> list[LoggedRows]:
    found = [LoggedRows(sink, {}) for sink in sinks]
    for call, tensors in values.items():
        if side_by_side:
            whole = joined(tensors, sum(sink.width for sink in sinks))
            parts: list[Tensor | None] = [None] * len(sinks)
            if whole is not None:
                parts = list(whole.split([sink.width for sink in sinks], dim=1))
        else:
            last = tensors[len(tensors) - len(sinks) :]  # after the inputs come the outputs
            parts = [joined([one], sink.width) for one, sink in zip(last, sinks, strict=False)]
        for rows, part in zip(found, parts, strict=False):
            if part is not None:
                rows.calls[call] = part
    return [rows for rows in found if rows.calls]


class _Graph:
    def __init__(self, record: Record) -> None:
        self._nodes = record.nodes
        self._by_handle: dict[int, list[int]] = defaultdict(list)
        self._readers: dict[str, list[int]] = defaultdict(list)
        self._places: list[Place | None] = []
        counts: Counter[Place] = Counter()
        live = {handle for handles in record.instructions.values() for handle in handles}
        for delegate in record.delegates.values():
            live.update(handle for handles in delegate.handles.values() for handle in handles)
        for index, node in enumerate(record.nodes):
            if node.debug_handle is not None:
                self._by_handle[node.debug_handle].append(index)
            if node.debug_handle is None or node.debug_handle in live:
                for name in node.inputs:
                    self._readers[name].append(index)
            place = _place(node)
            self._places.append(place and Place(*_fields(place), counts[place]))
            if place is not None:
                counts[place] += 1

    def sinks(self, handles: Iterable[int], backend: str | None, at_boundary: bool) -> list[Sink]:
        indices = sorted({index for handle in handles for index in self._by_handle[handle]})
        inside = set(indices)
        nodes = [self._nodes[index] for index in indices]
        lines = tuple(dict.fromkeys(node.stack[-1] for node in nodes if node.stack))
        modules = tuple({node.module_path: node.stack[-1] for node in nodes if node.stack}.items())
        found = []
        for index in indices:
            node, place = self._nodes[index], self._places[index]
            readers = [reader for name in node.outputs for reader in self._readers[name]]
            if readers and inside.issuperset(readers):
                continue
            width = _width(node)
            if width is None or place is None:
                continue
            if backend is None and place.operator in _VIEWS:
                continue
            own = (node.stack[-1], *(line for line in lines if line != node.stack[-1]))
            found.append(Sink(place, own, modules, backend, at_boundary, width, index))
        return found


def _place(node: Node) -> Place | None:
    if not node.stack:
        return None
    line = node.stack[-1]
    return Place(node.module_path, line.file, line.number, operator_name(node.operator), 0)


def _fields(place: Place) -> tuple[str, str, int, str]:
    return place.module_path, place.file, place.line, place.operator


def _width(node: Node) -> int | None:
    """Numbers for each token of what a node makes; None where it is not float rows of tokens."""
    output = node.output
    if output is None or output.dtype != _FLOAT or not output.sizes:
        return None
    width = 1
    for size in output.sizes:
        if isinstance(size, int):
            width *= size
    return width


def positions(
    rows: Mapping[int, Tensor], starts: Sequence[int], lengths: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """All rows of a value with the positions in the text that they stand for.

    A call that computed fewer rows than it has tokens did so for its last ones.

    Args:
        rows: by call.
        starts, lengths: of every call, in tokens.

    Returns:
        int64 (rows,), float32 (rows, width).
    """
    where, what = [], []
    for call, values in sorted(rows.items()):
        end = starts[call] + lengths[call]
        where.append(torch.arange(end - min(len(values), lengths[call]), end))
        what.append(values[-lengths[call] :])
    return torch.cat(where), torch.cat(what)
