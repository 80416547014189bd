"""Where commands print: tables to standard output, and the sentence that ends a failed one."""

import io
import re
import sys
from typing import IO, NoReturn, cast

import click
from rich.console import Console

_WIDE = 200  # columns, where standard output is no terminal


class _Trimmed(io.TextIOBase):
    """Standard output without the spaces that fill a table's last column."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding

    def write(self, text: str) -> int:
        sys.stdout.write(re.sub(" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


def table_console(width: int = _WIDE) -> Console:
    """For tables: as wide as the terminal, or `width` in a file."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=width, file=cast(IO[str], _Trimmed()))


def fail(error: Exception, code: int) -> NoReturn:
    """Prints an error's sentence and exits."""
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)
