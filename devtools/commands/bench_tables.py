"""A run's report as tables, and its progress as a bar."""

import math
import time
from collections.abc import Callable
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

_SECONDS_BETWEEN_LINES = 10


class Display:
    """Progress on standard error: a bar on a terminal, otherwise a line for the step that begins
    when the last line is ten seconds old."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._bar = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._done = self._steps = 0
        self._written = -math.inf

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._bar.stop()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def begin(self, steps: int) -> None:
        self._task = self._bar.add_task("", total=steps)
        self._done, self._steps = 0, steps

    def step(self, what: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=self._done, description=what)
            self._done += 1
            now = self._clock()
            if not self._console.is_terminal and now - self._written >= _SECONDS_BETWEEN_LINES:
                self._written = now
                self.note(f"{self._done} of {self._steps}: {what}")


def show(report: dict[str, Any], console: Console) -> None:
    """Prints the results: the limits, then a table per number of threads, then the ratios."""
    model = report["model"]
    console.print(
        f"{model['file']}: {model['name']}, {model['scheme']}, "
        f"{model['runs_with'] or model['delegate']}; a token reads "
        f"{model['weight_bytes_per_token'] / 1e6:.1f} MB of weights and, for each position before "
        f"it, {model['cache_bytes_per_position'] / 1e3:.1f} kB"
    )
    for limit in report["limits"]:
        console.print(_limit_line(limit))
    for threads in report["settings"]["threads"]:
        console.print(_results(report, threads))
        if report["starts"]:
            console.print(_starts(report, threads))
    if report["ratios"]:
        console.print(_ratios(report))
    for cost in report["batch_costs"]:
        console.print(
            f"{cost['engine']}, {_threads(cost['threads'])}: {cost['rows']} rows in one call take "
            f"{cost['ratio']:.2f} times one row"
        )
    for line in _gains(report):
        console.print(line)


def _gains(report: dict[str, Any]) -> list[str]:
    """How much more several conversations write than one."""
    results = [result for result in report["results"] if result["kind"] == "sequences"]
    alone = {
        (result["engine"], result["threads"]): result["tokens_per_s"]
        for result in results
        if result["sequences"] == 1
    }
    lines = []
    for (engine, threads), one in alone.items():
        gains = ", ".join(
            f"{result['tokens_per_s'] / one:.2f} ({result['sequences']})"
            for result in results
            if (result["engine"], result["threads"]) == (engine, threads)
            and result["sequences"] > 1
        )
        if gains:
            lines.append(f"{engine}, {_threads(threads)}: times 1 conversation: {gains}")
    return lines


def _limit_line(limit: dict[str, Any]) -> str:
    line = f"this machine, {_threads(limit['threads'])}:"
    if limit["read_bytes_per_s"]:
        line += f" reads {limit['read_bytes_per_s'] / 1e9:.1f} GB/s"
    if limit["int8_operations_per_s"]:
        line += (
            f", multiplies int8 at {limit['int8_operations_per_s'] / 1e9:.0f} GOPS "
            f"({limit['int8_unit']})"
        )
    return line


def _results(report: dict[str, Any], threads: int) -> Table:
    table = Table(title=f"{_threads(threads)}, tokens/s", title_justify="left")
    engines = [engine["name"] for engine in report["engines"]]
    table.add_column("")
    for name in engines:
        table.add_column(name, justify="right")
        if name == engines[0]:
            table.add_column("of the limit", justify="right")
    cells = {
        (result["work"], result["engine"]): result
        for result in report["results"]
        if result["threads"] == threads
    }
    for work in dict.fromkeys(work for work, _ in cells):
        share = cells.get((work, engines[0]), {}).get("share_of_limit")
        row = [
            _significant(cells[work, name]["tokens_per_s"]) if (work, name) in cells else "-"
            for name in engines
        ]
        row.insert(1, "-" if share is None else f"{share:.0%}")
        table.add_row(work, *row)
    return table


def _starts(report: dict[str, Any], threads: int) -> Table:
    table = Table(title=f"{_threads(threads)}, from the process's start", title_justify="left")
    for name in ("", "ready, ms", "first token, ms", "peak memory, MB"):
        table.add_column(name, justify="right" if name else "left")
    for start in report["starts"]:
        if start["threads"] == threads:
            peak = start["peak_memory_bytes"]
            table.add_row(
                start["engine"],
                f"{start['load_s'] * 1e3:.0f}",
                f"{start['ttft_s'] * 1e3:.0f}",
                "-" if peak is None else f"{peak / 1e6:.0f}",
            )
    return table


def _ratios(report: dict[str, Any]) -> Table:
    table = Table(title="ratios of medians: above 1, Thimble is better", title_justify="left")
    rivals = list(dict.fromkeys(ratio["against"] for ratio in report["ratios"]))
    columns = [(rival, threads) for rival in rivals for threads in report["settings"]["threads"]]
    table.add_column("against")
    for rival, threads in columns:
        table.add_column(f"{rival}, {threads}T", justify="right")
    cells = {
        (ratio["work"], ratio["against"], ratio["threads"]): f"{ratio['ratio']:.2f}"
        for ratio in report["ratios"]
    }
    for work in dict.fromkeys(ratio["work"] for ratio in report["ratios"]):
        table.add_row(work, *(cells.get((work, *column), "-") for column in columns))
    return table


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


def _significant(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"
