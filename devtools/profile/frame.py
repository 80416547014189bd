"""Profiles as pandas frames: ExecuTorch's own, and one of ours by event."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devtools.profile.etdump import Record as Interval
from devtools.profile.etdump import Run, read_etdump
from devtools.profile.etrecord import Node, Record, read_etrecord
from devtools.profile.profile_types import Profile

if TYPE_CHECKING:
    import pandas

_NANOSECONDS_PER_MILLISECOND = 1e6
_FRAMEWORK = {"Method::init", "Program::load_method", "Method::execute"}
_MIXED = ("delegate_debug_identifier", "delegate_backend_name")
_FEW = 5  # from so many on, operators are listed in short

# What an event is known by: its name, its instruction, and its id inside a delegate.
_Signature = tuple[str, int, int, int | str | None]


def inspector_frame(etdump: Path, etrecord: Path, include_units: bool = True) -> "pandas.DataFrame":
    """The frame that `executorch.devtools.Inspector(...).to_dataframe(include_units)` makes of the
    same two files, column by column and row by row, without its seconds of imports and without
    the model's operators.

    Times are in milliseconds.

    Raises:
        BadRequest: a file cannot be read, is not what it should be, or is cut.
    """
    import pandas

    record = read_etrecord(etrecord)
    nodes = _nodes_by_handle(record.nodes)
    rows = []
    for name, group in _groups(read_etdump(etdump)).items():
        for signature, items in group.items():
            rows.append(_row(name[0], signature, items, record, nodes, include_units))
    frame = pandas.DataFrame(rows)
    for column in _MIXED:  # pandas would read None as not-a-number
        frame[column] = pandas.Series([row[column] for row in rows], dtype=object)
    return frame


def events_frame(profile: Profile) -> "pandas.DataFrame":
    """One row for each event of each call, or for each share of an event that fuses several lines
    or modules: phase, method, call, seq_len, name, op_kind, part, backend, file, line, function,
    text, module, layer, start_ns (from the call's start), self_ns, is_share, bytes_moved,
    operations, shape, debug_handles."""
    import pandas

    return pandas.DataFrame(
        [
            {
                "phase": str(call.phase),
                "method": call.method,
                "call": call.index,
                "seq_len": call.seq_len,
                "name": event.name,
                "op_kind": event.op_kind,
                "part": event.part,
                "backend": event.backend,
                "file": event.line.file if event.line else None,
                "line": event.line.number if event.line else None,
                "function": event.line.function if event.line else None,
                "text": event.line.text if event.line else None,
                "module": event.module_path,
                "layer": event.layer,
                "start_ns": event.start_ns - call.start_ns,
                "self_ns": event.duration_ns,
                "is_share": bool(whole.shares),
                "bytes_moved": event.bytes_moved,
                "operations": event.operations,
                "shape": event.shape,
                "debug_handles": event.debug_handles,
            }
            for call in profile.calls
            for whole in call.events
            for event in whole.portions
        ]
    )


_Group = dict[_Signature, list[Interval]]


def _groups(runs: Iterable[Run]) -> dict[tuple[str, tuple[_Signature, ...]], _Group]:
    """Blocks of one name that recorded the same events are one group."""
    groups: dict[tuple[str, tuple[_Signature, ...]], _Group] = {}
    for run in runs:
        events = _events(run)
        group = groups.setdefault((run.name, tuple(events)), {})
        for signature, item in events.items():
            group.setdefault(signature, []).append(item)
    return groups


def _events(run: Run) -> dict[_Signature, Interval]:
    """What an instruction recorded stands together; of equal events the last counts."""
    instructions: dict[tuple[int, int, int | str | None], list[Interval]] = {}
    for item in run.records:
        key = (item.instruction_id, item.chain, item.delegate_debug_id)
        instructions.setdefault(key, []).append(item)
    return {
        (item.name, item.chain, item.instruction_id, item.delegate_debug_id): item
        for items in instructions.values()
        for item in items
    }


def _row(
    block: str,
    signature: _Signature,
    items: list[Interval],
    record: Record,
    nodes: dict[int, list[Node]],
    include_units: bool,
) -> dict[str, Any]:
    import numpy as np

    name, _, instruction, delegate_id = signature
    delegated = delegate_id is not None
    raw = [_milliseconds(item, delegated) for item in items]
    unit = " (ms)" if include_units else ""
    matching = _nodes(signature, record, nodes)
    operators = [_target_name(node.target) for node in matching]
    delegate = record.delegates.get(instruction)
    has_backend = delegated or name == "DELEGATE_CALL"
    return {
        "event_block_name": block,
        "event_name": str(delegate_id) if delegated else name,
        "raw": raw,
        f"p10{unit}": np.percentile(raw, 10),
        f"p50{unit}": np.percentile(raw, 50),
        f"p90{unit}": np.percentile(raw, 90),
        f"avg{unit}": np.mean(raw),
        f"min{unit}": min(raw),
        f"max{unit}": max(raw),
        "op_types": operators if len(operators) < _FEW else _in_short(operators),
        "delegate_debug_identifier": delegate_id,
        "stack_traces": {f"{node.name}_": node.stack_trace for node in matching},
        "module_hierarchy": {f"{node.name}_": _hierarchy(node) for node in matching},
        "is_delegated_op": delegated,
        "delegate_backend_name": delegate.backend if delegate and has_backend else None,
        "debug_data": [],
        "start_time": [item.start for item in items],
    }


def _milliseconds(item: Interval, delegated: bool) -> float:
    """As the Inspector rounds: of delegates it scales both ends first."""
    scale = _NANOSECONDS_PER_MILLISECOND
    return item.end / scale - item.start / scale if delegated else (item.end - item.start) / scale


def _nodes(signature: _Signature, record: Record, nodes: dict[int, list[Node]]) -> list[Node]:
    name, _, instruction, delegate_id = signature
    if name in _FRAMEWORK:
        return []
    handles = record.instructions.get(instruction, ())
    if delegate_id is not None and instruction in record.delegates:
        handles = record.delegates[instruction].handles.get(str(delegate_id), ())
    return [node for handle in handles for node in nodes.get(handle, ())]


def _nodes_by_handle(nodes: Iterable[Node]) -> dict[int, list[Node]]:
    by_handle: dict[int, list[Node]] = {}
    for node in nodes:
        if node.debug_handle is not None:
            by_handle.setdefault(node.debug_handle, []).append(node)
    return by_handle


def _target_name(target: str) -> str:
    """The name that torch gives the function: with its namespace only in the edge dialect."""
    if ".edge.ops." in target:
        return target.split(".edge.ops.")[1]
    parts = target.split(".")
    return ".".join(parts[-2:]) if parts[:2] == ["torch", "ops"] and len(parts) > 4 else parts[-1]


def _hierarchy(node: Node) -> dict[str, tuple[str, str]] | None:
    if node.nn_module_stack is None:
        return None
    levels = [level.split(",") for level in node.nn_module_stack.split(";")]
    return {key: (path, kind) for key, path, kind in levels}


def _in_short(names: list[str]) -> str:
    return f"['{names[0]}', '{names[1]}' ... '{names[-1]}'] ({len(names)} total)"
