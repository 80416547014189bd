"""What a delegate's module provides.

Every delegate has `lower`, `load` and `LIMITS`. To share a program with others, it may also have:

    take(program, constant_methods, with_etrecord) -> Taken     as the first of several
    take_rest(edge) -> Taken                                    what those before it have left
    file_layout() -> ExecutorchBackendConfig                    if it needs its own file layout
    add_source_map(graph_module)                                if lowering does not add it

to write a language model with several methods:

    lower_methods(programs, constant_methods, named_data, with_etrecord, modules) -> Lowered

and, for `--explain`:

    why_unfused(program) -> list[Unfused]                       of a program in the edge dialect

To take any module (delegates/module.py):

    module_part(program) -> ContextManager[ModulePart]
    runs_modules() -> bool                                      to check the file's results: whether
                                                                this machine can, once it is called
    DYNAMIC_CONVOLUTIONS                                        if it rounds windows, not as PT2E

A delegate without `take` takes a complete program or nothing; one without `take_rest` can only be
the first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor
from torch.export import ExportedProgram

from delegates.limits import Limits
from delegates.to_executorch import Lowered

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig

# The inputs of `forward` to its output: of a decoder, tokens (1, seq_len) and input_pos (1,) to
# (1, vocab_size).
Step = Callable[..., Tensor]
# (inputs, method="forward"), of a module's program -> the method's outputs.
ModuleRun = Callable[..., Sequence[Tensor]]


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
    ) -> Lowered:
        """Lowers a captured program.

        Args:
            program: it is rewritten in place, and its weights may be released.
            constant_methods: values that a runtime reads by method name.
            named_data: additional blobs for the file.
            with_etrecord: keep the graphs that ExecuTorch's Inspector needs.

        Raises:
            DelegateError: something must be installed, or it does not take the program.
        """
        ...

    def load(self, path: Path) -> Step | None: ...


@dataclass(frozen=True)
class Taken:
    """A program of which a delegate has taken what it supports.

    Attributes:
        edge: the program; the delegate's first pass has rewritten the rest.
        reasons: why nodes were left, by their names, if the delegate reports it.
    """

    edge: "EdgeProgramManager"
    reasons: Mapping[str, str] = field(default_factory=dict)


def _leaves_as_is(program: ExportedProgram) -> None:
    pass


@dataclass(frozen=True)
class ModulePart:
    """How a delegate takes what it supports of any module.

    Attributes:
        backend: ExecuTorch's name of it.
        partitioner: ExecuTorch's, which chooses the nodes.
        reasons: why it left nodes, by their names; filled while it chooses.
        claim: changes the captured program in place first, so that what the delegate takes stays
            whole.
        rewrite: changes the captured program in place, after what ExecuTorch's kernels compute
            wrongly.
        transforms: passes over the edge program.
        layout: of the file, if it needs its own.
    """

    backend: str
    partitioner: Any
    reasons: Mapping[str, str] = field(default_factory=dict)
    claim: Callable[[ExportedProgram], None] = _leaves_as_is
    rewrite: Callable[[ExportedProgram], None] = _leaves_as_is
    transforms: Sequence[Any] = ()
    layout: "ExecutorchBackendConfig | None" = None


@dataclass(frozen=True)
class Unfused:
    """An op that was not fused although others of its kind are.

    Attributes:
        module_path: such as model.layers.0.mlp.
        operator: its name there.
        line: of the model, such as exporter/models/norm.py:19.
        reason: why it was not fused.
    """

    module_path: str
    operator: str
    line: str
    reason: str
