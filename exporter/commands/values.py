"""Values of options that must not be empty: Path("") would be the current directory."""

from pathlib import Path
from typing import Any

import click


class FileName(click.Path):
    """A path.

    Args:
        what: to give instead of an empty one, such as ".pte file".
        options: those of click.Path.
    """

    def __init__(self, what: str = "file", **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._what = what

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if value == "":
            self.fail(f"the name is empty; give a {self._what}.", param, context)
        return super().convert(value, param, context)


class Text(click.types.StringParamType):
    """A text of at least one character."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if value == "":
            self.fail("the text is empty; give one, or leave the option out.", param, context)
        return super().convert(value, param, context)


TEXT = Text()
