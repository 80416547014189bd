"""How a command checks its options and does its work: one sentence for an error, and its code."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from delegates import DelegateError
from exporter.capture.lean_imports import without_collection
from exporter.command_line.interruption import nothing_to_clean_up, raise_if_interrupted
from exporter.command_line.quiet import silence_native_noise
from exporter.command_line.waiting import wait_briefly
from exporter.commands.display import Display
from exporter.errors import ExportError
from quant.errors import QuantError

_OBJECTS = 20_000  # new ones before Python looks for cycles: a program has many nodes
_ERRORS = (QuantError, DelegateError, ExportError)


@contextmanager
def importing() -> Iterator[None]:
    """Marks the import of large libraries, which takes seconds: it is said first, and a signal ends
    it at once."""
    if "torch" not in sys.modules:
        click.echo("Starting PyTorch", err=True)
    wait_briefly()
    with nothing_to_clean_up(), without_collection():
        yield
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def checking() -> Iterator[None]:
    """Ends the process with 2 if the block finds that an option is not valid. Large libraries are
    imported after this."""
    try:
        yield
    except _ERRORS as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)


@contextmanager
def working() -> Iterator[Display]:
    """Provides what shows the progress of the block.

    If the block raises, the process ends: with 2 if the request is not possible, which is detected
    before any stage begins; with 1 if the work failed.
    """
    with silence_native_noise() as stderr:
        display = Display(stderr)
        try:
            with display:
                yield display
        except _ERRORS as error:
            raise_if_interrupted()  # a module's own code may have met the signal
            click.echo(f"Error: {error}", file=stderr)
            sys.exit(1 if display.began_work else 2)
