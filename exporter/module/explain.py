"""Explains what an export does with each line of a module, without writing a file."""

from typing import Any

from delegates import get_delegates
from delegates.module import check_takes_modules, lower_module
from exporter.capture.decompositions import decompositions, operators_by_line
from exporter.capture.shapes import explain_shapes, noting_conditions
from exporter.explain import Explanation
from exporter.listener import Listener
from exporter.module.capture import capture_module, check_outputs_are_tensors, run_eagerly
from exporter.module.options import ModuleOptions
from exporter.module.signature import Signature, signature_of
from exporter.module.source import make_module


def explain_module(options: ModuleOptions, listener: Listener) -> tuple[Signature, Explanation]:
    """Captures and lowers a module, in float, as an export does.

    Raises:
        ExportError, DelegateError: with the sentence to show.
    """
    delegates = get_delegates(options.delegate)
    check_takes_modules(delegates)
    listener.stage("capture")
    made = make_module(options.source)
    run_eagerly(made)
    with noting_conditions() as lines:
        program = capture_module(made)
    check_outputs_are_tensors(program)
    signature, shapes = signature_of(program, made), explain_shapes(program, lines)
    captured = operators_by_line(program.graph)
    listener.stage("lower")
    lowered = lower_module(delegates, program, {}, with_etrecord=True)
    record: Any = lowered.etrecord
    changes = decompositions(captured, operators_by_line(record.edge_dialect_program.graph))
    return signature, Explanation(
        scheme="none",
        rotation="none",
        shapes=shapes,
        decompositions=changes,
        delegation=lowered.report,
        cache_type="",
        caches=(),
        states=(),
        unfused=None,
    )
