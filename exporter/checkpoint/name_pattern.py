"""Regular expressions of modules' names, which settings of others have."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from exporter.errors import ExportError
from runtime.bounded_regex import BoundedRegex

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class NamePattern:
    """
    Attributes:
        path: of the settings, for messages.
        setting: which of them.

    Raises:
        ExportError: it is no regular expression, or, where it is used, takes too long.
    """

    path: Path
    setting: str
    pattern: str

    def __post_init__(self) -> None:
        self._asked(lambda _: self._own, self.pattern)

    def is_all_of(self, module: str) -> bool:
        """Whether it describes a complete name."""
        return self._asked(self._own.fullmatch, module)

    def begins(self, module: str) -> bool:
        """Whether it describes how a name begins."""
        return self._asked(self._own.match, module)

    def ends(self, module: str) -> bool:
        """Whether it describes a name, or what follows one of its dots."""
        return self._asked(self._end.match, module)

    @cached_property
    def _own(self) -> BoundedRegex:
        return BoundedRegex(self.pattern)

    @cached_property
    def _end(self) -> BoundedRegex:
        return BoundedRegex(rf"(.*\.)?({self.pattern})$")

    def _asked(self, question: Callable[[str], Answer], text: str) -> Answer:
        try:
            return question(text)
        except ValueError as error:
            what = f"{self.setting} {self.pattern!r} {error}"
            raise ExportError(f"{self.path}: {what}.") from None
