"""Captures a user's module, or says which of its lines cannot be captured."""

from typing import Any

import torch
from torch.export import ExportedProgram, export
from torch.export.graph_signature import ConstantArgument, OutputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.numbers import int_oo

from delegates.passes.graph import arguments
from delegates.report import operator_name
from delegates.source_lines import source_line
from exporter.capture.attention import attention_opened
from exporter.capture.program import end_traces_at_the_model
from exporter.capture.refusals import REFUSALS, refused
from exporter.errors import ExportError
from exporter.module.places import end_traces_at_places
from exporter.module.source import Made, failure, user_line
from exporter.module.state import state_kept
from exporter.module.varied import varied


def capture_module(made: Made) -> ExportedProgram:
    """Captures `forward`, without changes in place: those of buffers are outputs, those of inputs
    stay within a call.

    Raises:
        ExportError: a line cannot be captured; the sentence names it and what to do.
    """
    inputs, kwargs = made.inputs, dict(made.inputs.kwargs)
    shapes: Any = made.dynamic_shapes
    try:
        inputs = varied(made)
        kwargs = dict(inputs.kwargs)
        with state_kept(made.module), attention_opened(made.module) as module:
            program = export(module, inputs.args, kwargs or None, dynamic_shapes=shapes)
        end_traces_at_the_model(program)
        end_traces_at_places(program, made.places)
        return keep_inputs(program.run_decompositions({}))
    except ExportError:
        raise
    except REFUSALS as error:
        line = user_line(error)
        raise refused(made.module, inputs.args, shapes, error, kwargs, line) from error
    except Exception as error:
        raise failure(
            "The module cannot be captured: torch.export refuses what it does", error
        ) from error


def keep_inputs(program: ExportedProgram) -> ExportedProgram:
    """Takes changed inputs out of a program's outputs: ExecuTorch would return them before the
    module's own, and leave the caller's tensors as they were."""
    signature, output = program.graph_signature, program.graph.output_node()
    kept = [
        (spec, value)
        for spec, value in zip(signature.output_specs, output.args[0], strict=True)  # type: ignore[arg-type]
        if spec.kind is not OutputKind.USER_INPUT_MUTATION
    ]
    signature.output_specs = [spec for spec, _ in kept]
    output.args = (tuple(value for _, value in kept),)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


@torch.no_grad()
def run_eagerly(made: Made) -> None:
    """Runs the module on its example and its calibration inputs, and leaves its state as it was.

    Raises:
        ExportError: the module fails on one; the sentence has the line.
    """
    calibration = {f"calibration[{index}]": one for index, one in enumerate(made.calibration)}
    for title, inputs in {"its own example inputs": made.inputs, **calibration}.items():
        with state_kept(made.module):
            try:
                inputs.call(made.module)
            except (Exception, SystemExit) as error:
                raise failure(f"The module fails on {title}", error) from error


def check_nothing_is_random(program: ExportedProgram) -> None:
    """
    Raises:
        ExportError: an operator draws numbers.
    """
    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and _draws(node):
            raise ExportError(
                f"{source_line(node)} draws random numbers ({operator_name(node)}). No file draws "
                "those of PyTorch, so take them as an input, or leave that line out."
            )


def check_sizes_are_bounded(program: ExportedProgram, dynamic_shapes: Any) -> None:
    """
    Args:
        dynamic_shapes: of the module.

    Raises:
        ExportError: nothing says how large a size can become, which an input has or which depends
            on numbers.
    """
    ranges = program.range_constraints
    named = [size for size in tree_leaves(dynamic_shapes) if hasattr(size, "__name__")]
    endless = [size.__name__ for size in named if getattr(size, "max", 0) == int_oo]
    for node in program.graph.find_nodes(op="placeholder"):
        for index, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            free = () if isinstance(size, int) else size.node.expr.free_symbols
            if any(symbol in ranges and ranges[symbol].upper == int_oo for symbol in free):
                name = (*endless, node.name)[0]
                raise ExportError(
                    f"Size {index} of the input {node.name} has no largest value, but memory is "
                    f"planned before: give one, for example Dim({name!r}, max=64)."
                )
    for node in program.graph.nodes:
        free = free_unbacked_symbols(node.meta.get("val"))
        if any(symbol in ranges and ranges[symbol].upper == int_oo for symbol in free):
            raise ExportError(
                f"{source_line(node)} makes a tensor whose size depends on numbers "
                f"({operator_name(node)}), but memory is planned before: state the largest size "
                "there, for example with torch._check(y.shape[0] <= 100)."
            )


def _draws(node: Node) -> bool:
    """Whether an operator that can drop numbers at random does so."""
    given = arguments(node)
    deciding = [given[name] for name in ("dropout_p", "train", "training") if name in given]
    return not deciding or bool(deciding[0])


def check_outputs_are_tensors(program: ExportedProgram) -> None:
    """
    Raises:
        ExportError: the module returns something else.
    """
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, ConstantArgument):
            raise ExportError(
                f"The module returns {spec.arg.value!r}, but a program returns only tensors; "
                "leave it out, or make it a tensor."
            )
