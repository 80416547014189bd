"""Where commands print tables: as wide as the terminal, or, to a file or a pipe, without spaces at
the ends of lines."""

import io
import os
import re
import sys
from typing import IO, cast

from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 160  # where nothing says how wide a line may be


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


def table_console(width: int | None) -> Console:
    """Standard output; `width` columns where it is no terminal, None: what rich finds."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=width, file=cast(IO[str], _Trimmed()))


def print_table(table: Table) -> None:
    """Prints a table on standard output, in a pipe as wide as $COLUMNS says."""
    table_console(None if "COLUMNS" in os.environ else _PIPE_WIDTH).print(table)
