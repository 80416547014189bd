"""What goes wrong when a model is built for or run, each with its one sentence."""


class RunnerError(RuntimeError):
    """A model that cannot be loaded or run."""


class BuildError(RuntimeError):
    """C++ that cannot be built."""
