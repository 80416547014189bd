"""The errors of building and running, each with one sentence."""


class RunnerError(RuntimeError):
    """A model cannot be loaded or run."""


class BuildError(RuntimeError):
    """The C++ cannot be built."""


NO_MEMORY = "there is not enough memory: free some, or ask for less"

_LONGEST = 100  # characters of a value in a sentence


def shown(value: object) -> str:
    """Returns a value as a sentence shows it: of a long one, such as a document, its beginning."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
