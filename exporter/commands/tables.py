"""Prints tables: as wide as the terminal, or to a pipe, without spaces at the ends of lines."""

import os

import click
from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 160  # where nothing says how wide a line may be


def print_table(table: Table) -> None:
    """Prints a table on standard output."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    if "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())
