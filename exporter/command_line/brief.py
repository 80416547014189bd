"""Commands whose errors of usage are one line, without the usage above it, and whose help names
them as the user does."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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

    def get_help(self, ctx: click.Context) -> str:
        text = super().get_help(ctx)
        if not Path(sys.argv[0]).name.startswith("thimble-"):
            return text
        return re.sub(r"python -m (\w+?)(er)?\b(?= )", r"thimble-\1", text)


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
