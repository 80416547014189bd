"""What MLX takes of any module."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram

from delegates.contract import ModulePart
from delegates.mlx.schema import import_mlx
from delegates.passes.weights import weights_not_copied


@contextmanager
def module_part(program: ExportedProgram) -> Iterator[ModulePart]:
    """Provides how MLX takes what it supports."""
    import_mlx()
    from executorch.backends.mlx import MLXBackend, MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes

    with weights_not_copied(MLXBackend):
        yield ModulePart(
            MLXBackend.__name__, MLXPartitioner(), transforms=tuple(get_default_passes())
        )
