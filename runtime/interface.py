"""What `runtime` offers under its own name, from where it is."""

from runtime.answer_options import AnswerOptions as AnswerOptions
from runtime.binding.logprobs import TokenLogprob as TokenLogprob
from runtime.chat import Chat as Chat
from runtime.embedder import Embedder as Embedder
from runtime.embedder import Embeddings as Embeddings
from runtime.engine import Engine as Engine
from runtime.errors import RunnerError as RunnerError
from runtime.generation import Generation as Generation
from runtime.program import Program as Program
from runtime.program import Size as Size
from runtime.program import TensorSpec as TensorSpec
from runtime.recording import Recording as Recording
from runtime.runner import Runner as Runner
from runtime.tool_chat import Reply as Reply
from runtime.tool_chat import ask as ask
from runtime.transcriber import Part as Part
from runtime.transcriber import Segment as Segment
from runtime.transcriber import Transcriber as Transcriber
from runtime.transcriber import Transcription as Transcription
from runtime.transcriber import Word as Word
