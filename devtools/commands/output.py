"""Where commands print their tables: to standard output."""

from rich.console import Console

from exporter.command_line.tables import table_console

_WIDE = 200  # columns, where standard output is no terminal


def wide_console() -> Console:
    """For tables: as wide as the terminal, or wide enough for a file."""
    return table_console(_WIDE)
