"""What an export says while it works; the command line shows it, a program may ignore it."""

from typing import Protocol

from quant.progress import Progress


class Listener(Protocol):
    """Hears of the stages of an export, on the thread that exports."""

    def note(self, text: str) -> None:
        """A fact worth a line."""

    def stage(self, name: str) -> None:
        """A stage begins, and with it the one before has ended."""

    def progress(self, progress: Progress) -> None:
        """How far the stage has come."""
