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
    """A path.

    Args:
        advice: as for `FilledText`.
        options: those of click.Path.
    """

    def __init__(self, advice: str = "name a file", **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._advice = advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_filled(value, param, self._advice), param, ctx)


def _filled(value: Any, param: click.Parameter | None, advice: str) -> str:
    text = str(value)
    if text:
        return text
    assert param is not None
    name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
    otherwise = "" if param.required else ", or leave it out"
    raise click.UsageError(f"{name} is empty; {advice}{otherwise}.")
