"""Progress on standard error: a live bar on a terminal; otherwise a line per stage, and more lines
during a long stage."""

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from exporter.command_line.interruption import raise_if_interrupted
from exporter.command_line.running import Clock, RunningLines, duration
from quant.progress import Progress as Step

STAGES = {
    "load": "Loading the weights",
    "write text": "Writing calibration text",
    "measure": "Measuring the effect of more bits",
    "quantize": "Quantizing",
    "quantize what sees": "Quantizing what sees",
    "capture": "Capturing the program",
    "lower": "Lowering to the delegate",
    "write": "Writing the file",
    "check": "Checking the file's results",
}


class Display:
    """Shows an export's notes, stages and progress; notes from before the first stage once it
    begins, so that a request that is refused gets none."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn(f"{{task.description:{max(map(len, STAGES.values()))}}}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._lines = RunningLines(self.note, clock)
        self._clock = clock
        self._task: TaskID | None = None
        self._stage = ""
        self._since = 0.0
        self._early: list[str] = []

    @property
    def began_work(self) -> bool:
        """Whether any stage has begun."""
        return self._stage != ""

    def __enter__(self) -> "Display":
        self._bar.start()
        if not self._console.is_terminal:
            self._lines.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._console.is_terminal:
            self._lines.__exit__()
        if kind is None:
            self._say_early()
            self._finish_stage()
        self._bar.stop()

    def note(self, text: str) -> None:
        if self.began_work:
            self._console.print(text, markup=False)
        else:
            self._early.append(text)

    def stage(self, name: str) -> None:
        raise_if_interrupted()
        self._say_early()
        self._finish_stage()
        self._stage, self._since = STAGES[name], self._clock()
        if not self._console.is_terminal:
            self._lines.begin(self._stage)
        self._task = self._bar.add_task(self._stage, total=None, left="")

    def progress(self, progress: Step) -> None:
        raise_if_interrupted()
        if self._task is None:
            return
        self._lines.progress(progress.done, progress.total, progress.seconds_left)
        left = f"{duration(progress.seconds_left)} left" if progress.seconds_left else ""
        self._bar.update(self._task, completed=progress.done, total=progress.total, left=left)

    def _say_early(self) -> None:
        for text in self._early:
            self._console.print(text, markup=False)
        self._early.clear()

    def _finish_stage(self) -> None:
        if self._task is None:
            return
        self._bar.remove_task(self._task)
        self._bar.refresh()  # otherwise the next line draws the old bar again
        self._task = None
        self._lines.end()
        self._console.print(f"{self._stage}: {duration(self._clock() - self._since)}")
