"""The errors of building and running, each with one sentence."""


class RunnerError(RuntimeError):
    """A model cannot be loaded or run."""


class BuildError(RuntimeError):
    """The C++ cannot be built."""


NO_MEMORY = "there is not enough memory: free some, or ask for less"
