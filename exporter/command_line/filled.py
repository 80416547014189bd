"""Values that must not be empty: a shell passes "" where a variable is not set."""

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


class FilledPath(click.Path):
    """A path; "-" is none, which stands for a stream in other programs.

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
        return super().convert(text, param, ctx)


def _name(param: click.Parameter | None) -> str:
    assert param is not None
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


def _filled(value: Any, param: click.Parameter | None, advice: str) -> str:
    text = str(value)
    if text:
        return text
    otherwise = "" if param is None or param.required else ", or leave it out"
    raise click.UsageError(f"{_name(param)} is empty; {advice}{otherwise}.")
