"""Progress as text: a line per stage where nobody watches, a bar where somebody does."""

import io

import pytest

from exporter.commands.display import STAGES, Display
from quant.progress import Progress

STEP = Progress("model.layers.0.mlp.up_proj", 1, 2, 754.2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_notes_and_a_line_per_finished_stage() -> None:
    log = io.StringIO()
    display = Display(log)
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


@pytest.mark.parametrize("columns", [80, 132])
def test_a_terminal_gets_a_bar_with_the_time_left(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with Display(terminal) as display:
        for stage in STAGES:
            display.stage(stage)
            display.progress(STEP)
            display._bar.refresh()
    text = terminal.getvalue()
    assert "12 min 34 s left" in text and "━" in text and "…" not in text
    for name in STAGES.values():
        assert f"{name}: 0.0 s" in text
