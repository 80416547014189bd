"""What goes wrong in the tools, each with the one sentence to show."""


class DevtoolsError(RuntimeError):
    """Work that failed: a model that cannot be measured, a rival that cannot be built."""


class BadRequest(DevtoolsError):
    """A request that cannot be met as it stands: a path, a name or a number to correct."""
