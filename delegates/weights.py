"""Lowering without a second copy of the weights."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sympy import Symbol
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges


@contextmanager
def weights_not_copied(
    backend: type, ranges: Mapping[Symbol, ValueRanges] | None = None
) -> Iterator[None]:
    """Gives each partition to the backend with its own graph and the weights themselves.

    ExecuTorch's default copies all weights of all partitions at once; a backend whose
    preprocessing only reads them needs none.

    Args:
        ranges: of dynamic sizes as captured; ExecuTorch's own say 2 where a size may be 1.
    """

    def copy_graph(cls: type, program: ExportedProgram, specs: object) -> ExportedProgram:
        tensors = [*program.state_dict.values(), *program.constants.values()]
        copied = copy.deepcopy(program, {id(tensor): tensor for tensor in tensors})
        for symbol in copied.range_constraints.keys() & (ranges or {}).keys():
            copied.range_constraints[symbol] = (ranges or {})[symbol]
        return copied

    name = "copy_exported_program_for_preprocess"
    setattr(backend, name, classmethod(copy_graph))
    try:
        yield
    finally:
        delattr(backend, name)
