"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`."""

from runtime.answer_options import AnswerOptions
from runtime.binding.logprobs import TokenLogprob
from runtime.chat import Chat
from runtime.embedder import Embedder, Embeddings
from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.recording import Recording
from runtime.runner import Runner
from runtime.tool_chat import Reply, ask

__all__ = [
    "AnswerOptions",
    "Chat",
    "Embedder",
    "Embeddings",
    "Engine",
    "Generation",
    "Recording",
    "Reply",
    "Runner",
    "RunnerError",
    "TokenLogprob",
    "ask",
]
