"""Progress as text: lines now and then where nobody watches, a bar where somebody does."""

import io
import threading

import pytest

from exporter.command_line.running import RunningLines
from exporter.commands.display import STAGES, Display
from quant.progress import Progress

STEP = Progress("model.layers.0.mlp.up_proj", 1, 2, 754.2)


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_notes_and_a_line_per_finished_stage() -> None:
    log = io.StringIO()
    display = Display(log, Clock())
    with display:
        display.note("A [note] that is longer than a terminal is wide stays one line " * 3)
        assert not display.began_work
        display.stage("quantize")
        assert display.began_work
        display.progress(STEP)
        display.stage("capture")
    note, quantized, captured = log.getvalue().splitlines()
    assert note.count("A [note]") == 3
    assert quantized == "Quantizing: 0.0 s" and captured == "Capturing the program: 0.0 s"


def test_a_stage_that_failed_is_not_called_finished() -> None:
    log = io.StringIO()
    with pytest.raises(ValueError), Display(log) as display:
        display.stage("lower")
        raise ValueError
    assert log.getvalue() == ""


def test_what_is_refused_before_any_work_gets_no_notes() -> None:
    log = io.StringIO()
    with pytest.raises(ValueError), Display(log) as display:
        display.note("No --checkpoint given")
        raise ValueError
    assert log.getvalue() == ""
    with Display(log) as display:
        display.note("No --checkpoint given")
    assert log.getvalue() == "No --checkpoint given\n"


def test_a_long_stage_is_heard_of_every_ten_seconds() -> None:
    clock, log = Clock(), io.StringIO()
    display = Display(log, clock)
    display.stage("quantize")
    for done in range(32):
        display.progress(Progress("model.layers.0", done, 32, 3.0 * (32 - done)))
        clock.now += 3.0
    display.stage("capture")
    assert log.getvalue().splitlines() == [
        "Quantizing: 12%, 12.0 s, 1 min 24 s left",
        "Quantizing: 25%, 24.0 s, 1 min 12 s left",
        "Quantizing: 37%, 36.0 s, 1 min 00 s left",
        "Quantizing: 50%, 48.0 s, 48.0 s left",
        "Quantizing: 62%, 1 min 00 s, 36.0 s left",
        "Quantizing: 75%, 1 min 12 s, 24.0 s left",
        "Quantizing: 87%, 1 min 24 s, 12.0 s left",
        "Quantizing: 1 min 36 s",
    ]


def test_a_stage_without_progress_of_its_own_is_still_running() -> None:
    clock, said = Clock(), list[str]()
    lines = RunningLines(said.append, clock)
    lines.tick()
    lines.begin("Capturing the program")
    for seconds in (0.0, 9.9, 0.1, 5.0, 180.0):
        clock.now += seconds
        lines.tick()
    lines.end()
    clock.now += 100.0
    lines.tick()
    assert said == [
        "Capturing the program: still running, 10.0 s",
        "Capturing the program: still running, 3 min 15 s",
    ]


def test_the_time_left_counts_down_between_reports() -> None:
    clock, said = Clock(), list[str]()
    lines = RunningLines(said.append, clock)
    lines.begin("Quantizing")
    lines.progress(4, 100, 25.0)
    for _ in range(3):
        clock.now += 10.0
        lines.tick()
    assert said == [
        "Quantizing: 4%, 10.0 s, 15.0 s left",
        "Quantizing: 4%, 20.0 s, 5.0 s left",
        "Quantizing: 4%, 30.0 s",
    ]


def test_the_elapsed_time_is_shown_without_any_report() -> None:
    clock, heard, before = Clock(), threading.Event(), threading.active_count()
    with RunningLines(lambda line: heard.set(), clock) as lines:
        lines.begin("Lowering")
        clock.now += 10.0
        assert heard.wait(60)
    assert threading.active_count() == before


def test_a_terminal_gets_no_such_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, terminal = Clock(), Terminal()
    with Display(terminal, clock) as display:
        display.stage("quantize")
        clock.now += 100.0
        display.progress(STEP)
        assert "50%" not in terminal.getvalue()


@pytest.mark.parametrize("columns", [80, 132])
def test_a_terminal_gets_a_bar_with_the_time_left(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with Display(terminal, Clock()) as display:
        for stage in STAGES:
            display.stage(stage)
            display.progress(STEP)
            display._bar.refresh()
    text = terminal.getvalue()
    assert "12 min 34 s left" in text and "━" in text and "…" not in text
    for name in STAGES.values():
        assert f"{name}: 0.0 s" in text
