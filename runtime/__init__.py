"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`."""

from runtime.chat import Chat
from runtime.engine import Engine, Generation
from runtime.errors import RunnerError
from runtime.recording import Recording
from runtime.runner import Runner

__all__ = ["Chat", "Engine", "Generation", "Recording", "Runner", "RunnerError"]
