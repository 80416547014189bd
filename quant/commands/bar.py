"""A progress bar on a terminal's standard error while models read text; otherwise a line at
times."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from exporter.command_line.running import RunningLines


class Bar:
    """Counts the tokens that models have processed."""

    def __init__(self, progress: Progress, task: TaskID, lines: RunningLines | None) -> None:
        self._progress, self._task, self._lines = progress, task, lines
        self._done = self._total = 0

    def expect(self, tokens: int) -> None:
        """Adds to the number of tokens to process."""
        self._total = tokens
        self._progress.update(self._task, total=tokens)

    def advance(self, tokens: int) -> None:
        """Adds to the number of processed tokens."""
        self._done += tokens
        self._progress.advance(self._task, tokens)
        if self._lines is not None:
            self._lines.progress(self._done, self._total)


@contextmanager
def progress_bar(what: str) -> Iterator[Bar]:
    """Provides a bar that disappears at the end."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f} tokens"),
        TimeRemainingColumn(),
    )
    if console.is_terminal:
        with Progress(*columns, console=console, transient=True) as progress:
            yield Bar(progress, progress.add_task(what, total=None), None)
        return
    progress = Progress(*columns, console=console, disable=True)
    with RunningLines(lambda line: console.print(line, soft_wrap=True)) as lines:
        lines.begin(what)
        yield Bar(progress, progress.add_task(what, total=None), lines)
