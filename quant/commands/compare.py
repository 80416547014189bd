"""`python -m quant compare`: compares methods on one model with the same protocol, as a table."""

import sys

import click

from quant.commands.compare_request import Request


def run_compare(request: Request) -> None:
    """Prints the table row by row; exits with 2 if the request is not possible."""
    from exporter.command_line.quiet import silence_known_noise
    from exporter.command_line.waiting import wait_briefly

    _check(request)
    silence_known_noise()
    wait_briefly()
    from exporter.command_line.running import RunningLines
    from exporter.errors import ExportError
    from exporter.tokenizer import TokenizerError
    from quant.commands.table import table
    from quant.errors import QuantError

    try:
        with RunningLines(lambda text: click.echo(text, err=True)) as running:
            for line in table(request, running):
                click.echo(line)
    except (QuantError, ExportError, TokenizerError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


def _check(request: Request) -> None:
    """Exits with 2 if an argument is not valid; large libraries are imported after this."""
    from exporter.catalogue.names import check_model
    from exporter.errors import ExportError
    from quant.commands.checks import read_text
    from quant.commands.compare_rows import ROWS
    from quant.errors import QuantError
    from quant.scheme import Scheme

    try:
        unknown = [name for name in request.only if name not in ROWS]
        if unknown:
            raise QuantError(
                f"--only {unknown[0]!r} is not a row; the rows are: {'; '.join(ROWS)}."
            )
        for group_size in request.group_sizes:
            Scheme(group_size=group_size)
        check_model(request.model)
        for path in (request.calibration, request.held_out):
            if path is not None:
                read_text(path)
    except (QuantError, ExportError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
