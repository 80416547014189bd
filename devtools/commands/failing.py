"""How a command that failed ends: with one sentence, and a code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from devtools.errors import BadRequest, DevtoolsError


def fail(error: Exception, code: int) -> NoReturn:
    """Prints an error's sentence and exits."""
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)


@contextmanager
def failing() -> Iterator[None]:
    """Exits with 2 if the request is not possible, with 1 if the work failed."""
    try:
        yield
    except DevtoolsError as error:
        fail(error, 2 if isinstance(error, BadRequest) else 1)
