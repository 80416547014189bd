"""The interface for the progress of an export; the command line shows it."""

from typing import Protocol

from quant.progress import Progress


class Listener(Protocol):
    """Receives the stages of an export, on the exporting thread."""

    def note(self, text: str) -> None:
        """Receives a message of one line."""

    def stage(self, name: str) -> None:
        """Receives the begin of a stage, which ends the one before."""

    def progress(self, progress: Progress) -> None:
        """Receives the progress of the stage."""


class _Silent:
    def note(self, text: str) -> None:
        pass

    def stage(self, name: str) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass


SILENT: Listener = _Silent()  # for callers that show no progress
