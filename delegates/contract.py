"""What a delegate offers that can share a program with others.

Beside what every delegate's module has:

    take(program, constant_methods, with_etrecord) -> Taken     as the first of several
    take_rest(edge) -> Taken                                    of what those before it have left
    file_layout() -> ExecutorchBackendConfig                    where it wants the file its own way
    add_source_map(graph_module)                                where lowering leaves it out

A delegate without `take` takes a whole program or nothing; one without `take_rest` is a first one
alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager


@dataclass(frozen=True)
class Taken:
    """A program of which a delegate has taken what it can.

    Attributes:
        edge: the program; what the delegate left is as its own first pass made it.
        reasons: why nodes were left, by their names, where the delegate says so.
    """

    edge: "EdgeProgramManager"
    reasons: Mapping[str, str] = field(default_factory=dict)
