"""The export of a model that hears: its options, and the summary."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.catalogue.hearing import is_hearing
from exporter.command_line.quiet import silence_known_noise
from exporter.commands.checks import check_file
from exporter.commands.request import Request
from exporter.commands.summary import megabytes, show_kernels, summarize
from exporter.commands.working import checking, importing, working
from exporter.errors import ExportError
from exporter.hearing.scheme import hearing_scheme
from exporter.module.window_scheme import DEFAULT_SCHEME
from quant.scheme import Scheme, scheme_from_text

if TYPE_CHECKING:
    from exporter.module.pipeline import ModuleResult

# What the export has of the command's options, by the parameters' names.
_TAKEN = {"model", "checkpoint", "out", "scheme", "group_size", "delegate", "etrecord"} | {
    *("calibration", "vad", "sign")
}

_STOCK = "xnnpack"  # whose files ExecuTorch's own runner reads


def names_hearing(request: Request) -> bool:
    """Whether the request's model is a directory of one that hears."""
    named = request.checkpoint if request.checkpoint is not None else request.model
    return named is not None and is_hearing(Path(named).expanduser())


def run_hearing_export(request: Request, given: Collection[str]) -> None:
    """Runs one export and prints a summary.

    Exits with 2 if the request is not possible, with 1 if the work failed. In both cases, and on an
    interrupt, no file is changed.

    Args:
        given: the parameters that the command line has.
    """
    started = time.monotonic()
    named = request.checkpoint if request.checkpoint is not None else request.model
    assert named is not None and request.out is not None
    with checking():
        scheme = _check(request, request.out, given)
    silence_known_noise()
    with importing():
        from exporter.hearing.pipeline import HearingOptions, export_hearing

    with working() as display:
        options = HearingOptions(
            Path(named).expanduser(),
            request.out,
            scheme,
            delegate=request.delegate,
            etrecord=request.etrecord,
            calibration=request.calibration,
            detector=request.vad,
        )
        result = export_hearing(options, display)
    seconds = time.monotonic() - started
    summarize(request.out, lambda: _show(result, request.etrecord, seconds))


def _check(request: Request, out: Path, given: Collection[str]) -> Scheme:
    """Returns how to store the weights; raises ExportError or QuantError if an option is not
    valid."""
    for name in given:
        if name not in _TAKEN:
            raise ExportError(
                f"--{name.replace('_', '-')} has no effect on a model that hears, which this is: "
                "leave it out."
            )
    if request.delegate not in ("cpu", _STOCK):
        raise ExportError(
            f"{request.delegate} does not support models that hear yet: export with --delegate cpu."
        )
    check_file(request.delegate, out, request.etrecord)
    name = request.scheme if "scheme" in given else DEFAULT_SCHEME.name
    scheme = scheme_from_text(name, None, request.group_size, None)
    hearing_scheme(scheme)  # refuses what is not
    if request.delegate == _STOCK and (name not in ("none", "rtn8") or request.vad is not None):
        raise ExportError(
            f"{_STOCK} takes a model that hears with --quant none or rtn8, and without --vad: "
            "change these, or export with --delegate cpu."
        )
    if request.calibration is not None and not scheme.needs_calibration:
        raise ExportError(
            f"--calibration {request.calibration} has no effect with {name}, which does not "
            "calibrate; leave it out, or take gptq4."
        )
    return scheme


def _show(result: "ModuleResult", etrecord: Path | None, seconds: float) -> None:
    for name, method in result.methods.items():
        report = method.delegation
        taken, left = sum(report.delegated.values()), sum(report.left.values())
        checked = method.agreement
        error = "" if checked is None else f", within {checked.error:.1g} of the model's numbers"
        click.echo(
            f"{name}: {report.delegate} runs {taken} of {taken + left} operators in "
            f"{report.calls} call{'s' if report.calls != 1 else ''}{error}"
        )
        show_kernels(report.lines)
    click.echo(f"wrote {result.out}: {megabytes(result.size)} in {seconds:.0f} s")
    if etrecord is not None:
        click.echo(f"wrote {etrecord}: {megabytes(etrecord.stat().st_size)}")
