"""The exception type of this package."""


class ExportError(Exception):
    """One sentence for the user: what is wrong, what is allowed, what to do."""
