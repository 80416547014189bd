"""`python -m exporter --explain`: the reasons for the program's form, by line of the model."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.catalogue.adapters import split_adapters
from exporter.command_line.quiet import silence_known_noise
from exporter.commands.checks import (
    check_config,
    check_file,
    check_files,
    check_source,
    check_vision,
    check_weights,
)
from exporter.commands.request import Request
from exporter.commands.working import checking, importing, working
from exporter.plan.given_lengths import check_given_lengths
from quant.machine.memory_size import show_size

if TYPE_CHECKING:
    from exporter.capture.shapes import Shapes, Size
    from exporter.explain import Explanation
    from exporter.listener import Listener
    from exporter.plan.kv_caches import KvCaches, States

_UNWRITTEN = Path("model.pte")  # required by the options, never written


def run_explain(request: Request) -> None:
    """Prints the explanation, and writes it to the file of --explain-json if given.

    Exits with 2 if the request is not possible, with 1 if the work failed.
    """
    json_file = request.explain_json
    _check(request, json_file)
    silence_known_noise()
    with importing():
        from exporter.explain import explain_export
        from exporter.options import ExportOptions

    def explain(display: "Listener") -> "Explanation":
        adapter, adapters = split_adapters(request.adapter)
        options = ExportOptions(
            model=request.model,
            out=_UNWRITTEN,
            checkpoint=request.checkpoint,
            adapter=adapter,
            adapters=adapters,
            scheme=request.chosen_scheme(),
            max_context_len=request.max_context_len,
            max_seq_len=request.max_seq_len,
            delegate=request.delegate,
            vision=not request.no_vision,
            vision_scheme=request.chosen_vision_scheme(),
            calibration_images=request.calibration_images,
            imatrix=request.imatrix,
        )
        return explain_export(options, display)

    show_explanation(explain, json_file)


def show_explanation(
    explain: Callable[["Listener"], "Explanation"], json_file: Path | None
) -> None:
    """Prints an explanation, and writes it to a file if there is one; exits with 1 if the work
    failed."""
    from exporter.file.replacing import replacing

    with working() as display, replacing(json_file) as temporary:
        explanation = explain(display)
        if temporary is not None:
            text = json.dumps(explanation.to_dict(), indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
    click.echo(describe(explanation))


def _check(request: Request, json_file: Path | None) -> None:
    """Exits with 2 if an option is not valid."""
    with checking():
        check_file(request.delegate, None, None, explained=json_file)
        check_given_lengths(request.max_context_len, request.max_seq_len)
        check_source(request.model, request.checkpoint)
        request.chosen_scheme()
        request.chosen_vision_scheme()
        check_files(request.model, request.checkpoint, request.adapter)
        lengths = request.max_context_len, request.max_seq_len
        check_config(request.model, request.checkpoint, *lengths)
        check_vision(request)
        check_weights(request.model, request.checkpoint)


def describe(explanation: "Explanation") -> str:
    """Returns the explanation as lines of text."""
    report = explanation.delegation
    lines = _shape_lines(explanation.shapes)
    lines += ["", "operators that were replaced between torch.export and the delegate:"]
    for change in explanation.decompositions:
        became = _counted(change.became) or "nothing"
        lines.append(f"  {change.line}: {_counted(change.captured)} -> {became} ({change.reason})")
    if not explanation.decompositions:
        lines.append("  none that this delegate records")
    calls = "1 call runs" if report.calls == 1 else f"{report.calls} calls run"
    lines += ["", f"operators that {report.delegate} does not run ({calls} the others):"]
    for left in report.lines:
        lines.append(f"  {left.line}: {left.count} x {left.operator}: {left.reason}")
    if not report.lines:
        lines.append("  none")
    lines += [
        f"  {part.delegate} took nothing: {part.refused}" for part in report.parts if part.refused
    ]
    if explanation.imatrix is not None:
        facts = explanation.imatrix
        chunks = "" if facts["chunks"] is None else f", made of {facts['chunks']} chunks of text"
        lines += ["", f"scales are searched by {facts['file']}{chunks}:"]
        lines.append(f"  it tells of {facts['matrices']} matrices")
    if explanation.caches:
        lines += ["", f"keys and values, in {explanation.cache_type}:"]
        lines += [f"  {_cache(item)}" for item in explanation.caches]
        sizes = [f"{type} {show_size(size)}" for type, size in explanation.cache_sizes.items()]
        if sizes:
            lines.append(f"  in all, by a runner's --kv-cache: {', '.join(sizes)}")
    if explanation.states:
        lines += ["", "states, in float32, whatever the context:"]
        lines += [f"  {_state(item)}" for item in explanation.states]
    if explanation.unfused is not None:
        name = report.delegate
        heading = f"operators that {name} runs separately, though it can fuse their kind:"
        lines += ["", heading]
        lines += [
            f"  {item.line}: {item.operator} of {item.module_path}: {item.reason}"
            for item in explanation.unfused
        ] or ["  none"]
    return "\n".join(lines)


def _shape_lines(shapes: "Shapes") -> list[str]:
    lines = ["numbers that are known only when the program runs:"]
    lines += [f"  {_size(size)}" for size in shapes.varying] or ["  none: every size is fixed"]
    lines.append("input sizes that are fixed in the captured program:")
    lines += [f"  {name} = {size}" for name, size in shapes.fixed.items()] or ["  none"]
    settled = [item for item in shapes.conditions if not item.checked]
    checked = [item for item in shapes.conditions if item.checked]
    lines.append("guards: assumptions of tracing, each of which restricts the sizes:")
    lines += [f"  {item.line}: {item.text}" for item in settled] or ["  none"]
    lines.append("checks: conditions that the program checks when it runs:")
    lines += [f"  {item.line}: {item.text}" for item in checked] or ["  none"]
    return lines


def _size(size: "Size") -> str:
    least = "any" if size.least is None else f"{size.least}"
    most = "any" if size.most is None else f"{size.most}"
    where = f" (read at {size.line})" if size.line else ""
    return f"{size.name}: {least} to {most}{where}"


def _cache(caches: "KvCaches") -> str:
    window = "" if caches.window is None else f" with a window of {caches.window}"
    kept = f"{caches.positions} positions, {show_size(caches.size)}"
    return f"{_layers(caches.layers)}{window}: {kept}"


def _state(states: "States") -> str:
    return f"{_layers(states.layers)}: {states.numbers} numbers, {show_size(states.size)}"


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _counted(operators: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in operators.items())
