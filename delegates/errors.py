"""The one exception type that crosses this package's edge."""


class DelegateError(Exception):
    """One sentence for the user: what is wrong, what is allowed, what to do."""
