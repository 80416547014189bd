"""What TOSA takes of any module: of fixed shapes, in float."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram

from delegates.contract import ModulePart
from delegates.errors import DelegateError
from delegates.passes.weights import weights_not_copied
from delegates.tosa.lower import SPECIFICATION


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how TOSA takes what it supports.

    Raises:
        DelegateError: a size varies.
    """
    if program.range_constraints:
        raise DelegateError(
            "A tosa program has fixed shapes, but a size of this module varies: leave out "
            "dynamic_shapes, or use --delegate xnnpack."
        )
    from executorch.backends.arm.tosa.backend import TOSABackend
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    with weights_not_copied(TOSABackend):
        yield ModulePart(TOSABackend.__name__, TOSAPartitioner(TosaCompileSpec(SPECIFICATION)))
