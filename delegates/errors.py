"""The exception type of this package."""


class DelegateError(Exception):
    """One sentence for the user: what is wrong, what is allowed, what to do."""
