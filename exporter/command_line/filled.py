"""Values that must not be empty, for a shell passes "" where a variable is not set, or must be
UTF-8."""

import os
import sys
from pathlib import Path
from typing import Any

import click


class FilledText(click.ParamType):
    """A text.

    Args:
        advice: what to do instead of leaving it empty, such as "name a model".
    """

    name = "text"

    def __init__(self, advice: str = "give a text") -> None:
        self._advice = advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return _filled(value, param, self._advice)


class Utf8Text(click.ParamType):
    """A text for a model, in UTF-8, which the name of a file need not be."""

    name = "text"

    def __init__(self, may_be_empty: bool = False) -> None:
        self._may_be_empty = may_be_empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value) if self._may_be_empty else _filled(value, param, "give a text")
        return require_utf8(text, _name(param))


def require_input() -> None:
    """
    Raises:
        click.UsageError: the process was started without standard input.
    """
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed; pipe a text into it, or leave out the -.")


def require_utf8(text: str, name: str) -> str:
    """Returns a text as it is.

    Args:
        name: what the sentence calls it.

    Raises:
        click.UsageError: it has bytes that were not UTF-8, which Python keeps as halves of
            characters.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at = len(text[: error.start].encode()) + 1
        raise click.UsageError(
            f"{name} is not UTF-8, at byte {at}; convert the text, as with iconv."
        ) from None
    return text


class FilledPath(click.Path):
    """A path; "-" is none, which stands for a stream in other programs, and a ~ that the shell has
    left, as of --out=~/m.pte, is the home directory.

    Args:
        advice: as for `FilledText`.
        options: those of click.Path.
    """

    def __init__(self, advice: str = "name a file", **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._advice = advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = _filled(value, param, self._advice)
        if text == "-":
            raise click.UsageError(f"{_name(param)} is -, which is not a file; {self._advice}.")
        return super().convert(os.path.expanduser(text), param, ctx)


def _name(param: click.Parameter | None) -> str:
    assert param is not None
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


def _filled(value: Any, param: click.Parameter | None, advice: str) -> str:
    text = str(value)
    if text:
        return text
    otherwise = "" if param is None or param.required else ", or leave it out"
    raise click.UsageError(f"{_name(param)} is empty; {advice}{otherwise}.")
