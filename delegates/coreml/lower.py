"""From the captured program to a Core ML `.pte`: the complete decoder is one delegate call."""

import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from delegates.contract import Taken
from delegates.coreml.guards import check_float16
from delegates.coreml.rewrite import bound_clamps, rewrite_norms
from delegates.errors import DelegateError
from delegates.limits_of.coreml import LIMITS
from delegates.passes.attention import gather_rope, positions_of, rewrite_attention
from delegates.passes.convolutions import expand_convolutions
from delegates.passes.experts import expand_experts
from delegates.passes.graph import complete_values, drop_checks
from delegates.passes.quantized import (
    EmbeddingArguments,
    expand_embeddings,
    expand_linears,
    from_table,
    gathered,
)
from delegates.passes.weights import weights_not_copied
from delegates.report import check_whole, delegation_report, operator_name
from delegates.source_lines import source_line
from delegates.to_executorch import Lowered, finish

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager


# What coremltools raises for something that it cannot convert.
_REFUSALS = (NotImplementedError, ValueError, RuntimeError, AssertionError, KeyError, TypeError)


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to one Core ML model for iOS 18 and macOS 15.

    It computes in float16; 4- and 8-bit weights stay integers with Core ML's own scales per block;
    the cache is the model's state; a call may have any length in the program's range.

    Raises:
        DelegateError: a weight is beyond float16, or Core ML does not take the complete program.
    """
    LIMITS.check_program(program)
    edge = take(program, constant_methods, with_etrecord).edge
    check_whole("Core ML", edge.exported_program())
    report = delegation_report("coreml", edge.exported_program().graph_module)
    return finish(edge, report, named_data, with_etrecord)


def take(
    program: ExportedProgram, constant_methods: Mapping[str, object], with_etrecord: bool
) -> Taken:
    """Takes what Core ML supports of the captured program, which is rewritten in place. Parts
    before or after the decoder may be left; the decoder's caches are in one call.

    Raises:
        DelegateError: a weight is beyond float16, or Core ML's converter does not support a piece
            of the program.
    """
    check_float16(program)
    drop_checks(program)
    expand_experts(program)
    expand_convolutions(program)
    bound_clamps(program)
    expand_linears(program, round_activations=False)
    expand_embeddings(program, _embedding)
    rewrite_norms(program)
    positions = positions_of(program)
    gather_rope(program, positions)
    rewrite_attention(program, positions)
    if with_etrecord:
        complete_values(program)

    with temporary_files_deleted(), progress_bars_off():
        return Taken(_to_core_ml(program, constant_methods, with_etrecord))


def _embedding(program: ExportedProgram, node: Node, given: EmbeddingArguments) -> Node:
    """Rewrites an embedding: Core ML can gather bytes, and a tied head shares them."""
    return (from_table if given.bits == 4 else gathered)(program, node, given)


def _to_core_ml(
    program: ExportedProgram, constant_methods: Mapping[str, object], with_etrecord: bool
) -> "EdgeProgramManager":
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    config = EdgeCompileConfig(
        preserve_ops=[torch.ops.aten.linear.default],
        _check_ir_validity=False,  # the verifier does not know torchao's operators
        _skip_dim_order=True,
    )
    partitioner = CoreMLPartitioner(compile_specs=compile_specs())
    left = _noting_left(partitioner)
    with weights_not_copied(CoreMLBackend, program.range_constraints):
        try:
            return to_edge_transform_and_lower(
                program,
                partitioner=[partitioner],
                constant_methods=dict(constant_methods),
                compile_config=config,
                generate_etrecord=with_etrecord,
            )
        except _REFUSALS as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if "SymInt" in reason:
                reason = "pieces of a Core ML program cannot pass each other the position"
            what = f"the parts around {', '.join(left)}" if left else "the program"
            raise DelegateError(
                f"Core ML's converter refused {what}: {reason}; export with another --quant, "
                "--max-seq-len or --delegate."
            ) from error


def compile_specs() -> Any:
    """What Core ML compiles for."""
    import coremltools
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    return CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=coremltools.target.iOS18,  # state, and scales per block
        compute_precision=coremltools.precision.FLOAT16,
    )


def _noting_left(partitioner: Any) -> list[str]:
    """Returns a list that the partitioner fills with what it leaves, with lines."""
    left: list[str] = []
    partition = partitioner.partition

    def noting(program: ExportedProgram) -> Any:
        result = partition(program)
        for node in result.tagged_exported_program.graph.nodes:
            if node.op == "call_function" and "delegation_tag" not in node.meta:
                left.append(f"{operator_name(node)} ({source_line(node)})")
        return result

    partitioner.partition = noting
    return left


@contextmanager
def temporary_files_deleted() -> Iterator[None]:
    """Deletes the conversion's temporary files, also when it fails."""
    kept = tempfile.tempdir
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        try:
            yield
        finally:
            tempfile.tempdir = kept


@contextmanager
def progress_bars_off() -> Iterator[None]:
    """Keeps coremltools from drawing its bars on standard error."""
    places = (
        ("coremltools.converters.mil.frontend.torch.ops", "_tqdm"),
        ("coremltools.converters.mil.mil.passes.pass_pipeline", "tqdm"),
    )
    kept: list[tuple[Any, str, Any]] = []
    for module_name, name in places:
        module = importlib.import_module(module_name)
        kept.append((module, name, getattr(module, name)))
        setattr(module, name, partial(getattr(module, name), disable=True))
    try:
        yield
    finally:
        for module, name, bar in kept:
            setattr(module, name, bar)


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Returns None: Core ML runs only on Apple's systems."""
    return None
