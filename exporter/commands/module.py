"""The export of any module: checks the options, shows progress, prints a summary."""

import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.command_line.quiet import silence_known_noise
from exporter.commands.checks import check_file
from exporter.commands.request import Request
from exporter.commands.summary import megabytes, show_kernels, show_unchecked, summarize
from exporter.commands.working import checking, importing, working
from exporter.errors import ExportError
from exporter.module.options import DEFAULT_MODULE_DELEGATE, ModuleOptions
from exporter.module.source_name import SourceName, check_quant, source_name

if TYPE_CHECKING:
    from exporter.module.method import MethodResult
    from exporter.module.pipeline import ModuleResult

_UNWRITTEN = Path("module.pte")  # of an explanation
# What a module has of the command's options, by the parameters' names.
_TAKEN = {
    *("model", "out", "scheme", "group_size", "delegate", "etrecord", "sign"),
    *("explain", "explain_json"),
}


def run_module(request: Request, given: Collection[str]) -> None:
    """Runs one export and prints a summary.

    Exits with 2 if the request is not possible, with 1 if the work failed. In both cases, and on an
    interrupt, no file is changed.

    Args:
        given: the parameters that the command line has.
    """
    started = time.monotonic()
    explains = request.explain or request.explain_json is not None
    options = _options(request, given, explains)
    if explains:
        _explain(options, request.explain_json)
        return
    silence_known_noise()
    with importing():
        from exporter.module.pipeline import export_module

    with working() as display:
        result = export_module(options, display)
    seconds = time.monotonic() - started
    summarize(options.out, lambda: _show(result, options.etrecord, seconds))


def _explain(options: ModuleOptions, json_file: Path | None) -> None:
    """Prints what an export would do with each line, and writes it to a file if there is one."""
    silence_known_noise()
    with importing():
        from exporter.commands.explain import describe
        from exporter.file.replacing import replacing
        from exporter.module.explain import explain_module

    with working() as display, replacing(json_file) as temporary:
        explained = explain_module(options, display)
        if temporary is not None:
            methods = {
                name: {"signature": signature.to_dict(), **explanation.to_dict()}
                for name, (signature, explanation) in explained.items()
            }
            whole = {"methods": methods} if len(methods) > 1 else next(iter(methods.values()))
            temporary.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    for name, (signature, explanation) in explained.items():
        if len(explained) > 1:
            click.echo(f"\nmethod {name}:")
        for part, specs in (("input ", signature.inputs), ("output", signature.outputs)):
            for spec in specs:
                click.echo(f"{part} {spec}")
        click.echo(describe(explanation))


def _options(request: Request, given: Collection[str], explains: bool) -> ModuleOptions:
    """Exits with 2 if an option is not valid."""
    with checking():
        source = source_name(str(request.model))
        assert isinstance(source, SourceName)
        source.check_file()
        for name in given:
            if name not in _TAKEN:
                raise ExportError(
                    f"--{name.replace('_', '-')} has no effect on a module; leave it out."
                )
        if explains and (request.out is not None or request.etrecord is not None):
            raise ExportError("--explain exports nothing; leave out --out and --etrecord.")
        if request.out is None and not explains:
            raise ExportError("No output file was given; add --out module.pte.")
        quant = request.scheme if "scheme" in given else "none"
        if "group_size" in given and quant != "int4":
            raise ExportError(
                f"--group-size {request.group_size} has no effect with --quant {quant}: leave it "
                "out, or take int4, whose scales are of groups."
            )
        delegate = request.delegate if "delegate" in given else DEFAULT_MODULE_DELEGATE
        check_quant(quant, delegate)
        out = request.out or _UNWRITTEN
        written = None if explains else out
        check_file(delegate, written, request.etrecord, explained=request.explain_json)
    return ModuleOptions(source, out, quant, delegate, request.etrecord, request.group_size)


def _show(result: "ModuleResult", etrecord: Path | None, seconds: float) -> None:
    for name, method in result.methods.items():
        if len(result.methods) > 1:
            click.echo(f"method {name}:")
        _show_method(method)
    click.echo(f"wrote {result.out}: {megabytes(result.size)} in {seconds:.0f} s")
    if etrecord is not None:
        click.echo(f"wrote {etrecord}: {megabytes(etrecord.stat().st_size)}")


def _show_method(method: "MethodResult") -> None:
    report, signature = method.delegation, method.signature
    for spec in signature.inputs:
        note = f"; a NaN in it is refused ({spec.hides_nan})" if spec.hides_nan else ""
        click.echo(f"input  {spec}{note}")
    for spec in signature.outputs:
        click.echo(f"output {spec}")
    if signature.state:
        click.echo(f"state: calls change {', '.join(signature.state)}")
    taken, left = sum(report.delegated.values()), sum(report.left.values())
    calls = f"{report.calls} call{'s' if report.calls != 1 else ''}"
    verb = "runs" if len(report.users) == 1 else "run"
    click.echo(
        f"delegate: {' and '.join(report.users)} {verb} {taken} of {taken + left} operators in "
        f"{calls}"
    )
    for part in report.parts:
        if part.refused is not None:
            click.echo(f"  {part.delegate}: nothing. {part.refused}")
        else:
            click.echo(f"  {part.delegate}: {sum(part.delegated.values())} operators")
    show_kernels(report.lines)
    if method.quantized is not None:
        quality = method.quantized.quality
        click.echo(
            f"quality: cosine {quality.worst_cosine:.4f} at worst, {quality.mean_cosine:.4f} on "
            f"average; {quality.answers - quality.changed} of {quality.answers} answers as in float"
        )
        if method.quantized.note:
            click.echo(method.quantized.note)
    if method.agreement is not None:
        error = method.agreement.error
        click.echo(
            f"checked: the file's outputs differ from the module's by at most {error:.1g} of their "
            f"largest number, with these inputs: {', '.join(method.agreement.inputs)}"
        )
    else:
        show_unchecked(report.users)
