"""A bar on a terminal's standard error while models read text; nothing elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Bar:
    """Counts the tokens that have gone through models."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def expect(self, tokens: int) -> None:
        """How many tokens there will be in all."""
        self._progress.update(self._task, total=tokens)

    def advance(self, tokens: int) -> None:
        """So many more are done."""
        self._progress.advance(self._task, tokens)


@contextmanager
def progress_bar(what: str) -> Iterator[Bar]:
    """A bar that is gone in the end."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f} tokens"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield Bar(progress, progress.add_task(what, total=None))
