"""The rule that an answer has at most one constraint."""

from collections.abc import Iterable
from typing import TypeVar

from runtime.errors import RunnerError

Value = TypeVar("Value")


def one_constraint(fields: Iterable[tuple[str, Value | None]]) -> tuple[str, Value] | None:
    """Returns the one field that is given, its name and its value; None: none is.

    Raises:
        RunnerError: several are given.
    """
    given = [(name, value) for name, value in fields if value is not None]
    if len(given) > 1:
        names = " and ".join(name for name, _ in given)
        raise RunnerError(f"{names} are given, but an answer can have one constraint")
    return given[0] if given else None
