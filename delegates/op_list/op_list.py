"""The ops of one delegate call, and what peepholes ask of them and do to them.

Every value is written by one op. Where two ops use one slot is decided later, by slots.py.
"""

from collections.abc import Iterable, Iterator

from delegates.op_list.ops import Op, View
from delegates.op_list.rows import Rows


class OpList:
    """
    Args:
        ops: in an order in which they can run.
        outputs: values that are read outside.
    """

    def __init__(self, ops: Iterable[Op], outputs: Iterable[Rows]) -> None:
        self._places = {op: place for place, op in enumerate(ops)}
        self._outputs = list(outputs)
        self._makers: dict[Rows, Op] = {}
        self._readers: dict[Rows, list[Op]] = {}
        self._order: list[Op] | None = None
        for op in self._places:
            self._enter(op)
        self._drop_views()
        for op in self:
            one = op.ONE_ROW or any(rows.one_row for rows in op.reads())
            op.output.one_row = one and not op.output.height

    def __iter__(self) -> Iterator[Op]:
        return iter(self.in_order())

    def __contains__(self, op: Op) -> bool:
        return op in self._places

    def in_order(self) -> list[Op]:
        if self._order is None:
            self._order = sorted(self._places, key=self._places.__getitem__)
        return self._order

    @property
    def outputs(self) -> list[Rows]:
        return self._outputs

    def maker(self, rows: Rows | None) -> Op | None:
        """Returns the op that computes a value; None for an input of the call."""
        return None if rows is None else self._makers.get(rows)

    def readers(self, rows: Rows) -> list[Op]:
        """Returns the ops that read a value, in their order."""
        return sorted(set(self._readers.get(rows, ())), key=self._places.__getitem__)

    def only_reader(self, rows: Rows) -> Op | None:
        """Returns the op that reads a value, if no other op and nothing outside reads it."""
        readers = set(self._readers.get(rows, ()))
        return readers.pop() if len(readers) == 1 and rows not in self._outputs else None

    def is_before(self, one: Op, other: Op) -> bool:
        return self._places[one] < self._places[other]

    def reread(self, op: Op, field: str, rows: Rows | None) -> None:
        """Makes an op read another value."""
        old = getattr(op, field)
        if old is not None:
            self._readers[old].remove(op)
        setattr(op, field, rows)
        if rows is not None:
            self._readers.setdefault(rows, []).append(op)

    def rewrite(self, op: Op, rows: Rows) -> None:
        """Makes an op compute another value: a new one, or that of an op that was removed."""
        if self._makers.get(op.output) is op:
            del self._makers[op.output]
        op.output = rows
        self._makers[rows] = op

    def remove(self, op: Op) -> None:
        for rows in op.reads():
            self._readers[rows].remove(op)
        if self._makers.get(op.output) is op:
            del self._makers[op.output]
        del self._places[op]
        self._order = None

    def replace(self, old: Op, new: Op) -> None:
        """Replaces an op by another."""
        place = self._places[old]
        self.remove(old)
        self._places[new] = place
        self._enter(new)

    def _enter(self, op: Op) -> None:
        self._makers[op.output] = op
        for rows in op.reads():
            self._readers.setdefault(rows, []).append(op)

    def _drop_views(self) -> None:
        """Removes the views: their readers read the original rows. A view's nodes are attributed
        to the op that reads the heads or, if it makes rows, to the op that computed them."""
        for op in list(self._places):
            if isinstance(op, View):
                maker, readers = self.maker(op.input), self.readers(op.output)
                owner = readers[0] if readers and (op.makes_heads or maker is None) else maker
                if owner is not None and owner is maker:
                    owner.nodes += op.nodes
                elif owner is not None:
                    owner.adopt(op.nodes)
                self._read_instead(op.output, op.input)
                self.remove(op)

    def _read_instead(self, old: Rows, new: Rows) -> None:
        for reader in self.readers(old):
            for field in reader.READS:
                if getattr(reader, field) is old:
                    self.reread(reader, field, new)
        self._outputs = [new if rows is old else rows for rows in self._outputs]
