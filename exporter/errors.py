"""The exception type of this package."""


class ExportError(Exception):
    """One sentence for the user: what is wrong, what is allowed, what to do."""

    def __init__(self, text: str) -> None:
        """Characters that are no part of a line, as of a name in a file, are written as escapes."""
        super().__init__("".join(x if x.isprintable() else repr(x)[1:-1] for x in text))
