"""From the captured program to an XNNPACK `.pte`, and back into a stock runtime."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.export import ExportedProgram

from delegates.contract import Taken
from delegates.errors import DelegateError
from delegates.executorch_runtime import open_program, register_kernels
from delegates.limits_of.xnnpack import LIMITS
from delegates.methods import FORWARD, current_method, join, lowering, only_program
from delegates.module import LoweredMethod
from delegates.needs import needs_of_program
from delegates.passes.attention import refuse_caps_and_sinks
from delegates.passes.convolutions import expand_convolutions
from delegates.passes.experts import expand_experts
from delegates.passes.graph import complete_values
from delegates.passes.in_place import passes_in_place
from delegates.passes.quantized import expand_linears
from delegates.passes.stock_operators import (
    restore_mutations,
    rewrite_attention,
    rewrite_embeddings,
)
from delegates.passes.weights import weights_not_copied
from delegates.report import DelegationReport, delegation_report
from delegates.to_executorch import Lowered, finish
from delegates.xnnpack.gelu import rewrite_gelu
from delegates.xnnpack.guards import check_quantized_linears
from delegates.xnnpack.reasons import noted_reasons
from delegates.xnnpack.source_map import add_source_map

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program; every linear is inside a delegate call.

    Raises:
        DelegateError: XNNPACK would compute a weight wrongly, or did not take a linear.
    """
    programs = {FORWARD: program}
    return lower_methods(programs, constant_methods, named_data, with_etrecord)


def lower_methods(
    programs: Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    modules: Mapping[str, LoweredMethod] = MappingProxyType({}),
) -> Lowered:
    """Lowers captured programs to the methods of one, as lower() does.

    Weights of the same bytes are stored once; each method has its own caches. Weights of several
    methods are not released.

    Args:
        modules: further methods, which are lowered already.
    """
    edges: dict[str, EdgeProgramManager] = {}
    reports = {}
    for method, program in programs.items():
        with lowering(method):
            taken = take(program, {} if edges else constant_methods, with_etrecord)
        lowered = taken.edge.exported_program(method)
        edges[method] = taken.edge
        reports[method] = delegation_report("xnnpack", lowered.graph_module, taken.reasons)
        _check_linears(reports[method])
        if with_etrecord:
            add_source_map(lowered.graph_module)
        elif len(programs) == 1:
            _release_weights(program, lowered)
        restore_mutations(lowered)
    for method, module in modules.items():
        edges[method], reports[method] = module.edge, module.report
    return finish(join(edges), reports, named_data, with_etrecord)


def _check_linears(report: DelegationReport) -> None:
    """Raises DelegateError if a linear was left."""
    if report.linears_delegated < report.linears:
        raise DelegateError(
            f"XNNPACK took {report.linears_delegated} of {report.linears} linear layers; it must "
            "take all: use a scheme it accepts (--quant none, rtn4, gptq4 or rtn8)."
        )


def take(
    program: ExportedProgram, constant_methods: Mapping[str, object], with_etrecord: bool
) -> Taken:
    """Takes what XNNPACK supports of the captured program, which is rewritten in place.

    Raises:
        DelegateError: XNNPACK would compute a weight wrongly, or has no such widths of weights, or
            attention has a soft cap or sinks.
    """
    from executorch.exir import EdgeCompileConfig, to_edge

    LIMITS.check_widths(program)
    LIMITS.check(needs_of_program(program))
    refuse_caps_and_sinks("XNNPACK", program)
    rewrite_attention(program)
    rewrite_embeddings(program)
    expand_experts(program)
    expand_convolutions(program)
    expand_linears(program)
    rewrite_gelu(program)
    if with_etrecord:
        complete_values(program)
    with passes_in_place():
        edge = to_edge(
            {current_method(): program},
            constant_methods=dict(constant_methods),
            compile_config=EdgeCompileConfig(
                preserve_ops=[torch.ops.aten.linear.default],
                _check_ir_validity=False,  # the verifier knows neither llama:: nor torchao's
                _skip_dim_order=True,
            ),
            generate_etrecord=with_etrecord,
        )
    return take_rest(edge)


def take_rest(edge: "EdgeProgramManager") -> Taken:
    """Takes what XNNPACK supports of the rest of an edge program.

    Raises:
        DelegateError: as take().
    """
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec

    check_quantized_linears(only_program(edge))
    partitioner = XnnpackPartitioner()
    # With this spec the backend runs the one clean-up pass that a decoder needs, not all
    # seventeen, each of which traces every partition again.
    partitioner.delegation_spec = DelegationSpec(
        XnnpackBackend.__name__, [CompileSpec("dqlinear_partitioner", b"")]
    )
    with weights_not_copied(XnnpackBackend), noted_reasons() as reasons:
        edge = edge.to_backend(partitioner)
    return Taken(edge, {name: f"xnnpack: {reason}" for name, reason in reasons.items()})


def _release_weights(captured: ExportedProgram, edge: ExportedProgram) -> None:
    """Frees the weights that are now packed in the delegate's blobs, before writing copies the
    blobs.

    Later passes trace the partitions again, by shape; a single zero replaces each weight.
    """
    captured.state_dict.clear()
    for _, module in edge.graph_module.named_children():
        if hasattr(module, "original_module"):
            weights = module.original_module.state_dict
            for name, weight in weights.items():
                zeros = torch.zeros((), dtype=weight.dtype).expand(weight.shape)
                is_parameter = isinstance(weight, torch.nn.Parameter)
                weights[name] = torch.nn.Parameter(zeros, False) if is_parameter else zeros
    kept = {spec.target for spec in edge.graph_signature.input_specs}
    for name in [name for name in edge.state_dict if name not in kept]:
        del edge.state_dict[name]


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor]:
    """Opens a `.pte` in ExecuTorch's stock Python runtime."""
    register_kernels()
    return open_program(path)
