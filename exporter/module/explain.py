"""Explains what an export does with each line of a module, without writing a file."""

from delegates import get_delegates
from delegates.methods import recorded_program
from delegates.module import check_takes_modules, lower_module
from delegates.passes.composites import composites_listed_once
from exporter.capture.decompositions import decompositions, operators_by_line
from exporter.capture.shapes import explain_shapes, noting_conditions
from exporter.explain import Explanation
from exporter.listener import Listener
from exporter.module.method import Method, capture_method, naming
from exporter.module.options import ModuleOptions
from exporter.module.signature import Signature
from exporter.module.source import make_methods


@composites_listed_once()
def explain_module(
    options: ModuleOptions, listener: Listener
) -> dict[str, tuple[Signature, Explanation]]:
    """Captures and lowers modules, in float, as an export does; returns what is known of each
    method, by name.

    Raises:
        ExportError, DelegateError: with the sentence to show.
    """
    delegates = get_delegates(options.delegate)
    check_takes_modules(delegates)
    made = make_methods(options.source)
    listener.stage("capture")
    methods: dict[str, Method] = {}
    shapes = {}
    for name, one in made.items():
        with naming(name, made), noting_conditions() as lines:
            methods[name] = capture_method(name, one)
        shapes[name] = explain_shapes(methods[name].program, lines)
    programs = {name: method.program for name, method in methods.items()}
    captured = {name: operators_by_line(program.graph) for name, program in programs.items()}
    listener.stage("lower")
    lowered = lower_module(delegates, programs, {}, with_etrecord=True)
    explained = {}
    for name, method in methods.items():
        graph = recorded_program(lowered.etrecord, name).graph
        explanation = Explanation(
            scheme="none",
            rotation="none",
            shapes=shapes[name],
            decompositions=decompositions(captured[name], operators_by_line(graph)),
            delegation=lowered.reports[name],
            cache_type="",
            caches=(),
            states=(),
            unfused=None,
        )
        explained[name] = (method.signature, explanation)
    return explained
