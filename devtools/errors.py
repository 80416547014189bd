"""The errors of the tools, each with one sentence to show."""


class DevtoolsError(RuntimeError):
    """The work failed: a model cannot be measured, or a rival cannot be built."""

    def __init__(self, text: str = "") -> None:
        """Characters that are no part of a line, as of a name in a file, are written as escapes."""
        super().__init__("".join(x if x.isprintable() else repr(x)[1:-1] for x in text))


class BadRequest(DevtoolsError):
    """The request is not possible: a path, a name or a number must be corrected."""
