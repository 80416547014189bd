"""Who reads a value, in a sentence."""

from delegates.op_list.op_list import OpList
from delegates.op_list.ops import Op
from delegates.op_list.refused import Refused
from delegates.source_lines import source_line


def not_read_by(ops: OpList, op: Op, reader: str, kind: type[Op]) -> Refused:
    """That others than `wanted` read what an op computes."""
    if op.output in ops.outputs:
        return Refused(f"its output is read outside the delegate, not by {reader}")
    others = [item for item in ops.readers(op.output) if not isinstance(item, kind)]
    lines = sorted({source_line(item.node) for item in others or ops.readers(op.output)})
    return Refused(f"its output is read by {', '.join(lines) or 'nothing'}, not by {reader}")
