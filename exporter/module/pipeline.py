"""From a user's modules to a `.pte`: the complete export, in order."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from delegates import get_delegates
from delegates.module import (
    check_takes_modules,
    load_module,
    lower_module,
    takes_static_convolutions,
)
from delegates.passes.composites import composites_listed_once
from exporter.capture.attention import attention_opened
from exporter.file.pte import REPORT, REPORT_BYTES, encode_report, replace_blob
from exporter.file.replacing import check_outputs, replacing
from exporter.file.report import NOT_RUN, Report
from exporter.file.shared_weights import share_weights
from exporter.file.writing import seal_files, write_program
from exporter.listener import SILENT, Listener
from exporter.module.fast_path import no_fast_path
from exporter.module.method import (
    REASON_BYTES,
    Method,
    MethodResult,
    capture_method,
    check_method,
    expected_outputs,
    naming,
    samples_of,
    with_integers,
)
from exporter.module.options import ModuleOptions
from exporter.module.quantize import check_layers, quantize_made
from exporter.module.quantize_linears import KnownWeights
from exporter.module.signature_blob import SIGNATURE, signature_blob
from exporter.module.source import Made, make_methods


@dataclass(frozen=True)
class ModuleResult:
    """The written file and the facts about its methods, by their names."""

    out: Path
    size: int
    report: Report
    methods: Mapping[str, MethodResult]


def export_module(options: ModuleOptions, listener: Listener = SILENT) -> ModuleResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, QuantError, DelegateError: with the sentence to show.
    """
    source = options.source
    return export_made(options, source.path, lambda: make_methods(source), {}, listener)


@composites_listed_once()
@no_fast_path()
def export_made(
    options: ModuleOptions,
    source: Path,
    make: Callable[[], Mapping[str, Made]],
    named_data: Mapping[str, bytes],
    listener: Listener,
    copies_inputs: bool = True,
    facts: Mapping[str, Any] | None = None,
) -> ModuleResult:
    """Does what export_module() does, of modules that are made in another way.

    Args:
        source: what they are made of, which no output may replace.
        make: returns them by their methods' names.
        named_data: additional blobs for the file.
        copies_inputs: of lower_module().
        facts: for the report.
    """
    delegates = get_delegates(options.delegate)
    check_takes_modules(delegates)
    check_outputs(options.out, options.etrecord, [source])
    with replacing(options.out) as temporary, replacing(options.etrecord) as etrecord:
        made = make()
        listener.stage("capture")
        methods = _captured(made)
        tried = {name: samples_of(method) for name, method in methods.items()}
        if options.quant != "none":
            listener.stage("quantize")
            is_static = takes_static_convolutions(delegates)
            methods = _quantized(methods, options, is_static, listener)
        expected = {}
        for name, method in methods.items():
            with naming(name, methods):
                expected[name] = expected_outputs(method, tried[name])
        listener.stage("lower")
        report = {**_describe(options, methods), **(facts or {})}
        room = REPORT_BYTES * len(methods)
        blobs = {
            **named_data,
            SIGNATURE: _reserved(methods),
            REPORT: encode_report(report, room),
        }
        programs = {name: method.program for name, method in methods.items()}
        lowered = lower_module(delegates, programs, blobs, etrecord is not None, copies_inputs)
        delegations = lowered.reports
        listener.stage("write")
        write_program(lowered, temporary, etrecord)
        share_weights(temporary)
        del lowered, programs
        listener.stage("check")
        users = dict.fromkeys(user for one in delegations.values() for user in one.users)
        open_file = partial(load_module, delegates, users, temporary)
        results = {}
        for name, method in methods.items():
            with naming(name, methods):
                results[name] = check_method(
                    method, tried[name], expected[name], delegations[name], open_file
                )
        signatures = [result.signature for result in results.values()]
        replace_blob(temporary, SIGNATURE, signature_blob(signatures))
        for name, result in results.items():
            _add_results(_of_method(report, name), result)
        seal_files(report, temporary, etrecord)
    return ModuleResult(options.out, options.out.stat().st_size, report, results)


def _captured(made: Mapping[str, Made]) -> dict[str, Method]:
    methods = {}
    for name, one in made.items():
        with naming(name, made):
            methods[name] = capture_method(name, one)
    return methods


def _quantized(
    methods: Mapping[str, Method], options: ModuleOptions, is_static: bool, listener: Listener
) -> dict[str, Method]:
    """Those that have layers to quantize, with integers; one at least has.

    Args:
        is_static: of quantize_made().
    """
    quant, group_size = options.quant, options.group_size
    changed = dict(methods)
    known: KnownWeights = {}
    with ExitStack() as opened:
        modules = {
            name: opened.enter_context(attention_opened(method.made.module))
            for name, method in methods.items()
        }
        captured = [(modules[name], method.program) for name, method in methods.items()]
        check_layers(captured, quant, is_static)
        for name, method in methods.items():
            made = replace(method.made, module=modules[name])
            with naming(name, methods):
                quantized = quantize_made(
                    made, method.program, quant, group_size, listener, known, is_static
                )
            if quantized is not None:
                changed[name] = with_integers(method, quantized)
    return changed


def _reserved(methods: Mapping[str, Method]) -> bytes:
    """The signatures with room for what is known once the file has run."""
    signatures = [method.signature for method in methods.values()]
    blob = signature_blob(signatures)
    inputs = sum(1 + len(signature.inputs) for signature in signatures)
    return blob.ljust(len(blob) + REASON_BYTES * inputs, b"\0")


def _of_method(report: Report, name: str) -> Report:
    """The part of the report that is about a method; of one method, the whole."""
    part: Report = report["methods"][name] if "methods" in report else report
    return part


def _add_results(report: Report, result: MethodResult) -> None:
    report["delegation"] = result.delegation.to_dict()
    report["agreement"] = result.agreement.to_dict() if result.agreement else {"checked": NOT_RUN}


def _describe(options: ModuleOptions, methods: Mapping[str, Method]) -> Report:
    """Returns the report in the file. That of several methods has a report of each."""
    reports = {name: _describe_method(options, method) for name, method in methods.items()}
    if len(reports) == 1:
        return next(iter(reports.values()))
    return {"module": {"source": str(options.source), "quant": options.quant}, "methods": reports}


def _describe_method(options: ModuleOptions, method: Method) -> Report:
    module, signature = method.made.module, method.signature
    parameters = sum(one.numel() for one in module.parameters())
    report: Report = {
        "module": {
            "source": str(options.source),
            "class": type(module).__name__,
            "parameters": parameters,
            "quant": options.quant,
            "state": list(signature.state),
        },
        "signature": {
            part: [
                {
                    "name": one.name,
                    "type": one.type,
                    "shape": f"({', '.join(map(str, one.sizes))})",
                }
                for one in specs
            ]
            for part, specs in (("inputs", signature.inputs), ("outputs", signature.outputs))
        },
    }
    if method.quantized is not None:
        report["quantization"] = method.quantized.report
    return report
