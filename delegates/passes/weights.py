"""Lowering without a second copy of the weights."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sympy import Symbol
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges


def copy_graph(program: ExportedProgram) -> ExportedProgram:
    """A program with its own graph and the same weights.

    fx gives a node that is named as something of Python's another name in a copy, such as `input_1`
    for `input`, though the signature keeps the old one: here it keeps its name.
    """
    tensors = [*program.state_dict.values(), *program.constants.values()]
    copied = copy.deepcopy(program, {id(tensor): tensor for tensor in tensors})
    for own, node in zip(copied.graph.nodes, program.graph.nodes, strict=True):
        own.name = node.name
    return copied


def own_memory(program: ExportedProgram) -> None:
    """Copies each weight that is a part of a larger tensor."""
    for tensors in program.state_dict, program.constants:
        for name, tensor in tensors.items():
            is_plain = type(tensor) in (Tensor, nn.Parameter)
            if is_plain and tensor.untyped_storage().nbytes() != tensor.nbytes:
                own = tensor.detach().clone()
                is_parameter = isinstance(tensor, nn.Parameter)
                tensors[name] = nn.Parameter(own, False) if is_parameter else own


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

    def copy_partition(cls: type, program: ExportedProgram, specs: object) -> ExportedProgram:
        copied = copy_graph(program)
        for symbol in copied.range_constraints.keys() & (ranges or {}).keys():
            copied.range_constraints[symbol] = (ranges or {})[symbol]
        return copied

    name = "copy_exported_program_for_preprocess"
    setattr(backend, name, classmethod(copy_partition))
    try:
        yield
    finally:
        delattr(backend, name)
