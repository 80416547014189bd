"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`."""

from runtime.answer_options import AnswerOptions
from runtime.ask import Reply, ask
from runtime.chat import Chat
from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.logprobs import TokenLogprob
from runtime.recording import Recording
from runtime.runner import Runner

__all__ = [
    "AnswerOptions",
    "Chat",
    "Engine",
    "Generation",
    "Recording",
    "Reply",
    "Runner",
    "RunnerError",
    "TokenLogprob",
    "ask",
]
