"""How the command line names a module: `module.py:make`."""

import re
from dataclasses import dataclass
from pathlib import Path

from exporter.errors import ExportError

_NAME = re.compile(r"(.+\.py):([^:\\/]*)", re.DOTALL)
QUANTS = ("none", "int8", "int4")
_INTEGERS = ("xnnpack", "cpu")


@dataclass(frozen=True)
class SourceName:
    """A Python file, and its function that makes a module."""

    path: Path
    function: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.function}"

    def check_file(self) -> None:
        """
        Raises:
            ExportError: there is no such file.
        """
        if not self.path.is_file():
            raise ExportError(f"{self.path} is not a file; name a Python file, as in {self}.")


def source_name(text: str) -> SourceName | None:
    """Returns the file and the function if the text has that form.

    Raises:
        ExportError: it has, but the function's name is not one.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    if not match[2].isidentifier():
        raise ExportError(
            f"{match[2]!r} in {text} is not the name of a function; write it as in "
            f"{Path(match[1]).name}:make."
        )
    return SourceName(Path(match[1]), match[2])


def check_quant(name: str, delegate: str) -> None:
    """
    Raises:
        ExportError: a module has no such --quant, or not with that --delegate.
    """
    if name not in QUANTS:
        raise ExportError(
            f"--quant {name} is for language models; a module has {', '.join(QUANTS[:-1])} or "
            f"{QUANTS[-1]}."
        )
    if name != "none" and delegate not in _INTEGERS:
        raise ExportError(
            f"--quant {name} of a module needs --delegate xnnpack or cpu, one of them "
            f"alone, for its integers, but --delegate is {delegate}."
        )
