"""Where commands print: tables to standard output, and the sentence that ends a failed one."""

import sys
from typing import NoReturn

import click
from rich.console import Console

from exporter.command_line.tables import table_console

_WIDE = 200  # columns, where standard output is no terminal


def wide_console() -> Console:
    """For tables: as wide as the terminal, or wide enough for a file."""
    return table_console(_WIDE)


def fail(error: Exception, code: int) -> NoReturn:
    """Prints an error's sentence and exits."""
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)
