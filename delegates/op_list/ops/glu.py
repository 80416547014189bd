"""Gated rows: an activation of some rows times others (Shazeer, 2020). A peephole finds it among
the ops."""

from dataclasses import dataclass
from typing import ClassVar

from delegates.op_list.ops.elementwise import Function
from delegates.op_list.ops.op import Field, Matchers, Op, Places
from delegates.op_list.rows import Rows


@dataclass(eq=False, kw_only=True)
class Glu(Op):
    """activation(gate) * up."""

    READS: ClassVar = ("gate", "up")
    BY_SAMPLE: ClassVar = True
    IN_PLACE: ClassVar = ("gate", "up")

    gate: Rows
    up: Rows
    activation: Function

    def fields(self, places: Places) -> list[Field]:
        slots = map(places.slot, (self.gate, self.up, self.output))
        return [*slots, self.activation]


MATCHERS: Matchers = {}
