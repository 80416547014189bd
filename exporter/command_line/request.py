"""The parameters of a click command as one value."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Request = TypeVar("Request")


def takes(request: type[Request]) -> Callable[[Callable[[Request], None]], Callable[..., None]]:
    """Makes a function of one request the callback of a command.

    Args:
        request: a dataclass with a field for each parameter of the command, of the same name.
    """

    def decorate(function: Callable[[Request], None]) -> Callable[..., None]:
        @wraps(function)
        def command(**parameters: Any) -> None:
            function(request(**parameters))

        return command

    return decorate
