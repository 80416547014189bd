"""The exception that leaves this package."""


class QuantError(Exception):
    """A sentence: what is wrong, with the value; what is allowed; what to do."""
