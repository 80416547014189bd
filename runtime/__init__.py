"""Running a `.pte` from Python: `Runner("model.pte").generate("Once upon a time")`."""

from runtime.chat import Chat
from runtime.errors import RunnerError
from runtime.recording import Recording
from runtime.runner import Runner

__all__ = ["Chat", "Recording", "Runner", "RunnerError"]
