"""`python -m quant cache`: shows and removes stored results of earlier quantizations."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.command_line.filled import FilledPath

if TYPE_CHECKING:
    from quant.cache.store import Cache

_INSTEAD = ", or use --clear to remove every layer"


@click.command("cache", short_help="Lists or removes stored layers.")
@click.option("--list", "as_list", is_flag=True, help="Show every entry; the default.")
@click.option("--clear", is_flag=True, help="Remove every stored layer.")
@click.option(
    "--prune",
    metavar="SIZE",
    help="Remove the least recently used entries until this size, a number and a unit such as "
    "5GB, is reached.",
)
@click.option(
    "--cache",
    "directory",
    type=FilledPath("name a directory", file_okay=False),
    help="The directory; by default $THIMBLE_CACHE or the user's cache directory.",
)
def cache_command(as_list: bool, clear: bool, prune: str | None, directory: Path | None) -> None:
    """Shows or removes quantized layers that earlier runs stored.

    $THIMBLE_CACHE_SIZE, a number and a unit such as 50GB, limits the size of the cache; by default
    20GB.

    Models that thimble-run exported are not among them: they stay in models/ of the default
    directory until you delete them. To list them, use thimble-run --list-models.
    """
    if as_list + clear + (prune is not None) > 1:
        raise click.UsageError("--list, --clear and --prune exclude each other; use only one.")
    from exporter.command_line.streams import STANDARD_OUTPUT
    from quant.errors import QuantError
    from quant.machine.memory_size import parse_size, show_size

    try:
        if directory is not None and not os.path.isdir(directory):
            raise QuantError(f"--cache {directory} does not exist; check its path.")
        limit = None if prune is None else parse_size(prune, "--prune", _INSTEAD)
        from quant.cache.place import default_directory
        from quant.cache.store import Cache, default_size  # imports PyTorch

        cache = Cache(directory or default_directory(), default_size())
        if clear:
            click.echo(f"removed {show_size(cache.clear())} from {cache.directory}")
        elif limit is not None:
            gone = cache.prune(limit)
            click.echo(
                f"removed {show_size(gone)} from {cache.directory}, {show_size(cache.size())} left"
            )
        else:
            _show(cache)
    except (QuantError, OSError) as error:
        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            raise  # has its own sentence
        click.echo(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, QuantError) else 1)


def _show(cache: "Cache") -> None:
    from rich.table import Table

    from exporter.command_line.tables import print_table
    from quant.machine.memory_size import show_size

    table = Table("last used", "size", "state", "what", "key", box=None, pad_edge=False)
    entries = cache.entries()
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        state = "sound" if entry.sound else "damaged: will be made again"
        table.add_row(used, show_size(entry.size), state, entry.what, entry.key[:12])
    if entries:
        print_table(table)
    total = sum(entry.size for entry in entries)
    click.echo(
        f"{len(entries)} entries, {show_size(total)} of {show_size(cache.limit)} in "
        f"{cache.directory}"
    )
