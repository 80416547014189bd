"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`, or, of any
other module, `Program("module.pte")(array)`."""

from runtime.answer_options import AnswerOptions
from runtime.binding.logprobs import TokenLogprob
from runtime.chat import Chat
from runtime.embedder import Embedder, Embeddings
from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.program import Program, Size, TensorSpec
from runtime.recording import Recording
from runtime.runner import Runner
from runtime.tool_chat import Reply, ask
from runtime.transcriber import Part, Segment, Transcriber, Transcription, Word

__all__ = [
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
