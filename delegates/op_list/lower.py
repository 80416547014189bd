"""From the captured program to calls of a delegate that runs op lists."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch.export import ExportedProgram

from delegates.contract import Taken
from delegates.methods import current_method, only_program
from delegates.op_list.canonicalize import tidy
from delegates.op_list.layout import PAGE_BYTES
from delegates.passes.decomposed import decomposed
from delegates.passes.in_place import passes_in_place
from delegates.passes.weights import weights_not_copied

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig

KEPT = torch.ops.aten.linear.default, torch.ops.aten.silu.default


def to_edge_program(
    program: ExportedProgram, constant_methods: Mapping[str, object], with_etrecord: bool
) -> "EdgeProgramManager":
    """The edge program whose operators partition() knows."""
    from executorch.exir import EdgeCompileConfig, to_edge

    if not with_etrecord:  # which keeps the program as captured, and where its nodes come from
        program = decomposed(program, KEPT)
    with passes_in_place():
        return to_edge(
            {current_method(): program},
            constant_methods=dict(constant_methods),
            compile_config=EdgeCompileConfig(
                preserve_ops=list(KEPT),
                _check_ir_validity=False,  # the verifier knows neither torchao's operators nor ours
                _skip_dim_order=True,
            ),
            generate_etrecord=with_etrecord,
        )


def partition(edge: "EdgeProgramManager", backend: type, releasing: bool) -> Taken:
    """Partitions the program: what op lists can express goes to a backend that runs them.

    Args:
        backend: its name is the id under which a runtime registers it.
        releasing: release each weight as soon as it is packed.
    """
    from delegates.op_list.partition import OpListPartitioner
    from delegates.op_list.payload import releasing_weights

    program = only_program(edge)
    tidy(program)
    partitioner = OpListPartitioner(program.state_dict, backend.__name__)
    with weights_not_copied(backend), releasing_weights() if releasing else nullcontext():
        taken = edge.to_backend(partitioner)
    return Taken(taken, partitioner.reasons)


def file_layout() -> "ExecutorchBackendConfig":
    """Returns a layout whose first segment starts at a page: alignments count from there."""
    from executorch.exir import ExecutorchBackendConfig

    return ExecutorchBackendConfig(segment_alignment=PAGE_BYTES)
