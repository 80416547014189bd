"""The errors of the tools, each with one sentence to show."""


class DevtoolsError(RuntimeError):
    """The work failed: a model cannot be measured, or a rival cannot be built."""


class BadRequest(DevtoolsError):
    """The request is not possible: a path, a name or a number must be corrected."""
