"""Commands whose errors of usage are one line, without the usage above it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError


class BriefCommand(click.Command):
    """A command of one line for an error."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with _briefly():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _briefly():
            return super().invoke(ctx)


class BriefGroup(BriefCommand, click.Group):
    """The same with commands below it."""


@contextmanager
def _briefly() -> Iterator[None]:
    try:
        yield
    except NoArgsIsHelpError:  # is the help
        raise
    except click.UsageError as error:
        raise click.UsageError(error.format_message()) from None
