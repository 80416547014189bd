"""The export of any module: checks the options, shows progress, prints a summary."""

import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from delegates import DelegateError
from exporter.command_line.interruption import nothing_to_clean_up, say_from_now
from exporter.command_line.quiet import silence_known_noise, silence_native_noise
from exporter.command_line.streams import drop_standard_output
from exporter.commands.checks import check_file
from exporter.commands.display import Display
from exporter.commands.request import Request
from exporter.errors import ExportError
from exporter.module.options import DEFAULT_MODULE_DELEGATE, ModuleOptions
from exporter.module.source_name import SourceName, check_quant, source_name
from quant.errors import QuantError

if TYPE_CHECKING:
    from exporter.module.pipeline import ModuleResult

# What a module has of the command's options, by the parameters' names.
_TAKEN = {"model", "out", "scheme", "group_size", "delegate", "etrecord", "explain", "explain_json"}


def run_module(request: Request, given: Collection[str]) -> None:
    """Runs one export and prints a summary.

    Exits with 2 if the request is not possible, with 1 if the work failed. In both cases, and on an
    interrupt, no file is changed.

    Args:
        given: the parameters that the command line has.
    """
    started = time.monotonic()
    options = _options(request, given)
    silence_known_noise()
    with nothing_to_clean_up():
        from exporter.module.pipeline import export_module

    with silence_native_noise() as stderr:
        display = Display(stderr)
        try:
            with display:
                result = export_module(options, display)
        except (QuantError, DelegateError, ExportError) as error:
            click.echo(f"Error: {error}", file=stderr)
            sys.exit(1 if display.began_work else 2)
    say_from_now(f"Interrupted; {options.out} was written.")
    try:
        _show(result, options.etrecord, time.monotonic() - started)
    except OSError as error:
        drop_standard_output()
        click.echo(
            f"{options.out} was written; the summary could not be printed ({error.strerror}).",
            err=True,
        )


def _options(request: Request, given: Collection[str]) -> ModuleOptions:
    """Exits with 2 if an option is not valid; large libraries are imported after this."""
    try:
        source = source_name(str(request.model))
        assert isinstance(source, SourceName)
        for name in given:
            if name not in _TAKEN:
                raise ExportError(
                    f"--{name.replace('_', '-')} has no effect on a module; leave it out."
                )
        if request.out is None:
            raise ExportError("No output file was given; add --out module.pte.")
        quant = request.scheme if "scheme" in given else "none"
        check_quant(quant)
        delegate = request.delegate if "delegate" in given else DEFAULT_MODULE_DELEGATE
        check_file(delegate, request.out, request.etrecord, None)
        return ModuleOptions(
            source, request.out, quant, delegate, request.etrecord, request.group_size
        )
    except (DelegateError, ExportError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def _show(result: "ModuleResult", etrecord: Path | None, seconds: float) -> None:
    report, signature = result.delegation, result.signature
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
    for leftover in report.lines:
        times = f"{leftover.count} x " if leftover.count > 1 else ""
        click.echo(f"  kernels: {times}{leftover.operator} at {leftover.line}: {leftover.reason}")
    if result.agreement is not None:
        error = result.agreement.error
        click.echo(
            f"checked: within {error:.1g} of the module's largest number on "
            f"{', '.join(result.agreement.inputs)}"
        )
    else:
        users = " and ".join(report.users)
        click.echo(f"checked: no; this machine has nothing that runs {users}")
    click.echo(f"wrote {result.out}: {_bytes(result.size)} in {seconds:.0f} s")
    if etrecord is not None:
        click.echo(f"wrote {etrecord}: {_bytes(etrecord.stat().st_size)}")


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
