"""What a delegate's module offers.

Every delegate has `lower`, `load` and `LIMITS`. Beside them it may have, to share a program with
others:

    take(program, constant_methods, with_etrecord) -> Taken     as the first of several
    take_rest(edge) -> Taken                                    of what those before it have left
    file_layout() -> ExecutorchBackendConfig                    where it wants the file its own way
    add_source_map(graph_module)                                where lowering leaves it out

and, for `--explain`:

    why_unfused(program) -> list[Unfused]                       of a program in the edge dialect

A delegate without `take` takes a whole program or nothing; one without `take_rest` is a first one
alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor
from torch.export import ExportedProgram

from delegates.finish import Lowered
from delegates.limits import Limits

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager

Step = Callable[[Tensor, Tensor], Tensor]  # tokens (1, seq_len), input_pos (1,) -> (1, vocab_size)


class Delegate(Protocol):
    """What a delegate's module offers."""

    @property
    def LIMITS(self) -> Limits: ...

    def lower(
        self,
        program: ExportedProgram,
        constant_methods: Mapping[str, object],
        named_data: Mapping[str, bytes],
        with_etrecord: bool,
    ) -> Lowered: ...

    def load(self, path: Path) -> Step | None: ...


@dataclass(frozen=True)
class Taken:
    """A program of which a delegate has taken what it can.

    Attributes:
        edge: the program; what the delegate left is as its own first pass made it.
        reasons: why nodes were left, by their names, where the delegate says so.
    """

    edge: "EdgeProgramManager"
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unfused:
    """An op of the list that others like it are part of.

    Attributes:
        module_path: such as model.layers.0.mlp.
        operator: what it is called there.
        line: of the model, as in exporter/models/norm.py:19.
        reason: why it stands alone.
    """

    module_path: str
    operator: str
    line: str
    reason: str
