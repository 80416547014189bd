"""`python -m quant compare`: compares methods on one model with the same protocol, as a table."""

import sys

import click

from quant.commands.compare_request import Request


def run_compare(request: Request) -> None:
    """Prints the table row by row; exits with 2 if the request is not possible."""
    from exporter.quiet import silence_known_noise

    silence_known_noise()
    from exporter.commands.running import RunningLines
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
