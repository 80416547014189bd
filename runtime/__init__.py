"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`, or, of any
other module, `Program("module.pte")(array)`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.interface import *  # noqa: F403

__all__ = [  # noqa: F405
    "AnswerOptions",
    "Chat",
    "Embedder",
    "Embeddings",
    "Engine",
    "Generation",
    "Part",
    "Program",
    "Recording",
    "Reply",
    "Runner",
    "RunnerError",
    "Segment",
    "Size",
    "TensorSpec",
    "TokenLogprob",
    "Transcriber",
    "Transcription",
    "Word",
    "ask",
]


def __getattr__(name: str) -> Any:
    """Imports what is asked for: most commands need none of it, and it takes a fifth of a second.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in __all__:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("runtime.interface"), name)


def __dir__() -> list[str]:
    return __all__
