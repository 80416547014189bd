"""Lowering without a second copy of the weights."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import ExportedProgram


@contextmanager
def weights_not_copied(backend: type) -> Iterator[None]:
    """Gives each partition to the backend with its own graph and the weights themselves.

    ExecuTorch's default copies all weights of all partitions at once; a backend whose
    preprocessing only reads them needs none.
    """

    def copy_graph(cls: type, program: ExportedProgram, specs: object) -> ExportedProgram:
        tensors = [*program.state_dict.values(), *program.constants.values()]
        return copy.deepcopy(program, {id(tensor): tensor for tensor in tensors})

    name = "copy_exported_program_for_preprocess"
    setattr(backend, name, classmethod(copy_graph))
    try:
        yield
    finally:
        delattr(backend, name)
