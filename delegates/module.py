"""Lowers any captured modules: each delegate takes what it supports, in order of preference, and
ExecuTorch's kernels compute the rest.

A delegate that takes modules has `module_part(program)`, of which contract.py tells.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.contract import Delegate, ModulePart
from delegates.errors import DelegateError
from delegates.executorch_runtime import open_module
from delegates.methods import join, lowering
from delegates.passes.exact import compute_exactly
from delegates.passes.graph import drop_checks
from delegates.passes.in_place import passes_in_place
from delegates.passes.max_pools import keep_nans
from delegates.passes.positions import positions_by_rows
from delegates.passes.shorter import shorter_inputs
from delegates.passes.weights import copy_graph
from delegates.report import (
    DelegateShare,
    DelegationReport,
    delegation_report,
    is_delegate_call,
    operator_name,
    operators_inside,
    own_operator,
    share_of,
)
from delegates.shared_buffers import share_buffers
from delegates.source_lines import UNKNOWN, line_of_trace, source_line
from delegates.to_executorch import Lowered, finish

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig

_aten = torch.ops.aten
_CHECKED = (  # operators that fail on a singular matrix
    *(_aten.linalg_inv.default, _aten.inverse.default, _aten.linalg_cholesky.default),
    _aten.linalg_solve.default,
)


class LoweredMethod(NamedTuple):
    """A method that is lowered, but in no file yet.

    Attributes:
        layout: of the file, that a delegate needs.
        shorter: inputs whose only sample may have fewer rows.
    """

    edge: "EdgeProgramManager"
    report: DelegationReport
    layout: "ExecutorchBackendConfig | None"
    shorter: Sequence[str]


def check_takes_modules(delegates: Mapping[str, Delegate]) -> None:
    """
    Raises:
        DelegateError: a delegate takes only language models, or something is not installed.
    """
    for name, delegate in delegates.items():
        if not hasattr(delegate, "module_part"):
            raise DelegateError(
                f"{name} takes language models only; use --delegate xnnpack for a module."
            )
        delegate.LIMITS.check_installed()


def takes_static_convolutions(delegates: Mapping[str, Delegate]) -> bool:
    """Whether one of the delegates computes convolutions that PT2E has written in int8."""
    return any(not hasattr(delegate, "DYNAMIC_CONVOLUTIONS") for delegate in delegates.values())


def lower_module(
    delegates: Mapping[str, Delegate],
    programs: Mapping[str, ExportedProgram],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
    copies_inputs: bool = True,
) -> Lowered:
    """Lowers captured modules, each to a method of one program. Weights of the same numbers are
    stored once.

    Args:
        delegates: by name, in order of preference.
        programs: the captured modules by their methods' names; they are not changed.
        named_data: additional blobs for the file.
        with_etrecord: keep the graphs that ExecuTorch's Inspector needs.
        copies_inputs: into memory of the program's own; else calls read them where they are, and
            they must stay there.

    Raises:
        DelegateError: an operator is left that no kernel computes; the sentence has its line.
    """
    check_takes_modules(delegates)
    edges, reports, shorter, layout = {}, {}, {}, None
    for method, program in share_buffers(programs).items():
        with lowering(method):
            lowered = lower_method(delegates, method, program, with_etrecord)
        edges[method], reports[method] = lowered.edge, lowered.report
        shorter[method] = lowered.shorter
        layout = layout or lowered.layout
    edge = join(edges)
    config = with_shorter(_file_config(edge, layout, copies_inputs), shorter)
    try:
        with positions_by_rows():
            return finish(edge, reports, named_data, with_etrecord, config)
    except DelegateError:
        raise
    except Exception as error:  # of its passes, whatever went wrong
        raise _refusal(",".join(delegates), error) from error


def lower_method(
    delegates: Mapping[str, Any], method: str, program: ExportedProgram, with_etrecord: bool
) -> LoweredMethod:
    """Lowers one captured module; returns also the file's layout that a delegate needs.

    Raises:
        DelegateError: as lower_module() does.
    """
    edge, parts = _taken(delegates, method, program, with_etrecord)
    lowered = edge.exported_program(method)
    graph_module = lowered.graph_module
    reasons: dict[str, list[str]] = {}
    for name, part in parts.items():
        for node, reason in part.reasons.items():
            reasons.setdefault(node, []).append(f"{name}: {reason}")
    report = delegation_report(
        ",".join(parts), graph_module, {node: "; ".join(texts) for node, texts in reasons.items()}
    )
    if len(parts) > 1:
        report = _with_shares(report, graph_module, parts)
    _check_convolutions(lowered)
    for delegate in delegates.values():
        if with_etrecord and hasattr(delegate, "add_source_map"):
            delegate.add_source_map(graph_module)
    _restore_ranges(lowered, program.range_constraints)
    layouts = [part.layout for part in parts.values() if part.layout is not None]
    return LoweredMethod(edge, report, next(iter(layouts), None), shorter_inputs(program))


def load_module(delegates: Mapping[str, Delegate], users: Iterable[str], path: Path) -> Any:
    """Opens a finished file in a stock runtime (contract.ModuleRun); None if this machine cannot
    run one of the delegates that it uses.

    Raises:
        DelegateError: the runtime refuses it.
    """
    names = list(users)
    if not names:
        return None
    for name in names:  # each registers its backend, and a file opens with those of all
        delegate: Any = delegates[name]
        if not hasattr(delegate, "runs_modules") or not delegate.runs_modules():
            return None
    try:
        return open_module(path)
    except RuntimeError as error:
        raise DelegateError(
            f"ExecuTorch cannot load the program for {','.join(names)} "
            f"({str(error).rstrip('.')}); nothing was written: use another --delegate, or another "
            "--quant."
        ) from error


def _taken(
    delegates: Mapping[str, Any], method: str, program: ExportedProgram, with_etrecord: bool
) -> "tuple[EdgeProgramManager, dict[str, ModulePart]]":
    """Lets the delegates take what they support. What one claims, and then leaves, no kernel
    computes: the module is then lowered as it is.

    Raises:
        DelegateError: an operator of ours is left all the same.
    """
    left: Node | None = None
    for claiming in (True, False):
        with ExitStack() as stack:
            parts: dict[str, ModulePart] = {
                name: stack.enter_context(delegate.module_part(program))
                for name, delegate in delegates.items()
            }
            try:
                edge = _partitioned(method, program, parts, with_etrecord, claiming)
            except DelegateError:
                raise
            except Exception as error:  # of its passes, whatever went wrong
                raise _refusal(",".join(parts), error) from error
        left = own_operator(edge.exported_program(method).graph)
        if left is None:
            return edge, parts
    assert left is not None
    why = [
        f"; {name}: {part.reasons[left.name]}"
        for name, part in parts.items()
        if left.name in part.reasons
    ]
    raise DelegateError(
        f"No delegate of {','.join(delegates)} takes the {operator_name(left).rpartition(':')[2]} "
        f"with integers at {source_line(left)}, and ExecuTorch has no kernel for it{''.join(why)}: "
        "use another --delegate, or --quant none."
    )


def _partitioned(
    method: str,
    program: ExportedProgram,
    parts: Mapping[str, ModulePart],
    with_etrecord: bool,
    claiming: bool,
) -> "EdgeProgramManager":
    """
    Args:
        claiming: whether delegates first write in operators of ours what they take.
    """
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    claimed = copy_graph(program)
    for part in parts.values() if claiming else ():
        part.claim(claimed)
    exact = compute_exactly(claimed)
    keep_nans(exact)
    for part in parts.values():
        part.rewrite(exact)
    drop_checks(exact)
    _check_matrices(exact)
    transforms = [one for part in parts.values() for one in part.transforms]
    with passes_in_place():
        return to_edge_transform_and_lower(
            {method: exact},
            transform_passes=transforms or None,
            partitioner=[part.partitioner for part in parts.values()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
            generate_etrecord=with_etrecord,
        )


def _refusal(names: str, error: Exception) -> DelegateError:
    """Returns the sentence for an error of ExecuTorch's, with the module's line if it has one."""
    line = line_of_trace(str(error))
    reason = str(error.__cause__ or error).strip().partition("\n")[0].rstrip(".")
    where = "" if line == UNKNOWN else f" ({line})"
    return DelegateError(
        f"ExecuTorch cannot lower the module for {names}{where}: {reason}; write that line in "
        "another way, or use another --delegate."
    )


def _with_shares(
    report: DelegationReport, graph_module: torch.fx.GraphModule, parts: Mapping[str, ModulePart]
) -> DelegationReport:
    """Says what each of several delegates took, by the backends of the calls."""
    calls = [node for node in graph_module.graph.nodes if is_delegate_call(node)]
    shares = []
    for name, part in parts.items():
        own = [
            operators_inside(node, graph_module)
            for node in calls
            if getattr(graph_module, str(node.args[0].target)).backend_id == part.backend
        ]
        nothing = DelegateShare(name, refused="It supports nothing that was left for it.")
        shares.append(share_of(name, own) if own else nothing)
    return replace(report, parts=tuple(shares))


def _check_convolutions(program: ExportedProgram) -> None:
    """
    Raises:
        DelegateError: a convolution over three dimensions is left, which ExecuTorch's kernel
            refuses when the program runs.
    """
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_op"):
            continue
        if operator_name(node) == "convolution" and node.args[0].meta["val"].dim() > 4:
            raise DelegateError(
                f"No delegate takes the convolution over three dimensions ({source_line(node)}), "
                "and ExecuTorch has no kernel for it; write it as convolutions over two."
            )


def _check_matrices(program: ExportedProgram) -> None:
    """
    Raises:
        DelegateError: a matrix is inverted, factored or solved. On the way to the edge dialect its
            check becomes an effect, which ExecuTorch's passes do not know.
    """
    for node in program.graph.nodes:
        if node.target in _CHECKED:
            raise DelegateError(
                f"No delegate takes {operator_name(node)} ({source_line(node)}), and ExecuTorch "
                "has no kernel for it; compute it outside, and take it as an input."
            )


def _restore_ranges(program: ExportedProgram, ranges: Mapping[Any, Any]) -> None:
    """Gives sizes the ranges that they were captured with. Passes trace the program again; where
    they ask whether a size is its largest, the trace takes the answer for a bound, and memory would
    be planned for one less."""
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        if mode is None or mode.shape_env is None:
            continue
        for symbol in mode.shape_env.var_to_range.keys() & ranges.keys():
            mode.shape_env.var_to_range[symbol] = ranges[symbol]


def with_shorter(
    layout: "ExecutorchBackendConfig | None", names: Mapping[str, Sequence[str]]
) -> "ExecutorchBackendConfig | None":
    """Returns the layout with which inputs that may be shorter can be.

    Args:
        names: of these inputs, by method.
    """
    from executorch.exir import ExecutorchBackendConfig

    from delegates.passes.bounded_shapes import BoundedShapes

    passes = {method: BoundedShapes(some) for method, some in names.items() if some}
    if not passes:
        return layout
    return replace(layout or ExecutorchBackendConfig(), sym_shape_eval_pass=passes)


def _file_config(
    edge: "EdgeProgramManager", layout: "ExecutorchBackendConfig | None", copies_inputs: bool
) -> "ExecutorchBackendConfig | None":
    """Returns the layout with which the first value of each buffer that a call changes is stored:
    ExecuTorch would begin with zeros. Several methods share such a buffer.

    Args:
        layout: that a delegate needs.
    """
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    names: set[str] = set()
    for method in edge.methods:
        signature = edge.exported_program(method).graph_signature
        changed = set(signature.buffers_to_mutate.values())
        names |= {name for name, one in signature.inputs_to_buffers.items() if one in changed}
    if not names and copies_inputs:
        return layout
    planning = MemoryPlanningPass(
        alloc_graph_input=copies_inputs,
        share_mutable_buffers=bool(names) and len(edge.methods) > 1,
    )
    return replace(
        layout or ExecutorchBackendConfig(),
        passes=[InitializedMutableBufferPass(sorted(names))] if names else [],
        memory_planning_pass=planning,
    )
